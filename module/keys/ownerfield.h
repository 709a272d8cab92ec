/* What a name in the keys of a lock means: the one rule for who can be an owner.
 *
 * The fields of a lock's hash, the members of its leases and of its fair queue, and the owners in
 * commands are all checked here. A name that cannot be an owner belongs to no owner, wherever it is
 * read from: another client has written it (docs/keys.md, "What other clients write").
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
    OWNERFIELD_OF_OWNER,  /* an owner: its holds, reads or permits */
    OWNERFIELD_OF_WRITES, /* an owner and `:write`: its write holds */
    OWNERFIELD_FOREIGN    /* nothing that the module writes */
};

/* What a field of this name is. */
enum ownerfieldKind ownerfieldKindOf(RedisModuleString *field);

enum ownerfieldOwner {
    OWNERFIELD_OWNER,
    OWNERFIELD_BAD_LENGTH, /* no owner: empty, or too long */
    OWNERFIELD_RESERVED    /* no owner: `mode`, or a name that ends in `:write` */
};

/* Whether this can be an owner. */
enum ownerfieldOwner ownerfieldJudge(RedisModuleString *name);

/* The same, for a caller that need not know why not. */
bool ownerfieldIsOwner(RedisModuleString *name);

#endif
