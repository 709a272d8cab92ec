/* The keys of a delayed queue. They store what is to be pushed to a list, and when.
 *
 *   delay:due:{list}      sorted set, id -> when the element is due, unix ms
 *   delay:value:{list}    hash, id -> the value that is pushed to the list
 *
 * The keys are the only record of the elements. Memory only contains the time of the next check of
 * the keys.
 *
 * Elements that are due in the same ms are delivered in order of arrival. For this, each of them
 * gets the next larger score that a double can represent; a ms has room for some 4,000 elements.
 * Elements beyond that are in the order of their ids. Ids that the server creates are in order of
 * arrival.
 *
 * Only this file reads and writes these keys. Each write is propagated (propagate.h), except that
 * the delivery uses commands (deliver.c). A key of another type is not changed.
 */
#ifndef LOCK_DELAYKEYS_H
#define LOCK_DELAYKEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys/keynames.h"
#include "redismodule.h"

/* No element can be due later than this, unix ms, because a score is a double. */
#define DELAYKEYS_LATEST (INT64_C(1) << 53)

struct delaykeys {
    RedisModuleCtx *ctx;
    RedisModuleString *list; /* belongs to the caller; NULL after delaykeysOpenQueue */
    /* The name of the queue (see delaykeysQueueOf). */
    RedisModuleString *queue;
    RedisModuleString *due_name, *value_name;
    RedisModuleKey *due, *value;
};

/* Opens the keys of the queue of this list, in the selected database. Always to be closed with
 * delaykeysClose. */
void delaykeysOpen(struct delaykeys *keys, RedisModuleCtx *ctx, RedisModuleString *list,
                   enum keyAccess access);
void delaykeysClose(struct delaykeys *keys);

/* The same, to read only, for the queue with this name (see delaykeysQueueOf). */
void delaykeysOpenQueue(struct delaykeys *keys, RedisModuleCtx *ctx, RedisModuleString *queue);

/* Whether another client has written a key of another type under one of the names. */
bool delaykeysIsWrongType(const struct delaykeys *keys);

/* Whether the keys were opened to write and one of them is in use (see keynamesIsInUse). */
bool delaykeysAreInUse(const struct delaykeys *keys);

/* Whether the pending elements are for another list than the one that the keys were opened for. The
 * lists `x` and `{x}` have the same keys, which belong to one of the two lists at a time. */
bool delaykeysAreOfAnother(const struct delaykeys *keys);

/* Whether this can be an id. The empty string cannot, because the empty field of the hash contains
 * the name of the list. Only another client can have written an element with the empty id. Such an
 * element has no value, so it is never delivered. */
bool delaykeysIsId(RedisModuleString *id);

/* How many elements are pending. */
size_t delaykeysLength(const struct delaykeys *keys);

/* Whether this id is pending. */
bool delaykeysHas(const struct delaykeys *keys, RedisModuleString *id);

/* Stores an element that is due at `due_ms`, unix ms, with this value. It replaces a pending
 * element with the same id, and counts as having arrived now. Must not be called if the keys belong
 * to another list (see delaykeysAreOfAnother). Returns whether no element with this id was pending.
 */
bool delaykeysPut(struct delaykeys *keys, RedisModuleString *id, RedisModuleString *value,
                  int64_t due_ms);

/* Removes those of the `count` elements that are pending, as one change. If no pending elements
 * remain, the keys are deleted. Returns how many elements were removed. */
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

/* The earliest time after `after_ms` at which an element is due, unix ms; INT64_MAX if there is no
 * such element. */
int64_t delaykeysNext(const struct delaykeys *keys, int64_t after_ms);

/* The list that the elements are pushed to, as a new reference. */
RedisModuleString *delaykeysList(const struct delaykeys *keys);

/* A pattern for SCAN that the names of all these sorted sets match. */
#define DELAYKEYS_DUE_PATTERN "delay:due:*"

/* Which of the two keys of a queue this is the name of, if any. */
enum delaykeysKind { DELAYKEYS_NEITHER, DELAYKEYS_DUE, DELAYKEYS_VALUE };
enum delaykeysKind delaykeysKindOf(RedisModuleString *name);

/* The name of the queue of this list: the part after the prefix in the names of the keys. It is
 * `{x}` for both `x` and `{x}`; the keys store which of the two lists the elements are for. A new
 * reference. */
RedisModuleString *delaykeysQueueOf(RedisModuleCtx *ctx, RedisModuleString *list);

/* The name of the queue to which the key `name` belongs. The kind of the key must not be
 * DELAYKEYS_NEITHER. NULL if no queue can have a key of this name. */
RedisModuleString *delaykeysQueueOfKey(RedisModuleCtx *ctx, RedisModuleString *name);

#endif
