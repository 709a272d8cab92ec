/* Entries of a map, with what the tests of hashmap.c need to know about each. */
#ifndef LOCK_TESTS_ITEMS_H
#define LOCK_TESTS_ITEMS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/hashmap.h"

/* The entry does not come first: the map must not take an entry for the struct around it. */
struct item {
    int visits;
    bool in_map;
    char bytes[16];
    size_t length;
    struct mapEntry entry;
};

struct item *itemOf(struct mapEntry *entry);

/* Adds the item under a key that is copied into it. */
void itemAdd(struct map *map, struct item *item, const char *bytes, size_t length);

/* Adds the item under the key of the other, before it. */
void itemAddBefore(struct map *map, struct item *item, struct item *other);

/* Adds the item under "key:<number>". */
void itemAddNumbered(struct map *map, struct item *item, int number);

void itemRemove(struct map *map, struct item *item);

bool itemHasKey(const struct item *item, const char *bytes, size_t length);

/* What is found under a key are those of the items that are in the map with that key, each once,
 * and no other. */
void itemsAssertFound(const struct map *map, struct item *items, size_t count, const char *bytes,
                      size_t length);

/* For mapEach: counts the visits of each item, and all of them in the size_t that is the context.
 */
void itemCountVisit(struct mapEntry *entry, void *context);

/* The context of itemHarvestVisit: every `nth` item that it sees it takes out of the map. */
struct harvest {
    struct map *map;
    size_t nth, seen;
};

void itemHarvestVisit(struct mapEntry *entry, void *context);

#endif
