/** Locks of lock.so with the interfaces of {@code java.util.concurrent.locks}, for any client library. */
package so.lock;
