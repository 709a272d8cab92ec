/* hashmap.[ch]: which entries are found by which keys, and what memory the map owns. */
#include "core/hashmap.h"

#include <string.h>

#include "support/items.h"
#include "support/unit.h"

#define MANY 300
#define LARGE 5000

static void a_zeroed_map_is_empty_and_owns_no_memory(void **state) {
    (void)state;
    size_t before = memLive();
    struct map map = {0};
    assert_null(mapFind(&map, "a", 1));
    assert_null(mapFind(&map, "", 0));
    assert_int_equal(map.used, 0);
    assert_int_equal(memLive(), before);
}

static void an_entry_is_found_until_it_is_removed(void **state) {
    (void)state;
    struct map map = {0};
    struct item a = {0}, b = {0};
    itemAdd(&map, &a, "a", 1);
    itemAdd(&map, &b, "b", 1);
    assert_int_equal(map.used, 2);
    assert_ptr_equal(mapFind(&map, "a", 1), &a.entry);
    assert_ptr_equal(mapFind(&map, "b", 1), &b.entry);
    assert_null(mapFind(&map, "c", 1));
    itemRemove(&map, &a);
    assert_null(mapFind(&map, "a", 1));
    assert_ptr_equal(mapFind(&map, "b", 1), &b.entry);
    itemRemove(&map, &b);
}

static void keys_are_bytes_and_not_strings(void **state) {
    (void)state;
    struct map map = {0};
    struct item items[5] = {{0}};
    itemAdd(&map, &items[0], "a", 1);
    itemAdd(&map, &items[1], "a\0", 2);
    itemAdd(&map, &items[2], "a\0b", 3);
    itemAdd(&map, &items[3], "", 0);
    itemAdd(&map, &items[4], "\xff\xfe", 2);
    for (size_t i = 0; i < LENGTH_OF(items); i++) {
        assert_ptr_equal(mapFind(&map, items[i].bytes, items[i].length), &items[i].entry);
        assert_null(mapFindNext(&items[i].entry));
    }
    assert_null(mapFind(&map, "a\0c", 3));
    for (size_t i = 0; i < LENGTH_OF(items); i++) {
        itemRemove(&map, &items[i]);
    }
}

static void an_entry_may_be_added_and_found_by_the_key_of_another_maps_entry(void **state) {
    (void)state;
    struct map one = {0}, other = {0};
    struct item items[2] = {{0}};
    struct mapEntry like[2];
    itemAdd(&one, &items[0], "a\0b", 3);
    itemAdd(&one, &items[1], "c", 1);
    mapAddLike(&other, &like[0], &items[0].entry);
    mapAddLike(&other, &like[1], &items[1].entry);
    assert_ptr_equal(mapFind(&other, "a\0b", 3), &like[0]);
    assert_ptr_equal(mapFind(&other, "c", 1), &like[1]);
    assert_ptr_equal(mapFind(&one, "c", 1), &items[1].entry);
    assert_ptr_equal(mapFindLike(&other, &items[0].entry), &like[0]);
    assert_ptr_equal(mapFindLike(&one, &like[1]), &items[1].entry);
    mapRemove(&other, &like[1]);
    assert_null(mapFindLike(&other, &items[1].entry));
    mapAddLike(&other, &like[1], &items[1].entry);
    assert_null(mapFindLike(&(struct map){0}, &like[0]));
    for (size_t i = 0; i < LENGTH_OF(items); i++) {
        mapRemove(&other, &like[i]);
        itemRemove(&one, &items[i]);
    }
}

static void an_entry_is_alone_while_no_other_has_its_key(void **state) {
    (void)state;
    struct map map = {0};
    struct item a = {0}, same[3] = {{0}};
    itemAdd(&map, &a, "a", 1);
    for (size_t i = 0; i < LENGTH_OF(same); i++) {
        itemAdd(&map, &same[i], "b", 1);
        assert_int_equal(mapIsAlone(&same[i].entry), i == 0);
    }
    assert_true(mapIsAlone(&a.entry));
    itemRemove(&map, &same[1]);
    assert_false(mapIsAlone(&same[0].entry));
    assert_false(mapIsAlone(&same[2].entry));
    itemRemove(&map, &same[0]);
    assert_true(mapIsAlone(&same[2].entry));
    itemRemove(&map, &same[2]);
    itemRemove(&map, &a);
}

