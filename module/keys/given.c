/* See given.h. */
#include "keys/given.h"

#include <stddef.h>
#include <string.h>

#include "core/hashmap.h"

/* The number of places in a set. A lock can be in any place of one set. */
#define WAYS 4
#define SETS (GIVEN_MOST / WAYS)

static struct given table[SETS][WAYS];

static uint64_t givenHashOf(RedisModuleCtx *ctx, RedisModuleString *name) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(name, &length);
    uint64_t words[2] = {mapHash(bytes, length), (uint64_t)RedisModule_GetSelectedDb(ctx)};
    char both[sizeof(words)];
    memcpy(both, words, sizeof(words));
    uint64_t hash = mapHash(both, sizeof(both));
    return hash > 0 ? hash : 1;
}

static struct given *givenFindByHash(uint64_t lock) {
    struct given *set = table[lock % SETS];
    for (int i = 0; i < WAYS; i++) {
        if (set[i].lock == lock) {
            return &set[i];
        }
    }
    return NULL;
}

static struct given *smallest(uint64_t lock) {
    struct given *set = table[lock % SETS], *found = &set[0];
    for (int i = 1; i < WAYS; i++) {
        found = set[i].token < found->token ? &set[i] : found;
    }
    return found;
}

const struct given *givenFind(RedisModuleCtx *ctx, RedisModuleString *name) {
    return givenFindByHash(givenHashOf(ctx, name));
}

void givenNote(RedisModuleCtx *ctx, RedisModuleString *name, int64_t token, uint32_t life) {
    uint64_t lock = givenHashOf(ctx, name);
    struct given *given = givenFindByHash(lock);
    if (!given) {
        given = smallest(lock);
    }
    *given = (struct given){lock, token, life};
}
