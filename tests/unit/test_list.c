/* list.h: what is in a list and in which order, read forwards and backwards, and its length. */
#include "core/list.h"

#include "support/unit.h"

#define MANY 64

/* The links are not the first members, so that LIST_ELEMENT has something to subtract. */
struct element {
    int number;
    struct link here, there;
};

static struct element *hereOf(struct link *link) {
    return LIST_ELEMENT(link, struct element, here);
}

/* Asserts that the list, by its `here` links, is exactly these elements in this order, in both
 * directions. */
static void assertHolds(const struct list *list, struct element *const *elements, size_t count) {
    assert_int_equal(list->length, count);
    assert_int_equal(listIsEmpty(list), count == 0);
    struct link *link = list->first;
    for (size_t i = 0; i < count; i++, link = link->next) {
        assert_non_null(link);
        assert_ptr_equal(hereOf(link), elements[i]);
    }
    assert_null(link);
    link = list->last;
    for (size_t i = count; i > 0; i--, link = link->prev) {
        assert_non_null(link);
        assert_ptr_equal(hereOf(link), elements[i - 1]);
    }
    assert_null(link);
}

static void a_zeroed_list_is_empty(void **state) {
    (void)state;
    struct list list = {0};
    assertHolds(&list, NULL, 0);
}

static void add_last_keeps_the_order_of_arrival(void **state) {
    (void)state;
    struct list list = {0};
    struct element a = {.number = 1}, b = {.number = 2}, c = {.number = 3};
    listAddLast(&list, &a.here);
    assertHolds(&list, (struct element *[]){&a}, 1);
    listAddLast(&list, &b.here);
    listAddLast(&list, &c.here);
    assertHolds(&list, (struct element *[]){&a, &b, &c}, 3);
    assert_int_equal(hereOf(list.last)->number, 3);
}

static void insert_before_puts_a_link_right_before_its_successor(void **state) {
    (void)state;
    struct list list = {0};
    struct element a = {0}, b = {0}, c = {0}, d = {0};
    listInsertBefore(&list, NULL, &d.here);    /* into an empty list */
    listInsertBefore(&list, &d.here, &a.here); /* before the first */
    listInsertBefore(&list, &d.here, &c.here); /* in the middle */
    listInsertBefore(&list, &c.here, &b.here);
    assertHolds(&list, (struct element *[]){&a, &b, &c, &d}, 4);
}

static void insert_before_null_adds_at_the_end(void **state) {
    (void)state;
    struct list list = {0};
    struct element a = {0}, b = {0};
    listAddLast(&list, &a.here);
    listInsertBefore(&list, NULL, &b.here);
    assertHolds(&list, (struct element *[]){&a, &b}, 2);
}

static void remove_closes_the_gap_wherever_it_is(void **state) {
    (void)state;
    struct list list = {0};
    struct element a = {0}, b = {0}, c = {0}, d = {0};
    listAddLast(&list, &a.here);
    listAddLast(&list, &b.here);
    listAddLast(&list, &c.here);
    listAddLast(&list, &d.here);
    listRemove(&list, &b.here); /* in the middle */
    assertHolds(&list, (struct element *[]){&a, &c, &d}, 3);
    listRemove(&list, &a.here); /* the first */
    assertHolds(&list, (struct element *[]){&c, &d}, 2);
    listRemove(&list, &d.here); /* the last */
    assertHolds(&list, (struct element *[]){&c}, 1);
    listRemove(&list, &c.here); /* the only one */
    assertHolds(&list, NULL, 0);
}

static void a_removed_link_points_nowhere_and_can_be_added_again(void **state) {
    (void)state;
    struct list list = {0};
    struct element a = {0}, b = {0}, c = {0};
    listAddLast(&list, &a.here);
    listAddLast(&list, &b.here);
    listAddLast(&list, &c.here);
    listRemove(&list, &b.here);
    assert_null(b.here.prev);
    assert_null(b.here.next);
    listAddLast(&list, &b.here);
    assertHolds(&list, (struct element *[]){&a, &c, &b}, 3);
}

static void an_element_is_in_two_lists_by_two_links(void **state) {
    (void)state;
    struct list here = {0}, there = {0};
    struct element a = {0}, b = {0};
    listAddLast(&here, &a.here);
    listAddLast(&here, &b.here);
    listAddLast(&there, &b.there);
    listAddLast(&there, &a.there);
    listRemove(&here, &a.here);
    assertHolds(&here, (struct element *[]){&b}, 1);
    assert_int_equal(there.length, 2);
    assert_ptr_equal(LIST_ELEMENT(there.first, struct element, there), &b);
    assert_ptr_equal(LIST_ELEMENT(there.last, struct element, there), &a);
}

static void a_random_walk_agrees_with_an_array(void **state) {
    (void)state;
    struct fuzz fuzz = fuzzStart("list", 20000);
    struct list list = {0};
    struct element elements[MANY] = {0};
    struct element *in[MANY], *out[MANY];
    size_t in_count = 0, out_count = MANY;
    for (size_t i = 0; i < MANY; i++) {
        out[i] = &elements[i];
    }
    for (size_t step = 0; step < fuzz.steps; step++) {
        bool add = in_count == 0 || (out_count > 0 && fuzzOneIn(&fuzz, 2));
        if (add) {
            struct element *element = out[--out_count];
            size_t at = fuzzBelow(&fuzz, in_count + 1);
            listInsertBefore(&list, at < in_count ? &in[at]->here : NULL, &element->here);
            for (size_t i = in_count++; i > at; i--) {
                in[i] = in[i - 1];
            }
            in[at] = element;
        } else {
            size_t at = fuzzBelow(&fuzz, in_count);
            listRemove(&list, &in[at]->here);
            out[out_count++] = in[at];
            in_count--;
            for (size_t i = at; i < in_count; i++) {
                in[i] = in[i + 1];
            }
        }
        assertHolds(&list, in, in_count);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(a_zeroed_list_is_empty),
        UNIT(add_last_keeps_the_order_of_arrival),
        UNIT(insert_before_puts_a_link_right_before_its_successor),
        UNIT(insert_before_null_adds_at_the_end),
        UNIT(remove_closes_the_gap_wherever_it_is),
        UNIT(a_removed_link_points_nowhere_and_can_be_added_again),
        UNIT(an_element_is_in_two_lists_by_two_links),
        UNIT(a_random_walk_agrees_with_an_array),
    };
    return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
