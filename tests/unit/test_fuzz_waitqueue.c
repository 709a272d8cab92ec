/* Random walks over several queues, compared with plain arrays of positions in order.
 *
 * Positions and owners are allocated with malloc and freed as soon as they leave, so that the
 * address sanitizer detects any pointer to them that a queue has kept. */
#include <stdlib.h>
#include <string.h>

#include "core/queuecheck.h"
#include "core/waitqueue.h"
#include "support/unit.h"

#define QUEUES 3
#define MANY 40 /* positions in one queue */

/* A position with its request, as the model knows it. */
struct waiting {
    char *owner;
    struct waitRequest request;
    enum lockMode mode;
    bool is_aside;
    struct position position;
};

struct model {
    struct waiting *in_order[MANY];
    size_t count;
};

static void insertAt(struct model *model, size_t at, struct waiting *waiting) {
    for (size_t i = model->count++; i > at; i--) {
        model->in_order[i] = model->in_order[i - 1];
    }
    model->in_order[at] = waiting;
}

static struct waiting *removeAt(struct model *model, size_t at) {
    struct waiting *waiting = model->in_order[at];
    model->count--;
    for (size_t i = at; i < model->count; i++) {
        model->in_order[i] = model->in_order[i + 1];
    }
    return waiting;
}

struct owner {
    const char *bytes;
    size_t length;
};

/* One of a few owners; some are a prefix of another, or have a zero byte. */
static const struct owner *randomOwner(struct fuzz *fuzz) {
    static const struct owner owners[] = {{"a", 1},    {"ab", 2},       {"a\0b", 3},
                                          {"a\0c", 3}, {"client-1", 8}, {"client-10", 9}};
    return &owners[fuzzBelow(fuzz, LENGTH_OF(owners))];
}

static enum lockMode randomMode(struct fuzz *fuzz) {
    return fuzzOneIn(fuzz, 3) ? MODE_READ : (enum lockMode)fuzzBelow(fuzz, MODE_COUNT);
}

static enum discipline randomDiscipline(struct fuzz *fuzz) {
    static const enum discipline disciplines[] = {PLAIN, ORDERED, MULTIKEY, MULTIKEY};
    return disciplines[fuzzBelow(fuzz, LENGTH_OF(disciplines))];
}

static struct waiting *newWaiting(struct fuzz *fuzz, const struct owner *owner) {
    struct waiting *waiting = calloc(1, sizeof *waiting);
    assert_non_null(waiting);
    waiting->owner = malloc(owner->length); /* no zero byte: no reader may rely on one */
    assert_non_null(waiting->owner);
    memcpy(waiting->owner, owner->bytes, owner->length);
    waiting->request = (struct waitRequest){.owner = waiting->owner,
                                            .owner_length = owner->length,
                                            .discipline = randomDiscipline(fuzz)};
    waiting->mode = randomMode(fuzz);
    return waiting;
}

static void freeWaiting(struct waiting *waiting) {
    free(waiting->owner);
    free(waiting);
}

static void leave(struct waiting *waiting) {
    waitqueueRemove(&waiting->position);
    assert_null(waiting->position.queue);
    freeWaiting(waiting);
}

static bool isOwner(const struct waiting *waiting, const struct owner *owner) {
    return waiting->request.owner_length == owner->length &&
           memcmp(waiting->owner, owner->bytes, owner->length) == 0;
}

static void assertSameOrder(const struct waitqueue *queue, const struct model *model) {
    const struct position *position = waitqueueFirst(queue);
    for (size_t i = 0; i < model->count; i++, position = waitqueueNext(position)) {
        assert_ptr_equal(position, &model->in_order[i]->position);
        assert_ptr_equal(position->queue, queue);
        assert_ptr_equal(position->request, &model->in_order[i]->request);
        assert_int_equal(position->mode, model->in_order[i]->mode);
        assert_true(i == 0 || model->in_order[i - 1]->position.order < position->order);
    }
    assert_null(position);
}

