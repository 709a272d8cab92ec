/** What the locks need from a client library. Each library has an implementation, on which nothing here depends. */
package so.lock.wire;