static void the_key_is_not_copied(void **state) {
    (void)state;
    struct map map = {0};
    struct item a = {0};
    itemAdd(&map, &a, "a", 1);
    assert_ptr_equal(mapFind(&map, "a", 1)->key, a.bytes);
    itemRemove(&map, &a);
}

static void entries_of_equal_keys_are_found_one_after_the_other(void **state) {
    (void)state;
    struct map map = {0};
    struct item items[20] = {{0}};
    for (size_t i = 0; i < LENGTH_OF(items); i++) { /* the map doubles twice */
        itemAddNumbered(&map, &items[i], (int)(i % 2));
        itemsAssertFound(&map, items, LENGTH_OF(items), "key:0", 5);
        itemsAssertFound(&map, items, LENGTH_OF(items), "key:1", 5);
    }
    for (size_t i = 0; i < LENGTH_OF(items); i++) {
        itemRemove(&map, &items[(i * 7) % LENGTH_OF(items)]); /* 7 and 20 are coprime: each once */
        itemsAssertFound(&map, items, LENGTH_OF(items), "key:0", 5);
        itemsAssertFound(&map, items, LENGTH_OF(items), "key:1", 5);
    }
}

/* The waiters of one owner are granted in the order in which they are found. */
static void entries_of_equal_keys_are_found_in_the_order_of_arrival(void **state) {
    (void)state;
    struct map map = {0};
    struct item same[20] = {{0}}, other[20] = {{0}};
    for (size_t i = 0; i < LENGTH_OF(same); i++) { /* the map doubles several times */
        itemAdd(&map, &same[i], "same", 4);
        itemAddNumbered(&map, &other[i], (int)i);
    }
    itemRemove(&map, &same[7]);
    itemAdd(&map, &same[7], "same", 4); /* now the last */
    const struct mapEntry *entry = mapFind(&map, "same", 4);
    for (size_t i = 0; i < LENGTH_OF(same); i++) {
        if (i != 7) {
            assert_ptr_equal(entry, &same[i].entry);
            entry = mapFindNext(entry);
        }
    }
    assert_ptr_equal(entry, &same[7].entry);
    assert_null(mapFindNext(entry));
    for (size_t i = 0; i < LENGTH_OF(same); i++) {
        itemRemove(&map, &same[i]);
        itemRemove(&map, &other[i]);
    }
}

/* Adds an item right before another one and with the same hash, as in a collision. */
static void addColliding(struct map *map, struct item *item, const char *bytes, size_t length,
                         struct item *with) {
    item->in_map = true;
    item->length = length;
    memcpy(item->bytes, bytes, length);
    item->entry = (struct mapEntry){.next = &with->entry,
                                    .key = item->bytes,
                                    .key_length = length,
                                    .hash = with->entry.hash,
                                    .youngest = &item->entry};
    for (size_t i = 0; i < map->bucket_count; i++) {
        for (struct mapEntry **at = &map->buckets[i]; *at; at = &(*at)->next) {
            if (*at == &with->entry) {
                *at = &item->entry;
                map->used++;
                return;
            }
        }
    }
    fail_msg("the entry to collide with is not in the map");
}

static void keys_with_equal_hashes_are_distinguished(void **state) {
    (void)state;
    struct map map = {0};
    struct item items[3] = {{0}};
    itemAdd(&map, &items[2], "k\0y1", 4);
    addColliding(&map, &items[1], "k\0y2", 4, &items[2]);  /* of the same length */
    addColliding(&map, &items[0], "k\0y1x", 5, &items[1]); /* beginning with the key searched for */
    assert_ptr_equal(mapFind(&map, "k\0y1", 4), &items[2].entry);
    assert_null(mapFindNext(&items[2].entry));
    assert_null(mapFindNext(&items[1].entry));
    assert_null(mapFindNext(&items[0].entry));
    for (size_t i = 0; i < LENGTH_OF(items); i++) {
        itemRemove(&map, &items[i]);
    }
}

