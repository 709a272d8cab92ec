/* waitqueue.[ch]: the order of positions, the positions of an owner, and which of them a new
 * request waits behind. */
#include "core/waitqueue.h"

#include <string.h>

#include "support/unit.h"

struct waiting {
    struct waitRequest request;
    struct position position;
};

static struct waitRequest requestOf(const char *owner) {
    return (struct waitRequest){
        .owner = owner, .owner_length = strlen(owner), .discipline = ORDERED};
}

/* Whether an ordered request of this owner in this mode would have to wait behind others. */
static bool blocks(const struct waitqueue *queue, const char *owner, enum lockMode mode) {
    const struct waitqueueNewcomer newcomer = {
        .owner = owner, .owner_length = strlen(owner), .mode = mode, .discipline = ORDERED};
    return waitqueueBlocks(queue, &newcomer);
}

static bool blocksPlain(const struct waitqueue *queue, const char *owner) {
    const struct waitqueueNewcomer newcomer = {
        .owner = owner, .owner_length = strlen(owner), .mode = MODE_EXCLUSIVE, .discipline = PLAIN};
    return waitqueueBlocks(queue, &newcomer);
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

/* Asserts that the candidates are exactly these positions in this order. */
static void assertCandidates(const struct waitqueue *queue, struct position *const *positions,
                             size_t count) {
    const struct link *link = queue->candidates.first;
    assert_ptr_equal(waitqueueFirstCandidate(queue), count > 0 ? positions[0] : NULL);
    assert_int_equal(queue->candidates.length, count);
    for (size_t i = 0; i < count; i++, link = link->next) {
        assert_ptr_equal(link, &positions[i]->in_candidates);
    }
    assert_null(link);
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
    assert_null(waitqueueFirstCandidate(&queue));
    assert_false(blocks(&queue, "a", MODE_WRITE));
    assert_int_equal(memLive(), before);
}

static void add_keeps_the_order_of_arrival(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    struct waitRequest a = requestOf("a"), b = requestOf("b");
    struct position first = {0}, second = {0}, third = {0};
    waitqueueAdd(&queue, &first, &b, MODE_EXCLUSIVE);
    waitqueueAdd(&queue, &second, &a, MODE_READ);
    waitqueueAdd(&queue, &third, &b, MODE_EXCLUSIVE);
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
    struct waitRequest a = requestOf("a"), b = requestOf("b");
    struct position waiting = {0}, upgrade = {0}, alone = {0};
    waitqueueAddFirst(&queue, &alone, &a, MODE_WRITE);
    assertOrder(&queue, (struct position *[]){&alone}, 1);
    waitqueueAdd(&queue, &waiting, &a, MODE_WRITE);
    waitqueueAddFirst(&queue, &upgrade, &b, MODE_WRITE);
    assertOrder(&queue, (struct position *[]){&upgrade, &alone, &waiting}, 3);
    assertCandidates(&queue, (struct position *[]){&upgrade, &alone, &waiting}, 3);
    assert_ptr_equal(waitqueueLastWriter(&queue), &waiting);
    assert_ptr_equal(waitqueueWriterBefore(&waiting), &alone);
    waitqueueRemove(&alone);
    waitqueueRemove(&upgrade);
    waitqueueRemove(&waiting);
}

static void move_first_puts_a_position_at_the_head_and_keeps_the_others_in_order(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    struct waitRequest a = requestOf("a"), b = requestOf("b");
    struct position p = {0}, q = {0}, r = {0};
    waitqueueAdd(&queue, &p, &a, MODE_WRITE);
    waitqueueMoveFirst(&p); /* alone */
    assertOrder(&queue, (struct position *[]){&p}, 1);
    waitqueueAdd(&queue, &q, &b, MODE_READ);
    waitqueueAdd(&queue, &r, &a, MODE_WRITE);
    waitqueueMoveFirst(&r); /* from the end */
    assertOrder(&queue, (struct position *[]){&r, &p, &q}, 3);
    assert_ptr_equal(waitqueueLastWriter(&queue), &p);
    waitqueueMoveFirst(&p); /* from the middle */
    assertOrder(&queue, (struct position *[]){&p, &r, &q}, 3);
    assertCandidates(&queue, (struct position *[]){&p, &r, &q}, 3);
    assert_ptr_equal(waitqueueLastWriter(&queue), &r);
    waitqueueMoveFirst(&p); /* from the head */
    assertOrder(&queue, (struct position *[]){&p, &r, &q}, 3);
    assertCandidates(&queue, (struct position *[]){&p, &r, &q}, 3);
    assert_int_equal(countOfOwner(&queue, "a", 1), 2);
    waitqueueRemove(&p);
    waitqueueRemove(&q);
    waitqueueRemove(&r);
}

static void a_removed_position_is_in_no_queue_and_can_be_added_again(void **state) {
    (void)state;
    struct waitqueue one = {0}, other = {0};
    struct waitRequest a = requestOf("a"), b = requestOf("b");
    struct position p = {0}, q = {0};
    waitqueueAdd(&one, &p, &a, MODE_READ);
    waitqueueAdd(&one, &q, &b, MODE_WRITE);
    waitqueueRemove(&p);
    assert_null(p.queue);
    assertOrder(&one, (struct position *[]){&q}, 1);
    assert_null(waitqueueOfOwner(&one, "a", 1));
    waitqueueAdd(&other, &p, &b, MODE_WRITE);
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
    struct waitRequest a = requestOf("a");
    struct position positions[40] = {{.queue = NULL}};
    for (size_t i = 0; i < LENGTH_OF(positions); i++) {
        waitqueueAdd(&queue, &positions[i], &a, MODE_READ);
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
    struct waiting waiting[LENGTH_OF(waits)] = {{.position = {.queue = NULL}}};
    for (size_t i = 0; i < LENGTH_OF(waits); i++) {
        waiting[i].request = requestOf(waits[i].owner);
        waiting[i].request.owner_length = waits[i].length;
        waitqueueAdd(&queue, &waiting[i].position, &waiting[i].request, waits[i].mode);
    }
    assert_int_equal(countOfOwner(&queue, "a", 1), 1);
    assert_int_equal(countOfOwner(&queue, "a\0", 2), 1);
    assert_int_equal(countOfOwner(&queue, "a\0x", 3), 3);
    assert_int_equal(countOfOwner(&queue, "a\0y", 3), 1);
    assert_int_equal(countOfOwner(&queue, "a\0z", 3), 0);
    waitqueueRemove(&waiting[4].position);
    assert_int_equal(countOfOwner(&queue, "a\0x", 3), 2);
    assert_ptr_equal(waitqueueOfOwner(&queue, "a\0y", 3), &waiting[2].position);
    for (size_t i = 0; i < LENGTH_OF(waiting); i++) {
        if (waiting[i].position.queue) {
            waitqueueRemove(&waiting[i].position);
        }
    }
}

static void a_request_can_be_in_several_queues(void **state) {
    (void)state;
    struct waitqueue queues[3] = {{.by_mode = {0}}};
    struct position positions[3] = {{.queue = NULL}};
    struct waitRequest all = requestOf("a");
    for (size_t i = 0; i < 3; i++) {
        waitqueueAdd(&queues[i], &positions[i], &all, MODE_EXCLUSIVE);
    }
    waitqueueRemove(&positions[1]);
    assertOrder(&queues[0], (struct position *[]){&positions[0]}, 1);
    assertOrder(&queues[1], NULL, 0);
    assertOrder(&queues[2], (struct position *[]){&positions[2]}, 1);
    assert_true(blocks(&queues[0], "b", MODE_READ));
    assert_false(blocks(&queues[1], "b", MODE_READ));
    waitqueueRemove(&positions[0]);
    waitqueueRemove(&positions[2]);
}

static void a_request_waits_in_each_queue_in_a_mode_of_its_own(void **state) {
    (void)state;
    static const enum lockMode modes[] = {MODE_WRITE, MODE_READ, MODE_EXCLUSIVE};
    struct waitqueue queues[LENGTH_OF(modes)] = {{.by_mode = {0}}};
    struct position positions[LENGTH_OF(modes)] = {{.queue = NULL}};
    struct waitRequest all = requestOf("a");
    for (size_t i = 0; i < LENGTH_OF(modes); i++) {
        waitqueueAdd(&queues[i], &positions[i], &all, modes[i]);
    }
    for (size_t i = 0; i < LENGTH_OF(modes); i++) {
        bool is_read = modes[i] == MODE_READ;
        assert_int_equal(positions[i].mode, modes[i]);
        assert_int_equal(waitqueueIsWriter(&positions[i]), !is_read);
        assert_ptr_equal(waitqueueLastWriter(&queues[i]), is_read ? NULL : &positions[i]);
        assert_int_equal(blocks(&queues[i], "b", MODE_READ), !is_read);
        assert_true(blocks(&queues[i], "b", MODE_WRITE));
        waitqueueRemove(&positions[i]);
    }
}

static void a_reader_waits_behind_a_waiting_writer_but_not_behind_a_reader(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    struct waitRequest reader = requestOf("r"), writer = requestOf("w");
    struct position p = {0}, q = {0};
    waitqueueAdd(&queue, &p, &reader, MODE_READ);
    assert_false(blocks(&queue, "new", MODE_READ));
    waitqueueAdd(&queue, &q, &writer, MODE_WRITE);
    assert_true(blocks(&queue, "new", MODE_READ));
    waitqueueMoveFirst(&q);
    assert_true(blocks(&queue, "new", MODE_READ));
    waitqueueRemove(&q);
    assert_false(blocks(&queue, "new", MODE_READ));
    waitqueueRemove(&p);
}

static void an_ordered_request_waits_behind_a_plain_waiter_too(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    struct waitRequest plain = requestOf("p");
    plain.discipline = PLAIN;
    struct position position = {0};
    waitqueueAdd(&queue, &position, &plain, MODE_EXCLUSIVE);
    assert_true(blocks(&queue, "new", MODE_READ));
    waitqueueRemove(&position);
}

static void a_plain_request_waits_behind_multikey_requests_of_other_owners(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    struct waitRequest plain = requestOf("p"), multikey = requestOf("j");
    plain.discipline = PLAIN;
    multikey.discipline = MULTIKEY;
    struct position positions[3] = {{.queue = NULL}};
    waitqueueAdd(&queue, &positions[0], &plain, MODE_EXCLUSIVE);
    assert_false(blocksPlain(&queue, "new"));
    waitqueueAdd(&queue, &positions[1], &multikey, MODE_EXCLUSIVE);
    assert_true(blocksPlain(&queue, "new"));
    assert_false(blocksPlain(&queue, "j")); /* not behind itself */
    struct waitRequest taking_over = requestOf("j");
    waitqueueTakeOver(&positions[1], &positions[2], &taking_over);
    assert_false(blocksPlain(&queue, "new"));
    waitqueueRemove(&positions[0]);
    waitqueueRemove(&positions[2]);
}

static void a_position_that_takes_over_has_the_mode_of_the_old_one(void **state) {
    (void)state;
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        struct waitqueue queue = {0};
        struct waitRequest a = requestOf("a"), b = requestOf("b");
        struct position first = {0}, old = {0}, last = {0}, new = {0};
        waitqueueAdd(&queue, &first, &b, MODE_WRITE);
        waitqueueAdd(&queue, &old, &a, (enum lockMode)mode);
        waitqueueAdd(&queue, &last, &b, MODE_WRITE);
        waitqueueTakeOver(&old, &new, &a);
        assert_int_equal(new.mode, mode);
        assertOrder(&queue, (struct position *[]){&first, &new, &last}, 3);
        assertCandidates(&queue, (struct position *[]){&first, &new, &last}, 3);
        waitqueueRemove(&first);
        waitqueueRemove(&new);
        waitqueueRemove(&last);
    }
}

/* ---- positions that stand aside ---- */

static void a_position_that_stands_aside_keeps_its_place_but_is_no_candidate(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    struct waitRequest a = requestOf("a"), b = requestOf("b");
    struct position p = {0}, q = {0}, r = {0};
    waitqueueAdd(&queue, &p, &a, MODE_READ);
    waitqueueAdd(&queue, &q, &b, MODE_READ);
    waitqueueAdd(&queue, &r, &a, MODE_READ);
    for (int times = 0; times < 2; times++) { /* the second time does nothing */
        waitqueueStandAside(&p);
        assert_true(p.is_aside);
        assertOrder(&queue, (struct position *[]){&p, &q, &r}, 3);
        assertCandidates(&queue, (struct position *[]){&q, &r}, 2);
    }
    for (int times = 0; times < 2; times++) {
        waitqueueStandIn(&p);
        assert_false(p.is_aside);
        assertOrder(&queue, (struct position *[]){&p, &q, &r}, 3);
        assertCandidates(&queue, (struct position *[]){&p, &q, &r}, 3);
    }
    waitqueueRemove(&p);
    waitqueueRemove(&q);
    waitqueueRemove(&r);
}

#define READERS 5

/* For every set of readers that stand aside, and every one of them that stands in again. */
static void a_position_stands_in_at_its_place_among_the_candidates(void **state) {
    (void)state;
    for (unsigned aside = 0; aside < 1U << READERS; aside++) {
        for (unsigned last = 0; last < READERS; last++) {
            struct waitqueue queue = {0};
            struct waitRequest request = requestOf("a");
            struct position positions[READERS] = {{.queue = NULL}}, *candidates[READERS];
            size_t count = 0;
            for (unsigned i = 0; i < READERS; i++) {
                waitqueueAdd(&queue, &positions[i], &request, MODE_READ);
            }
            for (unsigned i = 0; i < READERS; i++) {
                if (aside & 1U << i) {
                    waitqueueStandAside(&positions[i]);
                }
                if (i == last || !(aside & 1U << i)) {
                    candidates[count++] = &positions[i];
                }
            }
            waitqueueStandIn(&positions[last]);
            assertCandidates(&queue, candidates, count);
            for (unsigned i = 0; i < READERS; i++) {
                waitqueueRemove(&positions[i]);
            }
            assertCandidates(&queue, NULL, 0);
        }
    }
}

static void a_position_that_stands_aside_can_move_to_the_head(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    struct waitRequest a = requestOf("a"), b = requestOf("b");
    struct position p = {0}, q = {0};
    waitqueueAdd(&queue, &p, &a, MODE_READ);
    waitqueueAdd(&queue, &q, &b, MODE_READ);
    waitqueueStandAside(&q);
    waitqueueMoveFirst(&q);
    assertOrder(&queue, (struct position *[]){&q, &p}, 2);
    assertCandidates(&queue, (struct position *[]){&p}, 1);
    waitqueueStandIn(&q);
    assertCandidates(&queue, (struct position *[]){&q, &p}, 2);
    waitqueueRemove(&p);
    waitqueueRemove(&q);
}

static void a_position_that_stood_aside_and_was_removed_can_be_added_again(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    struct waitRequest a = requestOf("a");
    struct position p = {0};
    waitqueueAdd(&queue, &p, &a, MODE_READ);
    waitqueueStandAside(&p);
    waitqueueRemove(&p);
    assert_false(p.is_aside);
    waitqueueAdd(&queue, &p, &a, MODE_WRITE);
    assertCandidates(&queue, (struct position *[]){&p}, 1);
    waitqueueRemove(&p);
}

/* Whether a position in this mode is next if a reader ahead of it stands aside. */
static bool isNextBehindReader(enum lockMode mode) {
    struct waitqueue queue = {0};
    struct waitRequest a = requestOf("a"), b = requestOf("b");
    struct position reader = {0}, candidate = {0};
    waitqueueAdd(&queue, &reader, &a, MODE_READ);
    waitqueueAdd(&queue, &candidate, &b, mode);
    assert_ptr_equal(waitqueueFirstCandidate(&queue), &reader);
    assert_true(waitqueueIsNext(&reader));
    waitqueueStandAside(&reader);
    assert_ptr_equal(waitqueueFirstCandidate(&queue), &candidate);
    bool is_next = waitqueueIsNext(&candidate);
    waitqueueRemove(&reader);
    assert_true(waitqueueIsNext(&candidate)); /* at the head */
    waitqueueRemove(&candidate);
    return is_next;
}

static void only_a_reader_is_next_behind_readers_that_stand_aside(void **state) {
    (void)state;
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        assert_int_equal(isNextBehindReader((enum lockMode)mode), mode == MODE_READ);
    }
}

