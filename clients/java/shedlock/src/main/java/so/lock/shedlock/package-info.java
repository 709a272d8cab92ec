/** Locks of lock.so for ShedLock. */
package so.lock.shedlock;
