/* See items.h. */
#include "items.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

struct item *itemOf(struct mapEntry *entry) {
    return (struct item *)(void *)((char *)entry - offsetof(struct item, entry));
}

static void setKey(struct item *item, const char *bytes, size_t length) {
    assert_true(length <= sizeof item->bytes);
    memcpy(item->bytes, bytes, length);
    item->length = length;
    item->in_map = true;
}

void itemAddBefore(struct map *map, struct item *item, struct item *other) {
    setKey(item, other->bytes, other->length);
    mapAddBefore(map, &item->entry, item->bytes, &other->entry);
}

void itemAdd(struct map *map, struct item *item, const char *bytes, size_t length) {
    setKey(item, bytes, length);
    mapAdd(map, &item->entry, item->bytes, length);
}

void itemAddNumbered(struct map *map, struct item *item, int number) {
    char bytes[16];
    int length = snprintf(bytes, sizeof bytes, "key:%d", number);
    itemAdd(map, item, bytes, (size_t)length);
}

void itemRemove(struct map *map, struct item *item) {
    mapRemove(map, &item->entry);
    item->in_map = false;
}

bool itemHasKey(const struct item *item, const char *bytes, size_t length) {
    return item->length == length && memcmp(item->bytes, bytes, length) == 0;
}

void itemsAssertFound(const struct map *map, struct item *items, size_t count, const char *bytes,
                      size_t length) {
    size_t wanted = 0, found = 0;
    for (size_t i = 0; i < count; i++) {
        items[i].visits = 0;
        wanted += items[i].in_map && itemHasKey(&items[i], bytes, length);
    }
    struct mapEntry *entry = mapFind(map, bytes, length);
    for (; entry; entry = mapFindNext(entry), found++) {
        assert_true(itemOf(entry)->in_map);
        assert_true(itemHasKey(itemOf(entry), bytes, length));
        assert_int_equal(itemOf(entry)->visits++, 0);
    }
    assert_int_equal(found, wanted);
}

void itemCountVisit(struct mapEntry *entry, void *context) {
    size_t *visits = context;
    (*visits)++;
    itemOf(entry)->visits++;
}

void itemRemoveNthVisit(struct mapEntry *entry, void *context) {
    struct nthRemoval *removal = context;
    struct item *item = itemOf(entry);
    item->visits++;
    if (++removal->seen % removal->nth == 0) {
        itemRemove(removal->map, item);
    }
}
