/* The rules of the module API for handles of keys, asserted on every use: of the checking build
 * (`make CHECKED=1`). In any other build nothing of this is compiled.
 *
 * What a server does with a handle that the API says nothing of, or with one that it allows, differs:
 * Redis 8.6 crashes where it is asked when a key expires that does not exist, all others answer
 * "never". So the module keeps to less than the API promises, and the checking build asserts that
 * on every server, whatever this one would do:
 *
 *   no handle (NULL)            may be closed, and asked for its type
 *   a handle, but no key        also written to, which makes the key
 *   a key                       all else, if it is of the type that the function is for
 *
 * The pointers through which the module calls the server are variables: keycheckBegin puts functions
 * in front of them.
 */
#ifndef LOCK_KEYCHECK_H
#define LOCK_KEYCHECK_H

#ifdef CHECKED

/* Once, at load, before any key is opened. */
void keycheckBegin(void);

#else

static inline void keycheckBegin(void) {
}

#endif

#endif
