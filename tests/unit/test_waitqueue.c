/* waitqueue.[ch]: the order of positions, the positions of an owner, and which of them a new
 * request waits behind. */
#include "core/waitqueue.h"

#include <string.h>

#include "support/unit.h"

static struct waitRequest requestOf(const char *owner, enum lockMode mode) {
    return (struct waitRequest){
        .owner = owner, .owner_length = strlen(owner), .mode = mode, .discipline = ORDERED};
}

/* Asserts that the queue is exactly these positions in this order. */
static void assertOrder(const struct waitqueue *queue, struct position *const *positions,
                        size_t count) {
    const struct position *position = waitqueueFirst(queue);
    for (size_t i = 0; i < count; i++, position = waitqueueNext(position)) {
        assert_ptr_equal(position, positions[i]);
        assert_ptr_equal(position->queue, queue);
    }
    assert_null(position);
}

static size_t countOfOwner(const struct waitqueue *queue, const char *owner, size_t length) {
    size_t count = 0;
    const struct position *position = waitqueueOfOwner(queue, owner, length);
    for (; position; position = waitqueueNextOfOwner(position)) {
        assert_int_equal(position->request->owner_length, length);
        assert_memory_equal(position->request->owner, owner, length);
        count++;
    }
    return count;
}

static void an_empty_queue_has_no_positions_and_owns_no_memory(void **state) {
    (void)state;
    size_t before = memLive();
    struct waitqueue queue = {0};
    assert_null(waitqueueFirst(&queue));
    assert_null(waitqueueOfOwner(&queue, "a", 1));
    struct waitRequest write = requestOf("a", MODE_WRITE);
    assert_false(waitqueueBlocks(&queue, &write));
    assert_int_equal(memLive(), before);
}

static void add_keeps_the_order_of_arrival(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    struct waitRequest a = requestOf("a", MODE_READ), b = requestOf("b", MODE_EXCLUSIVE);
    struct position first = {0}, second = {0}, third = {0};
    waitqueueAdd(&queue, &first, &b);
    waitqueueAdd(&queue, &second, &a);
    waitqueueAdd(&queue, &third, &b);
    assertOrder(&queue, (struct position *[]){&first, &second, &third}, 3);
    assert_ptr_equal(first.request, &b);
    assert_ptr_equal(second.request, &a);
    waitqueueRemove(&first);
    waitqueueRemove(&second);
    waitqueueRemove(&third);
}

static void an_upgrade_is_at_the_head(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    struct waitRequest a = requestOf("a", MODE_WRITE), b = requestOf("b", MODE_WRITE);
    struct position waiting = {0}, upgrade = {0}, alone = {0};
    waitqueueAddFirst(&queue, &alone, &a);
    assertOrder(&queue, (struct position *[]){&alone}, 1);
    waitqueueAdd(&queue, &waiting, &a);
    waitqueueAddFirst(&queue, &upgrade, &b);
    assertOrder(&queue, (struct position *[]){&upgrade, &alone, &waiting}, 3);
    waitqueueRemove(&alone);
    waitqueueRemove(&upgrade);
    waitqueueRemove(&waiting);
}

static void move_first_puts_a_position_at_the_head_and_keeps_the_others_in_order(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    struct waitRequest a = requestOf("a", MODE_WRITE), b = requestOf("b", MODE_READ);
    struct position p = {0}, q = {0}, r = {0};
    waitqueueAdd(&queue, &p, &a);
    waitqueueMoveFirst(&p); /* alone */
    assertOrder(&queue, (struct position *[]){&p}, 1);
    waitqueueAdd(&queue, &q, &b);
    waitqueueAdd(&queue, &r, &a);
    waitqueueMoveFirst(&r); /* from the end */
    assertOrder(&queue, (struct position *[]){&r, &p, &q}, 3);
    waitqueueMoveFirst(&p); /* from the middle */
    assertOrder(&queue, (struct position *[]){&p, &r, &q}, 3);
    waitqueueMoveFirst(&p); /* from the head */
    assertOrder(&queue, (struct position *[]){&p, &r, &q}, 3);
    assert_int_equal(countOfOwner(&queue, "a", 1), 2);
    waitqueueRemove(&p);
    waitqueueRemove(&q);
    waitqueueRemove(&r);
}

static void a_removed_position_is_in_no_queue_and_can_be_added_again(void **state) {
    (void)state;
    struct waitqueue one = {0}, other = {0};
    struct waitRequest a = requestOf("a", MODE_READ), b = requestOf("b", MODE_WRITE);
    struct position p = {0}, q = {0};
    waitqueueAdd(&one, &p, &a);
    waitqueueAdd(&one, &q, &b);
    waitqueueRemove(&p);
    assert_null(p.queue);
    assertOrder(&one, (struct position *[]){&q}, 1);
    assert_null(waitqueueOfOwner(&one, "a", 1));
    waitqueueAdd(&other, &p, &b);
    assertOrder(&other, (struct position *[]){&p}, 1);
    assert_ptr_equal(waitqueueOfOwner(&other, "b", 1), &p);
    assert_ptr_equal(p.request, &b);
    assert_null(waitqueueNextOfOwner(&p));
    waitqueueRemove(&p);
    waitqueueRemove(&q);
}

