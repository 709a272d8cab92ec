/* A random walk over a heap, compared with an array of times that is searched from end to end. */
#include <string.h>

#include "core/heap.h"
#include "support/unit.h"

#define MANY 200

struct modelled {
    struct heapNode node;
    bool is_in;
    int64_t at;
};

/* One of a few times, so that equal ones are frequent; sometimes an extreme. */
static int64_t randomTime(struct fuzz *fuzz) {
    if (fuzzOneIn(fuzz, 20)) {
        return fuzzOneIn(fuzz, 2) ? INT64_MAX : INT64_MIN;
    }
    return (int64_t)fuzzBelow(fuzz, MANY) - MANY / 2;
}

static void assertIsTheModel(const struct heap *heap, const struct modelled *all) {
    size_t count = 0;
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(all[i].node.place > 0, all[i].is_in);
        if (all[i].is_in) {
            count++;
            assert_true(all[i].node.at == all[i].at);
            assert_ptr_equal(heap->nodes[all[i].node.place - 1], &all[i].node);
            first = all[i].at < first ? all[i].at : first;
        }
    }
    assert_int_equal(heap->count, count);
    assert_int_equal(heapFirst(heap) != NULL, count > 0);
    assert_true(count == 0 || heapFirst(heap)->at == first);
}

static void take(struct heap *heap, struct modelled *one) {
    heapRemove(heap, &one->node);
    one->is_in = false;
}

static void a_random_walk_agrees_with_an_array(void **state) {
    (void)state;
    struct fuzz fuzz = fuzzStart("heap", 50000);
    size_t before = memLive();
    struct heap heap = {0};
    static struct modelled all[MANY];
    memset(all, 0, sizeof all);
    size_t growth = 2; /* one step in so many removes a node */
    for (size_t step = 0; step < fuzz.steps; step++) {
        struct modelled *one = &all[fuzzBelow(&fuzz, MANY)];
        if (fuzzOneIn(&fuzz, growth)) {
            take(&heap, one);
        } else {
            one->at = randomTime(&fuzz);
            one->is_in = true;
            heapPut(&heap, &one->node, one->at);
        }
        if (fuzzOneIn(&fuzz, 10) && heapFirst(&heap)) {
            /* `node` is the first member. */
            take(&heap, (struct modelled *)(void *)heapFirst(&heap));
        }
        assertIsTheModel(&heap, all);
        assert_int_equal(memLive() - before, heap.count > 0);
        if (fuzzOneIn(&fuzz, 500)) { /* full for a while, then nearly empty */
            growth = 1 + fuzzBelow(&fuzz, 8);
        }
    }
    for (size_t i = 0; i < MANY; i++) {
        take(&heap, &all[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(a_random_walk_agrees_with_an_array),
    };
    return cmocka_run_group_tests_name("fuzz heap", tests, NULL, NULL);
}
