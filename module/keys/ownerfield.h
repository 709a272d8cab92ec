/* Which names can be owners, and what a name in the keys of a lock means.
 *
 * The fields of a lock's hash, the members of its leases and of its fair queue, and the owners in
 * commands are all checked here. If a name in a key cannot be an owner, another client has written
 * it, and it belongs to no owner (docs/keys.md, "What other clients write").
 */
#ifndef LOCK_OWNERFIELD_H
#define LOCK_OWNERFIELD_H

#include <stdbool.h>
#include <stddef.h>

#include "redismodule.h"

/* The longest owner, in bytes. */
#define OWNERFIELD_LONGEST 512

/* The suffix of the field of an owner's write holds. */
#define OWNERFIELD_WRITE ":write"
#define OWNERFIELD_WRITE_LENGTH (sizeof(OWNERFIELD_WRITE) - 1)

enum ownerfieldKind {
    OWNERFIELD_MODE,      /* `mode` */
    OWNERFIELD_OF_OWNER,  /* the name of an owner: its holds, reads or permits */
    OWNERFIELD_OF_WRITES, /* the name of an owner and `:write`: its write holds */
    OWNERFIELD_FOREIGN    /* a name that the module does not write */
};

/* What a field of this name is. */
enum ownerfieldKind ownerfieldKindOf(RedisModuleString *field);

enum ownerfieldOwner {
    OWNERFIELD_OWNER,
    OWNERFIELD_BAD_LENGTH, /* cannot be an owner: empty, or too long */
    OWNERFIELD_RESERVED    /* cannot be an owner: `mode`, or ends in `:write` */
};

/* Whether this can be an owner. All reserved names end in e, so most names are accepted without
 * comparing them. */
enum ownerfieldOwner ownerfieldJudgeBytes(const char *bytes, size_t length);
static inline enum ownerfieldOwner ownerfieldJudge(RedisModuleString *name) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(name, &length);
    bool is_sure = length > 0 && length <= OWNERFIELD_LONGEST && bytes[length - 1] != 'e';
    return is_sure ? OWNERFIELD_OWNER : ownerfieldJudgeBytes(bytes, length);
}

/* Whether ownerfieldJudge returns OWNERFIELD_OWNER. */
bool ownerfieldIsOwner(RedisModuleString *name);

#endif
