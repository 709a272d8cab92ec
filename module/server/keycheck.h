/* Asserts the rules of the module API for handles of keys on every use. This file is only compiled
 * in the checking build (`make CHECKED=1`).
 *
 * Servers behave differently in cases that the API does not define, and even in some that it
 * allows. For example, if the module requests the expiry of a key that does not exist, Redis 8.6
 * crashes, and all others return "never". So the module uses less than the API allows. The checking
 * build asserts this on every server, whatever that server would do:
 *
 *   no handle (NULL)            may be closed, and its type may be requested
 *   a handle, but no key        may also be written to, which creates the key
 *   a key                       may be used by all functions for keys of its type
 *
 * The module calls the server through pointers, which are variables. keycheckBegin replaces them
 * with functions that check the handle and then call the server.
 */
#ifndef LOCK_KEYCHECK_H
#define LOCK_KEYCHECK_H

#ifdef CHECKED

/* To be called once, at load, before any key is opened. */
void keycheckBegin(void);

#else

static inline void keycheckBegin(void) {
}

#endif

#endif
