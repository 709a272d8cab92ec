/* Asserts the rules of the module API for handles of keys on every use: only in the checking build
 * (`make CHECKED=1`). In any other build nothing of this is compiled.
 *
 * Servers differ in what they do with a handle where the API says nothing, or even where it allows
 * the use: asked for the expiry of a key that does not exist, Redis 8.6 crashes, and all others
 * return "never". So the module uses less than the API promises, and the checking build asserts
 * that on every server, whatever that server would do:
 *
 *   no handle (NULL)            may be closed, and asked for its type
 *   a handle, but no key        also written to, which creates the key
 *   a key                       all else, if it is of the type that the function is for
 *
 * The pointers through which the module calls the server are variables: keycheckBegin puts
 * functions in front of them.
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