/* The positions that exclude readers are listed in the same order. */
static void assertSameWriters(const struct waitqueue *queue, const struct model *model) {
    const struct link *link = queue->writers.first;
    for (size_t i = 0; i < model->count; i++) {
        if (model->in_order[i]->mode != MODE_READ) {
            assert_ptr_equal(link, &model->in_order[i]->position.in_writers);
            link = link->next;
        }
    }
    assert_null(link);
}

/* All positions except those that stand aside are candidates, in the same order. The first one is
 * next unless it conflicts with a position ahead of it. */
static void assertSameCandidates(const struct waitqueue *queue, const struct model *model) {
    const struct link *link = queue->candidates.first;
    const struct position *first = NULL;
    bool all_read = true; /* the first candidate and all positions ahead of it */
    for (size_t i = 0; i < model->count; i++) {
        struct waiting *waiting = model->in_order[i];
        assert_int_equal(waiting->position.is_aside, waiting->is_aside);
        all_read &= first || waiting->mode == MODE_READ;
        if (!waiting->is_aside) {
            assert_ptr_equal(link, &waiting->position.in_candidates);
            assert_true(first || waitqueueIsNext(&waiting->position) == (i == 0 || all_read));
            first = first ? first : &waiting->position;
            link = link->next;
        }
    }
    assert_null(link);
    assert_ptr_equal(waitqueueFirstCandidate(queue), first);
}

/* A position stands behind those ahead of it, except that readers do not conflict. */
static void assertSameStandingBehind(const struct model *model) {
    bool writer_ahead = false;
    for (size_t i = 0; i < model->count; i++) {
        const struct waiting *waiting = model->in_order[i];
        bool stands_behind = waiting->mode == MODE_READ ? writer_ahead : i > 0;
        assert_int_equal(waitqueueStandsBehind(&waiting->position), stands_behind);
        writer_ahead |= waiting->mode != MODE_READ;
    }
}

/* The positions of an owner are found in the order of the queue. */
static void assertSameOfOwner(const struct waitqueue *queue, const struct model *model,
                              const struct owner *owner) {
    size_t count = 0;
    const struct position *position = waitqueueOfOwner(queue, owner->bytes, owner->length);
    for (size_t i = 0; i < model->count; i++) {
        if (isOwner(model->in_order[i], owner)) {
            assert_ptr_equal(position, &model->in_order[i]->position);
            position = waitqueueNextOfOwner(position);
            count++;
        }
    }
    assert_null(position);
    assert_int_equal(waitqueueCountOf(queue, owner->bytes, owner->length), count);
}

/* A request for permits also waits behind those of its own owner. */
static void assertSameBlocking(const struct waitqueue *queue, const struct model *model,
                               const struct owner *owner) {
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        const struct waitqueueNewcomer newcomer = {.owner = owner->bytes,
                                                   .owner_length = owner->length,
                                                   .mode = (enum lockMode)mode,
                                                   .discipline = ORDERED};
        bool blocked = false;
        for (size_t i = 0; i < model->count; i++) {
            const struct waiting *waiting = model->in_order[i];
            bool both_read = waiting->mode == MODE_READ && mode == MODE_READ;
            bool is_other = !isOwner(waiting, owner) || mode == MODE_SEMAPHORE;
            blocked |= is_other && !both_read;
        }
        assert_int_equal(waitqueueBlocks(queue, &newcomer), blocked);
    }
}

/* A request for a plain lock waits only behind requests for several keys at once. */
static void assertSameBlockingOfPlain(const struct waitqueue *queue, const struct model *model,
                                      const struct owner *owner) {
    const struct waitqueueNewcomer newcomer = {.owner = owner->bytes,
                                               .owner_length = owner->length,
                                               .mode = MODE_EXCLUSIVE,
                                               .discipline = PLAIN};
    bool blocked = false;
    for (size_t i = 0; i < model->count; i++) {
        const struct waiting *waiting = model->in_order[i];
        blocked |= !isOwner(waiting, owner) && waiting->request.discipline == MULTIKEY;
    }
    assert_int_equal(waitqueueBlocks(queue, &newcomer), blocked);
}

