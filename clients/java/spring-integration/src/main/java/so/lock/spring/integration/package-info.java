/** Locks of lock.so for Spring Integration. */
package so.lock.spring.integration;
