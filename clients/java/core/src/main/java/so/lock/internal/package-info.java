/** What the locks need from a client library. For the adapters of this package only; it may change at any time. */
package so.lock.internal;