static void an_emptied_queue_owns_no_memory(void **state) {
    (void)state;
    size_t before = memLive();
    struct waitqueue queue = {0};
    struct waitRequest a = requestOf("a", MODE_READ);
    struct position positions[40] = {{.queue = NULL}};
    for (size_t i = 0; i < LENGTH_OF(positions); i++) {
        waitqueueAdd(&queue, &positions[i], &a);
    }
    for (size_t i = 0; i < LENGTH_OF(positions); i++) {
        assert_int_not_equal(memLive(), before);
        waitqueueRemove(&positions[i]);
    }
    assert_int_equal(memLive(), before);
}

static void the_positions_of_an_owner_are_found_and_no_others(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    /* Owners are compared as bytes: these differ after a zero byte, or only in length. */
    static const struct {
        const char *owner;
        size_t length;
        enum lockMode mode;
    } waits[] = {
        {"a", 1, MODE_READ},   {"a\0x", 3, MODE_READ},      {"a\0y", 3, MODE_WRITE},
        {"a\0", 2, MODE_READ}, {"a\0x", 3, MODE_EXCLUSIVE}, {"a\0x", 3, MODE_READ},
    };
    struct waitRequest requests[LENGTH_OF(waits)];
    struct position positions[LENGTH_OF(requests)] = {{.queue = NULL}};
    for (size_t i = 0; i < LENGTH_OF(requests); i++) {
        requests[i] = requestOf(waits[i].owner, waits[i].mode);
        requests[i].owner_length = waits[i].length;
        waitqueueAdd(&queue, &positions[i], &requests[i]);
    }
    assert_int_equal(countOfOwner(&queue, "a", 1), 1);
    assert_int_equal(countOfOwner(&queue, "a\0", 2), 1);
    assert_int_equal(countOfOwner(&queue, "a\0x", 3), 3);
    assert_int_equal(countOfOwner(&queue, "a\0y", 3), 1);
    assert_int_equal(countOfOwner(&queue, "a\0z", 3), 0);
    waitqueueRemove(&positions[4]);
    assert_int_equal(countOfOwner(&queue, "a\0x", 3), 2);
    assert_ptr_equal(waitqueueOfOwner(&queue, "a\0y", 3), &positions[2]);
    for (size_t i = 0; i < LENGTH_OF(requests); i++) {
        if (positions[i].queue) {
            waitqueueRemove(&positions[i]);
        }
    }
}

static void a_request_can_be_in_several_queues(void **state) {
    (void)state;
    struct waitqueue queues[3] = {{.by_mode = {0}}};
    struct position positions[3] = {{.queue = NULL}};
    struct waitRequest all = requestOf("a", MODE_EXCLUSIVE), b = requestOf("b", MODE_READ);
    for (size_t i = 0; i < 3; i++) {
        waitqueueAdd(&queues[i], &positions[i], &all);
    }
    waitqueueRemove(&positions[1]);
    assertOrder(&queues[0], (struct position *[]){&positions[0]}, 1);
    assertOrder(&queues[1], NULL, 0);
    assertOrder(&queues[2], (struct position *[]){&positions[2]}, 1);
    assert_true(waitqueueBlocks(&queues[0], &b));
    assert_false(waitqueueBlocks(&queues[1], &b));
    waitqueueRemove(&positions[0]);
    waitqueueRemove(&positions[2]);
}

static void a_reader_waits_behind_a_waiting_writer_but_not_behind_a_reader(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    struct waitRequest reader = requestOf("r", MODE_READ), writer = requestOf("w", MODE_WRITE);
    struct waitRequest newcomer = requestOf("new", MODE_READ);
    struct position p = {0}, q = {0};
    waitqueueAdd(&queue, &p, &reader);
    assert_false(waitqueueBlocks(&queue, &newcomer));
    waitqueueAdd(&queue, &q, &writer);
    assert_true(waitqueueBlocks(&queue, &newcomer));
    waitqueueMoveFirst(&q);
    assert_true(waitqueueBlocks(&queue, &newcomer));
    waitqueueRemove(&q);
    assert_false(waitqueueBlocks(&queue, &newcomer));
    waitqueueRemove(&p);
}

static void an_ordered_request_waits_behind_a_plain_waiter_too(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    struct waitRequest plain = requestOf("p", MODE_EXCLUSIVE);
    plain.discipline = PLAIN;
    struct waitRequest newcomer = requestOf("new", MODE_READ);
    struct position position = {0};
    waitqueueAdd(&queue, &position, &plain);
    assert_true(waitqueueBlocks(&queue, &newcomer));
    waitqueueRemove(&position);
}

