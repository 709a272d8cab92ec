/* Entries of a map, with what the tests of hashmap.c record about each. */
#ifndef LOCK_TESTS_ITEMS_H
#define LOCK_TESTS_ITEMS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/hashmap.h"

/* The entry is not the first member: the map must not confuse an entry with the struct around it.
 */
struct item {
    int visits;
    bool in_map;
    char bytes[16];
    size_t length;
    struct mapEntry entry;
};

struct item *itemOf(struct mapEntry *entry);

/* Adds the item under a key, which is copied into the item. */
void itemAdd(struct map *map, struct item *item, const char *bytes, size_t length);

/* Adds the item under the key of `other`, and before it. */
void itemAddBefore(struct map *map, struct item *item, struct item *other);

/* Adds the item under "key:<number>". */
void itemAddNumbered(struct map *map, struct item *item, int number);

void itemRemove(struct map *map, struct item *item);

bool itemHasKey(const struct item *item, const char *bytes, size_t length);

/* Asserts that the map finds under this key each of the items that are in it with that key, once,
 * and no others. */
void itemsAssertFound(const struct map *map, struct item *items, size_t count, const char *bytes,
                      size_t length);

/* For mapEach: counts the visits of each item, and all visits in the size_t that is the context. */
void itemCountVisit(struct mapEntry *entry, void *context);

/* The context of itemRemoveNthVisit, which removes every `nth` item that it visits from the map. */
struct nthRemoval {
    struct map *map;
    size_t nth, seen;
};

void itemRemoveNthVisit(struct mapEntry *entry, void *context);

#endif
