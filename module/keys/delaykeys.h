/* The keys of a delayed queue: what is to be pushed to a list, and when.
 *
 *   delay:due:{list}      sorted set, id -> when it is due, unix ms
 *   delay:value:{list}    hash, id -> what is pushed then
 *
 * The keys are the truth: memory only knows when to look at them next. Elements that are due at the
 * same ms stand in order of arrival: each gets the next larger score that a double has, some 4,000
 * of them within a ms; beyond that, in order of their ids, and ids that the server makes are in
 * order of arrival.
 *
 * The one file that reads and writes these keys; each write announces itself (effects.h), but for
 * the delivery, which is commands (deliver.c). A key of another type is left alone.
 */
#ifndef LOCK_DELAYKEYS_H
#define LOCK_DELAYKEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys/keynames.h"
#include "redismodule.h"

/* No element can be due later: a score is a double. */
#define DELAYKEYS_LATEST (INT64_C(1) << 53)

struct delaykeys {
    RedisModuleCtx *ctx;
    RedisModuleString *list; /* the caller's; NULL when opened by the queue's name */
    RedisModuleString
        *queue; /* what the queue is known by: what its keys have behind their prefixes */
    RedisModuleString *due_name, *value_name;
    RedisModuleKey *due, *value;
};

/* Opens the keys of the queue before this list, in the selected database. Always to be closed. */
void delaykeysOpen(struct delaykeys *keys, RedisModuleCtx *ctx, RedisModuleString *list,
                   enum keyAccess access);
void delaykeysClose(struct delaykeys *keys);

/* Likewise, to read, by what the queue is known by: delaykeysQueueOf. */
void delaykeysOpenQueue(struct delaykeys *keys, RedisModuleCtx *ctx, RedisModuleString *queue);

/* Whether somebody has put something of another type under one of the names. */
bool delaykeysIsWrongType(const struct delaykeys *keys);

/* Whether one of the keys, opened to be written to, is in use: keynamesIsInUse. */
bool delaykeysAreInUse(const struct delaykeys *keys);

/* Whether what is pending here is for another list than the one that the keys were opened for: `x`
 * and `{x}` have the same keys, which are one list's at a time. */
bool delaykeysAreOfAnother(const struct delaykeys *keys);

/* Whether this can be an id: the empty one cannot, as the hash has the list's name there. What another
 * client has written under it has no value, and so is never delivered. */
bool delaykeysIsId(RedisModuleString *id);

/* How many elements are pending. */
size_t delaykeysLength(const struct delaykeys *keys);

/* Whether this id is pending. */
bool delaykeysHas(const struct delaykeys *keys, RedisModuleString *id);

/* The element is due at `due_ms` with this value; a pending one of the same id is so from now on,
 * and counts as having arrived now. Only where the keys are not another list's. Returns whether it
 * is a new one. */
bool delaykeysPut(struct delaykeys *keys, RedisModuleString *id, RedisModuleString *value,
                  int64_t due_ms);

/* Removes those of `count` elements that are pending, as one change; the last of all takes the keys
 * with it. Returns how many they were. */
size_t delaykeysRemove(struct delaykeys *keys, RedisModuleString *const *ids, size_t count);

/* One pending element. */
struct delaykeysElement {
    RedisModuleString *id,
        *value; /* valid during the call; `value` is NULL where the hash has none */
    int64_t due_ms;
};

/* The value of this id, a new reference; NULL where the hash has none. */
RedisModuleString *delaykeysValue(const struct delaykeys *keys, RedisModuleString *id);

/* Visits the elements in order of time, until `visit` returns false. It changes nothing of the
 * keys. */
void delaykeysEach(struct delaykeys *keys,
                   bool (*visit)(const struct delaykeysElement *element, void *context),
                   void *context);

/* When the first element is due that is so after `after_ms`, unix ms; INT64_MAX: there is none. */
int64_t delaykeysNext(const struct delaykeys *keys, int64_t after_ms);

/* The list that is pushed to, a new reference. */
RedisModuleString *delaykeysList(const struct delaykeys *keys);

/* What the names of all sorted sets match, for SCAN. */
#define DELAYKEYS_DUE_PATTERN "delay:due:*"

/* Whether this is the name of one of the two keys of a queue. */
enum delaykeysKind { DELAYKEYS_NEITHER, DELAYKEYS_DUE, DELAYKEYS_VALUE };
enum delaykeysKind delaykeysKindOf(RedisModuleString *name);

/* What a queue is known by: what stands behind the prefix in the names of its keys, `{x}` for the
 * lists `x` and `{x}`. The keys say which list it is. A new reference. */
RedisModuleString *delaykeysQueueOf(RedisModuleCtx *ctx, RedisModuleString *list);

/* Likewise, from the name of one of its keys, of delaykeysKindOf. NULL: no queue has such a key. */
RedisModuleString *delaykeysQueueOfKey(RedisModuleCtx *ctx, RedisModuleString *name);

#endif