static void a_plain_request_waits_behind_multikey_requests_of_other_owners(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    struct waitRequest plain = requestOf("p", MODE_EXCLUSIVE),
                       multikey = requestOf("j", MODE_EXCLUSIVE);
    plain.discipline = PLAIN;
    multikey.discipline = MULTIKEY;
    struct position positions[3] = {{.queue = NULL}};
    waitqueueAdd(&queue, &positions[0], &plain);
    struct waitRequest newcomer = requestOf("new", MODE_EXCLUSIVE);
    newcomer.discipline = PLAIN;
    assert_false(waitqueueBlocks(&queue, &newcomer));
    waitqueueAdd(&queue, &positions[1], &multikey);
    assert_true(waitqueueBlocks(&queue, &newcomer));
    newcomer.owner = "j"; /* not behind itself */
    newcomer.owner_length = 1;
    assert_false(waitqueueBlocks(&queue, &newcomer));
    struct waitRequest taking_over = requestOf("j", MODE_EXCLUSIVE);
    waitqueueTakeOver(&positions[1], &positions[2], &taking_over);
    newcomer.owner = "x";
    assert_false(waitqueueBlocks(&queue, &newcomer));
    waitqueueRemove(&positions[0]);
    waitqueueRemove(&positions[2]);
}

static void a_position_has_a_lower_order_than_every_position_behind_it(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    struct waitRequest request = requestOf("a", MODE_READ);
    struct position positions[6] = {{.queue = NULL}};
    waitqueueAdd(&queue, &positions[0], &request);
    waitqueueAddFirst(&queue, &positions[1], &request);
    waitqueueAdd(&queue, &positions[2], &request);
    waitqueueAdd(&queue, &positions[3], &request);
    waitqueueMoveFirst(&positions[2]);
    waitqueueTakeOver(&positions[0], &positions[4], &request);
    waitqueueRemove(&positions[3]);
    waitqueueAdd(&queue, &positions[5], &request);
    for (struct position *position = waitqueueFirst(&queue); waitqueueNext(position);
         position = waitqueueNext(position)) {
        assert_true(position->order < waitqueueNext(position)->order);
    }
    while (waitqueueFirst(&queue)) {
        waitqueueRemove(waitqueueFirst(&queue));
    }
    assert_int_equal(request.positions.length, 0);
}

static const enum lockMode every_mode[] = {MODE_READ, MODE_WRITE, MODE_EXCLUSIVE};

/* Rule 3 as it is written: another owner waits here, and not both of them read. */
static bool blocksByRule3(const struct waitRequest *waiting, const struct waitRequest *newcomer) {
    bool same_owner = waiting->owner_length == newcomer->owner_length &&
                      memcmp(waiting->owner, newcomer->owner, waiting->owner_length) == 0;
    bool both_read = waiting->mode == MODE_READ && newcomer->mode == MODE_READ;
    return !same_owner && !both_read;
}

/* For every set of waiting (owner, mode) pairs of two owners, each pair up to twice. */
static void a_request_is_blocked_by_exactly_the_conflicting_waits_of_others(void **state) {
    (void)state;
    static const char *const owners[] = {"a", "b", "stranger"};
    for (unsigned crowd = 0; crowd < 3 * 3 * 3 * 3 * 3 * 3; crowd++) {
        struct waitqueue queue = {0};
        struct waitRequest waiting[12];
        struct position positions[12] = {{.queue = NULL}};
        size_t count = 0;
        unsigned rest = crowd;
        for (size_t pair = 0; pair < 6; pair++, rest /= 3) {
            for (unsigned i = 0; i < rest % 3; i++, count++) {
                waiting[count] = requestOf(owners[pair % 2], every_mode[pair / 2]);
                waitqueueAdd(&queue, &positions[count], &waiting[count]);
            }
        }
        for (size_t i = 0; i < LENGTH_OF(owners) * LENGTH_OF(every_mode); i++) {
            struct waitRequest newcomer = requestOf(owners[i % 3], every_mode[i / 3]);
            bool blocked = false;
            for (size_t j = 0; j < count; j++) {
                blocked |= blocksByRule3(&waiting[j], &newcomer);
            }
            assert_int_equal(waitqueueBlocks(&queue, &newcomer), blocked);
        }
        while (count > 0) {
            waitqueueRemove(&positions[--count]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(an_empty_queue_has_no_positions_and_owns_no_memory),
        UNIT(add_keeps_the_order_of_arrival),
        UNIT(an_upgrade_is_at_the_head),
        UNIT(move_first_puts_a_position_at_the_head_and_keeps_the_others_in_order),
        UNIT(a_removed_position_is_in_no_queue_and_can_be_added_again),
        UNIT(an_emptied_queue_owns_no_memory),
        UNIT(the_positions_of_an_owner_are_found_and_no_others),
        UNIT(a_request_can_be_in_several_queues),
        UNIT(a_reader_waits_behind_a_waiting_writer_but_not_behind_a_reader),
        UNIT(an_ordered_request_waits_behind_a_plain_waiter_too),
        UNIT(a_plain_request_waits_behind_multikey_requests_of_other_owners),
        UNIT(a_position_has_a_lower_order_than_every_position_behind_it),
        UNIT(a_request_is_blocked_by_exactly_the_conflicting_waits_of_others),
    };
    return cmocka_run_group_tests_name("waitqueue", tests, NULL, NULL);
}