static void remove_removes_exactly_that_entry_of_several_with_its_key(void **state) {
    (void)state;
    for (size_t victim = 0; victim < 3; victim++) {
        struct map map = {0};
        struct item items[3] = {{0}};
        for (size_t i = 0; i < 3; i++) {
            itemAdd(&map, &items[i], "same", 4);
        }
        itemRemove(&map, &items[victim]);
        assert_null(items[victim].entry.next);
        itemsAssertFound(&map, items, 3, "same", 4);
        assert_int_equal(map.used, 2);
        itemRemove(&map, &items[(victim + 1) % 3]);
        itemRemove(&map, &items[(victim + 2) % 3]);
    }
}

static void there_are_one_to_eight_buckets_for_each_entry(void **state) {
    (void)state;
    struct map map = {0};
    static struct item items[MANY];
    for (size_t i = 0; i < MANY; i++) {
        itemAddNumbered(&map, &items[i], (int)i);
        assert_true(map.bucket_count >= map.used);
        assert_true(map.bucket_count <= 8 * map.used); /* and not by far more */
        assert_int_equal(map.bucket_count & (map.bucket_count - 1), 0);
        assert_int_equal(map.used, i + 1);
    }
    for (size_t i = 0; i < MANY; i++) {
        assert_ptr_equal(mapFind(&map, items[i].bytes, items[i].length), &items[i].entry);
    }
    for (size_t i = 0; i < MANY; i++) {
        itemRemove(&map, &items[i]);
    }
}

static void a_map_that_was_large_shrinks_when_an_entry_is_added(void **state) {
    (void)state;
    struct map map = {0};
    static struct item items[MANY];
    for (int i = 0; i < MANY; i++) {
        itemAddNumbered(&map, &items[i], i);
    }
    for (int i = 2; i < MANY; i++) {
        itemRemove(&map, &items[i]);
    }
    for (int i = 2; i < 50; i++) {
        itemAddNumbered(&map, &items[2], i);
        assert_ptr_equal(mapFind(&map, items[1].bytes, items[1].length), &items[1].entry);
        itemRemove(&map, &items[2]);
    }
    assert_true(map.bucket_count <= 64);
    assert_null(map.old);
    itemRemove(&map, &items[0]);
    itemRemove(&map, &items[1]);
}

/* Fills the map until it has at least `buckets` buckets, and has moved some of its old ones, but
 * not all. Returns the number of items added. */
static size_t fillUntilHalfMoved(struct map *map, struct item *items, size_t buckets) {
    size_t count = 0;
    while (map->bucket_count < buckets || !map->old || map->moved < map->old_count / 2) {
        itemAddNumbered(map, &items[count], (int)count);
        count++;
        assert_true(count < LARGE);
    }
    assert_true(map->moved < map->old_count);
    return count;
}

static void adding_an_entry_moves_few_others_however_large_the_map_is(void **state) {
    (void)state;
    struct map map = {0};
    static struct item items[LARGE];
    for (size_t i = 0; i < LARGE; i++) {
        size_t moved = map.moved, count = map.bucket_count, old_count = map.old_count;
        itemAddNumbered(&map, &items[i], (int)i);
        assert_true(map.bucket_count == count || map.moved == 0); /* none yet, and none were left */
        assert_true(map.bucket_count == count || old_count == 0);
        assert_true((map.old ? map.moved : old_count) <= moved + 64);
    }
    for (size_t i = 0; i < LARGE; i++) {
        itemRemove(&map, &items[i]);
    }
}

