/** Locks of lock.so for Spring Boot. */
package so.lock.spring.boot;