static void without_candidates_there_is_no_first_one(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    struct waitRequest a = requestOf("a");
    struct position p = {0};
    waitqueueAdd(&queue, &p, &a, MODE_READ);
    waitqueueStandAside(&p);
    assert_ptr_equal(waitqueueFirst(&queue), &p);
    assert_null(waitqueueFirstCandidate(&queue));
    waitqueueRemove(&p);
}

#define BEHIND 4

/* For every sequence of modes, whichever of the readers stand aside. */
static void a_position_stands_behind_every_position_ahead_that_it_conflicts_with(void **state) {
    (void)state;
    for (unsigned sequence = 0; sequence < 4 * 4 * 4 * 4 * 2; sequence++) {
        struct waitqueue queue = {0};
        struct waitRequest request = requestOf("a");
        struct position positions[BEHIND] = {{.queue = NULL}};
        bool writer_ahead = false;
        for (unsigned i = 0; i < BEHIND; i++) {
            enum lockMode mode = (enum lockMode)(sequence >> 2 * i & 3);
            waitqueueAdd(&queue, &positions[i], &request, mode);
            if (mode == MODE_READ && sequence >> 2 * BEHIND) {
                waitqueueStandAside(&positions[i]);
            }
            assert_int_equal(waitqueueStandsBehind(&positions[i]),
                             mode == MODE_READ ? writer_ahead : i > 0);
            writer_ahead |= mode != MODE_READ;
        }
        for (unsigned i = 0; i < BEHIND; i++) {
            assert_false(waitqueueStandsBehind(&positions[i])); /* at the head */
            waitqueueRemove(&positions[i]);
        }
    }
}

