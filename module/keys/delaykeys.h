/* The keys of a delayed queue: what is to be pushed to a list, and when.
 *
 *   delay:due:{list}      sorted set, id -> when it is due, unix ms
 *   delay:value:{list}    hash, id -> what is pushed then
 *
 * The keys are the truth: memory only has the time of the next look at them. Elements that are due
 * at the same ms are in order of arrival: each gets the next larger score that a double can
 * represent, some 4,000 of them within a ms. Beyond that they are in order of their ids; ids that
 * the server makes are in order of arrival.
 *
 * Only this file reads and writes these keys. Each write is propagated (propagate.h), except that
 * the delivery uses commands (deliver.c). A key of another type is left alone.
 */
#ifndef LOCK_DELAYKEYS_H
#define LOCK_DELAYKEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys/keynames.h"
#include "redismodule.h"

/* No element can be due later than this, unix ms: a score is a double. */
#define DELAYKEYS_LATEST (INT64_C(1) << 53)

struct delaykeys {
    RedisModuleCtx *ctx;
    RedisModuleString *list; /* belongs to the caller; NULL after delaykeysOpenQueue */
    /* The name of the queue: see delaykeysQueueOf. */
    RedisModuleString *queue;
    RedisModuleString *due_name, *value_name;
    RedisModuleKey *due, *value;
};

/* Opens the keys of the queue of this list, in the selected database. Always to be closed with
 * delaykeysClose. */
void delaykeysOpen(struct delaykeys *keys, RedisModuleCtx *ctx, RedisModuleString *list,
                   enum keyAccess access);
void delaykeysClose(struct delaykeys *keys);

/* The same, to read only, by the name of the queue: delaykeysQueueOf. */
void delaykeysOpenQueue(struct delaykeys *keys, RedisModuleCtx *ctx, RedisModuleString *queue);

/* Whether another client has written a key of another type under one of the names. */
bool delaykeysIsWrongType(const struct delaykeys *keys);

/* Whether one of the keys, opened to write, is in use: keynamesIsInUse. */
bool delaykeysAreInUse(const struct delaykeys *keys);

/* Whether the pending elements are for another list than the one that the keys were opened for: `x`
 * and `{x}` have the same keys, which belong to one list at a time. */
bool delaykeysAreOfAnother(const struct delaykeys *keys);

/* Whether this can be an id. The empty string cannot: the empty field of the hash has the list's
 * name. An element with the empty id, which only another client can have written, has no value, so
 * it is never delivered. */
bool delaykeysIsId(RedisModuleString *id);

/* How many elements are pending. */
size_t delaykeysLength(const struct delaykeys *keys);

/* Whether this id is pending. */
bool delaykeysHas(const struct delaykeys *keys, RedisModuleString *id);

/* Makes the element due at `due_ms`, unix ms, with this value. It replaces a pending element with
 * the same id, and counts as having arrived now. Must not be called if the keys belong to another
 * list: delaykeysAreOfAnother. Returns whether the element is a new one. */
bool delaykeysPut(struct delaykeys *keys, RedisModuleString *id, RedisModuleString *value,
                  int64_t due_ms);

/* Removes those of the `count` elements that are pending, as one change; with the last pending
 * element the keys are deleted. Returns how many were removed. */
size_t delaykeysRemove(struct delaykeys *keys, RedisModuleString *const *ids, size_t count);

/* One pending element. `id` and `value` are valid during the call; `value` is NULL if the hash has
 * none. */
struct delaykeysElement {
    RedisModuleString *id, *value;
    int64_t due_ms;
};

/* The value of this id, as a new reference; NULL if the hash has none. */
RedisModuleString *delaykeysValue(const struct delaykeys *keys, RedisModuleString *id);

/* Calls `visit` for the elements in order of time, until it returns false. `visit` must not change
 * the keys. */
void delaykeysEach(struct delaykeys *keys,
                   bool (*visit)(const struct delaykeysElement *element, void *context),
                   void *context);

/* When the first element is due of those that are due after `after_ms`, unix ms; INT64_MAX if there
 * is none. */
int64_t delaykeysNext(const struct delaykeys *keys, int64_t after_ms);

/* The list that the elements are pushed to, as a new reference. */
RedisModuleString *delaykeysList(const struct delaykeys *keys);

/* A pattern for SCAN that the names of all these sorted sets match. */
#define DELAYKEYS_DUE_PATTERN "delay:due:*"

/* Which of the two keys of a queue this is the name of, if any. */
enum delaykeysKind { DELAYKEYS_NEITHER, DELAYKEYS_DUE, DELAYKEYS_VALUE };
enum delaykeysKind delaykeysKindOf(RedisModuleString *name);

/* The name of a queue: what follows the prefix in the names of its keys, `{x}` for the lists `x`
 * and `{x}`. The keys say which list it is. A new reference. */
RedisModuleString *delaykeysQueueOf(RedisModuleCtx *ctx, RedisModuleString *list);

/* The same, from the name of one of its keys: not DELAYKEYS_NEITHER. NULL if no queue has such a
 * key. */
RedisModuleString *delaykeysQueueOfKey(RedisModuleCtx *ctx, RedisModuleString *name);

#endif