/* Replaces a position, which is a candidate, by that of another request of the same owner. */
static void takeOver(struct fuzz *fuzz, struct model *model, size_t at) {
    struct waiting *old = model->in_order[at];
    const struct owner owner = {old->owner, old->request.owner_length};
    struct waiting *waiting = newWaiting(fuzz, &owner);
    waiting->mode = old->mode;
    waitqueueTakeOver(&old->position, &waiting->position, &waiting->request);
    assert_null(old->position.queue);
    freeWaiting(old);
    model->in_order[at] = waiting;
}

/* Readers for several keys stand aside, and in again. */
static void changeAside(struct fuzz *fuzz, struct waiting *waiting) {
    bool may_stand_aside = waiting->mode == MODE_READ && waiting->request.discipline == MULTIKEY;
    if (may_stand_aside && !fuzzOneIn(fuzz, 3)) {
        waitqueueStandAside(&waiting->position);
        waiting->is_aside = true;
    } else {
        waitqueueStandIn(&waiting->position);
        waiting->is_aside = false;
    }
}

static void walkOneStep(struct fuzz *fuzz, struct waitqueue *queue, struct model *model) {
    size_t at = model->count ? fuzzBelow(fuzz, model->count) : 0;
    size_t what = fuzzBelow(fuzz, 17);
    if (model->count == 0 || (what < 6 && model->count < MANY)) {
        struct waiting *waiting = newWaiting(fuzz, randomOwner(fuzz));
        if (what == 0) {
            waitqueueAddFirst(queue, &waiting->position, &waiting->request, waiting->mode);
            insertAt(model, 0, waiting);
        } else {
            waitqueueAdd(queue, &waiting->position, &waiting->request, waiting->mode);
            insertAt(model, model->count, waiting);
        }
    } else if (what < 8) {
        waitqueueMoveFirst(&model->in_order[at]->position);
        insertAt(model, 0, removeAt(model, at));
    } else if (what == 8 && !model->in_order[at]->is_aside) {
        takeOver(fuzz, model, at);
    } else if (what < 13) {
        leave(removeAt(model, at));
    } else {
        changeAside(fuzz, model->in_order[at]);
    }
}

static void removeAll(struct model *model) {
    while (model->count > 0) {
        leave(removeAt(model, 0));
    }
}

static void a_random_walk_agrees_with_arrays(void **state) {
    (void)state;
    struct fuzz fuzz = fuzzStart("waitqueue", 20000);
    size_t before = memLive();
    struct waitqueue queues[QUEUES] = {{.by_mode = {0}}};
    struct model models[QUEUES] = {{.count = 0}};
    mapSeed((const uint64_t[2]){fuzzNext(&fuzz), fuzzNext(&fuzz)});
    for (size_t step = 0; step < fuzz.steps; step++) {
        size_t at = fuzzBelow(&fuzz, QUEUES);
        walkOneStep(&fuzz, &queues[at], &models[at]);
        if (fuzzOneIn(&fuzz, 500)) {
            removeAll(&models[at]);
        }
        const struct owner *owner = randomOwner(&fuzz);
        size_t memory = 0;
        for (size_t i = 0; i < QUEUES; i++) {
            assert_null(queuecheckFault(&queues[i]));
            assertSameOrder(&queues[i], &models[i]);
            assertSameWriters(&queues[i], &models[i]);
            assertSameCandidates(&queues[i], &models[i]);
            assertSameStandingBehind(&models[i]);
            assertSameOfOwner(&queues[i], &models[i], owner);
            assertSameBlocking(&queues[i], &models[i], owner);
            assertSameBlockingOfPlain(&queues[i], &models[i], owner);
            memory += mapMemory(&queues[i].by_owner);
            assert_int_equal(queues[i].by_owner.buckets != NULL, models[i].count > 0);
        }
        assert_int_equal(memLive() - before, memory);
    }
    for (size_t i = 0; i < QUEUES; i++) {
        removeAll(&models[i]);
    }
    assert_int_equal(memLive(), before);
    mapSeed((const uint64_t[2]){0, 0});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(a_random_walk_agrees_with_arrays),
    };
    return cmocka_run_group_tests_name("fuzz waitqueue", tests, NULL, NULL);
}