/* ---- what is blocked by what ---- */

static void a_position_has_a_lower_order_than_every_position_behind_it(void **state) {
    (void)state;
    struct waitqueue queue = {0};
    struct waitRequest request = requestOf("a");
    struct position positions[6] = {{.queue = NULL}};
    waitqueueAdd(&queue, &positions[0], &request, MODE_READ);
    waitqueueAddFirst(&queue, &positions[1], &request, MODE_READ);
    waitqueueAdd(&queue, &positions[2], &request, MODE_READ);
    waitqueueAdd(&queue, &positions[3], &request, MODE_READ);
    waitqueueMoveFirst(&positions[2]);
    waitqueueTakeOver(&positions[0], &positions[4], &request);
    waitqueueRemove(&positions[3]);
    waitqueueAdd(&queue, &positions[5], &request, MODE_READ);
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
static bool blocksByRule3(const struct position *waiting, const char *owner, enum lockMode mode) {
    bool same_owner = waiting->request->owner_length == strlen(owner) &&
                      memcmp(waiting->request->owner, owner, strlen(owner)) == 0;
    bool both_read = waiting->mode == MODE_READ && mode == MODE_READ;
    return !same_owner && !both_read;
}

/* For every set of waiting (owner, mode) pairs of two owners, each pair up to twice. */
static void a_request_is_blocked_by_exactly_the_conflicting_waits_of_others(void **state) {
    (void)state;
    static const char *const owners[] = {"a", "b", "stranger"};
    for (unsigned crowd = 0; crowd < 3 * 3 * 3 * 3 * 3 * 3; crowd++) {
        struct waitqueue queue = {0};
        struct waiting waiting[12] = {{.position = {.queue = NULL}}};
        size_t count = 0;
        unsigned rest = crowd;
        for (size_t pair = 0; pair < 6; pair++, rest /= 3) {
            for (unsigned i = 0; i < rest % 3; i++, count++) {
                waiting[count].request = requestOf(owners[pair % 2]);
                waitqueueAdd(&queue, &waiting[count].position, &waiting[count].request,
                             every_mode[pair / 2]);
            }
        }
        for (size_t i = 0; i < LENGTH_OF(owners) * LENGTH_OF(every_mode); i++) {
            const char *owner = owners[i % 3];
            enum lockMode mode = every_mode[i / 3];
            bool blocked = false;
            for (size_t j = 0; j < count; j++) {
                blocked |= blocksByRule3(&waiting[j].position, owner, mode);
            }
            assert_int_equal(blocks(&queue, owner, mode), blocked);
        }
        while (count > 0) {
            waitqueueRemove(&waiting[--count].position);
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
        UNIT(a_request_waits_in_each_queue_in_a_mode_of_its_own),
        UNIT(a_reader_waits_behind_a_waiting_writer_but_not_behind_a_reader),
        UNIT(an_ordered_request_waits_behind_a_plain_waiter_too),
        UNIT(a_plain_request_waits_behind_multikey_requests_of_other_owners),
        UNIT(a_position_that_takes_over_has_the_mode_of_the_old_one),
        UNIT(a_position_that_stands_aside_keeps_its_place_but_is_no_candidate),
        UNIT(a_position_stands_in_at_its_place_among_the_candidates),
        UNIT(a_position_that_stands_aside_can_move_to_the_head),
        UNIT(a_position_that_stood_aside_and_was_removed_can_be_added_again),
        UNIT(only_a_reader_is_next_behind_readers_that_stand_aside),
        UNIT(without_candidates_there_is_no_first_one),
        UNIT(a_position_stands_behind_every_position_ahead_that_it_conflicts_with),
        UNIT(a_position_has_a_lower_order_than_every_position_behind_it),
        UNIT(a_request_is_blocked_by_exactly_the_conflicting_waits_of_others),
    };
    return cmocka_run_group_tests_name("waitqueue", tests, NULL, NULL);
}
