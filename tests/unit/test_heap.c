/* heap.[ch]: which node comes first, and what memory the heap owns. */
#include "core/heap.h"

#include <string.h>

#include "support/unit.h"

#define MANY 200

/* Removes the first node again and again, and asserts that they come in order of their times. */
static void assertDrainsInOrder(struct heap *heap, size_t count) {
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        struct heapNode *first = heapFirst(heap);
        assert_non_null(first);
        assert_true(first->at >= last);
        last = first->at;
        heapRemove(heap, first);
        assert_int_equal(first->place, 0);
    }
    assert_null(heapFirst(heap));
}

static void a_zeroed_heap_is_empty_and_owns_no_memory(void **state) {
    (void)state;
    size_t before = memLive();
    struct heap heap = {0};
    assert_null(heapFirst(&heap));
    assert_int_equal(heap.count, 0);
    assert_int_equal(memLive(), before);
}

static void the_earliest_of_several_comes_first(void **state) {
    (void)state;
    struct heap heap = {0};
    struct heapNode late = {0}, early = {0}, middle = {0};
    heapPut(&heap, &late, 30);
    assert_ptr_equal(heapFirst(&heap), &late);
    heapPut(&heap, &early, 10);
    assert_ptr_equal(heapFirst(&heap), &early);
    heapPut(&heap, &middle, 20);
    assert_ptr_equal(heapFirst(&heap), &early);
    heapRemove(&heap, &early);
    assert_ptr_equal(heapFirst(&heap), &middle);
    heapRemove(&heap, &middle);
    assert_ptr_equal(heapFirst(&heap), &late);
    heapRemove(&heap, &late);
}

static void nodes_come_out_in_order_whatever_order_they_were_put_in(void **state) {
    (void)state;
    static struct heapNode nodes[MANY];
    for (int64_t factor = 1; factor < MANY;
         factor += 2) { /* some have the divisor 5 in common with MANY */
        struct heap heap = {0};
        memset(nodes, 0, sizeof nodes);
        for (int64_t i = 0; i < MANY; i++) {
            heapPut(&heap, &nodes[i], i * factor % MANY);
        }
        assert_int_equal(heap.count, MANY);
        assertDrainsInOrder(&heap, MANY);
    }
}

static void a_node_that_is_put_again_moves(void **state) {
    (void)state;
    struct heap heap = {0};
    struct heapNode nodes[7] = {{0}};
    for (int64_t i = 0; i < 7; i++) {
        heapPut(&heap, &nodes[i], 10 * i);
    }
    heapPut(&heap, &nodes[6], -1);
    assert_ptr_equal(heapFirst(&heap), &nodes[6]);
    heapPut(&heap, &nodes[6], 35);
    assert_ptr_equal(heapFirst(&heap), &nodes[0]);
    heapPut(&heap, &nodes[0], 100);
    assert_ptr_equal(heapFirst(&heap), &nodes[1]);
    assert_int_equal(heap.count, 7);
    assertDrainsInOrder(&heap, 7);
}

static void a_node_can_be_removed_from_anywhere(void **state) {
    (void)state;
    for (size_t victim = 0; victim < 40; victim++) {
        struct heap heap = {0};
        struct heapNode nodes[40] = {{0}};
        for (size_t i = 0; i < 40; i++) {
            heapPut(&heap, &nodes[i], (int64_t)(i * 7 % 40));
        }
        heapRemove(&heap, &nodes[victim]);
        assert_int_equal(nodes[victim].place, 0);
        assert_int_equal(heap.count, 39);
        assertDrainsInOrder(&heap, 39);
    }
}

/* The last node of the array may belong above the hole that it fills: 20, which is below 10 and 11,
 * moves to a hole below 100 and 110. */
static void the_node_that_fills_a_hole_may_rise(void **state) {
    (void)state;
    struct heap heap = {0};
    struct heapNode nodes[12] = {{0}};
    const int64_t times[12] = {0, 100, 10, 110, 120, 11, 12, 130, 140, 150, 160, 20};
    for (size_t i = 0; i < 12; i++) {
        heapPut(&heap, &nodes[i], times[i]);
        assert_int_equal(nodes[i].place, i + 1);
    }
    heapRemove(&heap, &nodes[7]);
    for (size_t place = 2; place <= heap.count; place++) {
        assert_true(heap.nodes[place / 2 - 1]->at <= heap.nodes[place - 1]->at);
    }
    assertDrainsInOrder(&heap, 11);
}

static void removing_a_node_that_is_not_in_the_heap_does_nothing(void **state) {
    (void)state;
    struct heap heap = {0};
    struct heapNode in = {0}, out = {0};
    heapRemove(&heap, &out);
    heapPut(&heap, &in, 1);
    heapRemove(&heap, &out);
    assert_int_equal(heap.count, 1);
    heapRemove(&heap, &in);
    heapRemove(&heap, &in);
    assert_int_equal(heap.count, 0);
}

static void extreme_times_are_ordered_like_others(void **state) {
    (void)state;
    struct heap heap = {0};
    struct heapNode never = {0}, now = {0}, always = {0};
    heapPut(&heap, &never, INT64_MAX);
    heapPut(&heap, &always, INT64_MIN);
    heapPut(&heap, &now, 0);
    assert_ptr_equal(heapFirst(&heap), &always);
    assertDrainsInOrder(&heap, 3);
}

static void an_emptied_heap_owns_no_memory_and_works_again(void **state) {
    (void)state;
    size_t before = memLive();
    struct heap heap = {0};
    struct heapNode node = {0};
    for (int round = 0; round < 3; round++) {
        heapPut(&heap, &node, round);
        assert_int_equal(memLive(), before + 1);
        heapRemove(&heap, &node);
        assert_int_equal(memLive(), before);
        assert_null(heap.nodes);
        assert_int_equal(heap.room, 0);
    }
}

static void the_array_shrinks_with_its_contents(void **state) {
    (void)state;
    struct heap heap = {0};
    static struct heapNode nodes[MANY];
    memset(nodes, 0, sizeof nodes);
    for (size_t i = 0; i < MANY; i++) {
        heapPut(&heap, &nodes[i], (int64_t)i);
    }
    assert_true(heap.room < 2 * MANY + 16);
    for (size_t i = 0; i < MANY; i++) {
        heapRemove(&heap, &nodes[i]);
        assert_true(heap.room <= 16 || heap.room <= 4 * heap.count + 4);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(a_zeroed_heap_is_empty_and_owns_no_memory),
        UNIT(the_earliest_of_several_comes_first),
        UNIT(nodes_come_out_in_order_whatever_order_they_were_put_in),
        UNIT(a_node_that_is_put_again_moves),
        UNIT(a_node_can_be_removed_from_anywhere),
        UNIT(the_node_that_fills_a_hole_may_rise),
        UNIT(removing_a_node_that_is_not_in_the_heap_does_nothing),
        UNIT(extreme_times_are_ordered_like_others),
        UNIT(an_emptied_heap_owns_no_memory_and_works_again),
        UNIT(the_array_shrinks_with_its_contents),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
