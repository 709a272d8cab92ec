/** Locks of lock.so as {@code java.util.concurrent.locks} has them, on whatever client library. */
package so.lock;