static void all_entries_are_found_and_removed_while_the_map_grows(void **state) {
    (void)state;
    size_t before = memLive();
    struct map map = {0};
    static struct item items[LARGE];
    size_t count = fillUntilHalfMoved(&map, items, 1024);
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(mapFind(&map, items[i].bytes, items[i].length), &items[i].entry);
    }
    assert_null(mapFind(&map, "key:none", 8));
    for (size_t i = 0; i < count; i++) {
        itemRemove(&map, &items[i]);
        assert_null(mapFind(&map, items[i].bytes, items[i].length));
    }
    assert_int_equal(memLive(), before); /* including the old array */
}

static void equal_keys_stay_together_while_the_map_grows(void **state) {
    (void)state;
    struct map map = {0};
    static struct item items[LARGE], same[LARGE];
    size_t count = fillUntilHalfMoved(&map, items, 1024);
    size_t moved = map.moved;
    for (size_t i = 0; i < count; i++) {
        itemAddNumbered(&map, &same[i], (int)i);
    }
    assert_true(map.moved != moved);
    for (size_t i = 0; i < count; i++) {
        struct mapEntry *first = mapFind(&map, items[i].bytes, items[i].length);
        assert_ptr_equal(first, &items[i].entry);
        assert_ptr_equal(mapFindNext(first), &same[i].entry);
        itemRemove(&map, i % 2 ? &items[i] : &same[i]);
        assert_ptr_equal(mapFind(&map, items[i].bytes, items[i].length),
                         i % 2 ? &same[i].entry : &items[i].entry);
    }
    for (size_t i = 0; i < count; i++) {
        itemRemove(&map, i % 2 ? &same[i] : &items[i]);
    }
}

static void each_visits_all_and_may_remove_them_while_the_map_grows(void **state) {
    (void)state;
    for (size_t nth = 1; nth <= 3; nth++) {
        size_t before = memLive(), visits = 0;
        struct map map = {0};
        static struct item items[LARGE];
        memset(items, 0, sizeof items);
        size_t count = fillUntilHalfMoved(&map, items, 1024);
        struct nthRemoval removal = {&map, nth, 0};
        mapEach(&map, itemRemoveNthVisit, &removal);
        assert_int_equal(removal.seen, count);
        assert_int_equal(map.used, count - count / nth);
        mapEach(&map, itemCountVisit, &visits);
        assert_int_equal(visits, map.used);
        struct nthRemoval rest = {&map, 1, 0};
        mapEach(&map, itemRemoveNthVisit, &rest);
        assert_int_equal(memLive(), before);
    }
}

static void an_emptied_map_owns_no_memory_and_works_again(void **state) {
    (void)state;
    size_t before = memLive();
    struct map map = {0};
    struct item a = {0};
    for (int round = 0; round < 3; round++) {
        itemAdd(&map, &a, "a", 1);
        assert_true(memLive() > before);
        itemRemove(&map, &a);
        assert_int_equal(memLive(), before);
        assert_null(map.buckets);
        assert_int_equal(map.bucket_count, 0);
        assert_null(map.old);
        assert_null(mapFind(&map, "a", 1));
    }
}

static size_t longestChain(const struct map *map) {
    size_t longest = 0;
    for (size_t i = 0; i < map->bucket_count; i++) {
        size_t length = 0;
        for (const struct mapEntry *entry = map->buckets[i]; entry; entry = entry->next) {
            length++;
        }
        longest = length > longest ? length : longest;
    }
    return longest;
}

/* Keys that differ only in one position, wherever it is, must not share few buckets: names and
 * owners are often a common text with a number somewhere. If 256 keys are put into 512 buckets at
 * random, a chain longer than 7 is very rare. */
static void keys_that_differ_in_one_byte_spread_over_the_buckets(void **state) {
    (void)state;
    static struct item items[256];
    for (size_t position = 0; position < 12; position++) {
        struct map map = {0};
        for (size_t i = 0; i < LENGTH_OF(items); i++) {
            char bytes[12] = "job:........";
            bytes[position] = (char)i;
            itemAdd(&map, &items[i], bytes, sizeof bytes);
        }
        assert_int_equal(map.bucket_count, 2 * LENGTH_OF(items));
        assert_true(longestChain(&map) <= 12);
        for (size_t i = 0; i < LENGTH_OF(items); i++) {
            itemRemove(&map, &items[i]);
        }
    }
}

