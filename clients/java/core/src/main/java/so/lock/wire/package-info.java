/** What the locks need of a client library; one implementation for each library, nothing here knows which. */
package so.lock.wire;