/* A client that chooses keys must not be able to predict their buckets. */
static void the_seed_determines_the_hash_of_a_key(void **state) {
    (void)state;
    uint64_t hashes[3];
    for (size_t i = 0; i < LENGTH_OF(hashes); i++) {
        struct map map = {0};
        struct item a = {0};
        mapSeed((const uint64_t[2]){i, ~i});
        itemAdd(&map, &a, "a", 1);
        hashes[i] = a.entry.hash;
        itemRemove(&map, &a);
    }
    mapSeed((const uint64_t[2]){0, 0});
    assert_int_not_equal(hashes[0], hashes[1]);
    assert_int_not_equal(hashes[1], hashes[2]);
    assert_int_not_equal(hashes[0], hashes[2]);
}

static void each_visits_every_entry_once(void **state) {
    (void)state;
    struct map map = {0};
    size_t visits = 0;
    mapEach(&map, itemCountVisit, &visits);
    assert_int_equal(visits, 0);
    struct item items[50] = {{0}};
    for (size_t i = 0; i < LENGTH_OF(items); i++) {
        itemAddNumbered(&map, &items[i], (int)(i / 2)); /* pairs of equal keys */
    }
    mapEach(&map, itemCountVisit, &visits);
    assert_int_equal(visits, LENGTH_OF(items));
    for (size_t i = 0; i < LENGTH_OF(items); i++) {
        assert_int_equal(items[i].visits, 1);
        itemRemove(&map, &items[i]);
    }
}

static void each_may_remove_the_entry_that_it_visits(void **state) {
    (void)state;
    for (size_t nth = 1; nth <= 3;
         nth++) { /* 1: all of them, so that the array is freed meanwhile */
        struct map map = {0};
        struct item items[50] = {{0}};
        for (size_t i = 0; i < LENGTH_OF(items); i++) {
            itemAddNumbered(&map, &items[i], (int)(i / 5));
        }
        struct nthRemoval removal = {&map, nth, 0};
        mapEach(&map, itemRemoveNthVisit, &removal);
        assert_int_equal(map.used, LENGTH_OF(items) - LENGTH_OF(items) / nth);
        for (size_t i = 0; i < LENGTH_OF(items); i++) {
            assert_int_equal(items[i].visits, 1);
            if (items[i].in_map) {
                itemRemove(&map, &items[i]);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(a_zeroed_map_is_empty_and_owns_no_memory),
        UNIT(an_entry_is_found_until_it_is_removed),
        UNIT(keys_are_bytes_and_not_strings),
        UNIT(an_entry_may_be_added_and_found_by_the_key_of_another_maps_entry),
        UNIT(an_entry_is_alone_while_no_other_has_its_key),
        UNIT(the_key_is_not_copied),
        UNIT(entries_of_equal_keys_are_found_one_after_the_other),
        UNIT(entries_of_equal_keys_are_found_in_the_order_of_arrival),
        UNIT(keys_with_equal_hashes_are_distinguished),
        UNIT(remove_removes_exactly_that_entry_of_several_with_its_key),
        UNIT(there_are_one_to_eight_buckets_for_each_entry),
        UNIT(a_map_that_was_large_shrinks_when_an_entry_is_added),
        UNIT(adding_an_entry_moves_few_others_however_large_the_map_is),
        UNIT(all_entries_are_found_and_removed_while_the_map_grows),
        UNIT(equal_keys_stay_together_while_the_map_grows),
        UNIT(each_visits_all_and_may_remove_them_while_the_map_grows),
        UNIT(an_emptied_map_owns_no_memory_and_works_again),
        UNIT(keys_that_differ_in_one_byte_spread_over_the_buckets),
        UNIT(the_seed_determines_the_hash_of_a_key),
        UNIT(each_visits_every_entry_once),
        UNIT(each_may_remove_the_entry_that_it_visits),
    };
    return cmocka_run_group_tests_name("hashmap", tests, NULL, NULL);
}
