/* A random walk over a sketch, compared with a model that records every wait of every lock. */
#include <stdio.h>
#include <string.h>

#include "core/contention.h"
#include "support/unit.h"

#define NAMES 250
#define DATABASES 2
#define LOCKS (NAMES * DATABASES)
#define LONG_NAMES 5 /* the first ones: the same up to the length that the sketch keeps */
#define LONG (CONTENTION_LONGEST_NAME + 8)
#define MOST_WAITS 4
#define FEW 3 /* fewer than the sketch updates at a time */

struct modelLock {
    int64_t began_us[MOST_WAITS];
    size_t waiting;
    int64_t ended_us; /* the total time since the reset of the waits that have ended */
    int64_t longest_us;
    size_t ended, handed_off;
    struct contentionTrail trail;
    bool has_place;
    bool is_new; /* it has never lost its place since the reset */
    bool leaks;  /* it has lost its place while it had waiters: its upper bound does not hold */
};

struct world {
    struct fuzz fuzz;
    struct contention sketch;
    struct modelLock locks[LOCKS];
    size_t waiting, most_waiting;
    int64_t now_us, reset_us;
};

static struct map names;
static struct mapEntry entries[NAMES];
static char bytes[NAMES][LONG];

static void makeNames(void) {
    for (size_t i = 0; i < NAMES; i++) {
        size_t length = i < LONG_NAMES ? LONG - 4 : i % 7;
        memset(bytes[i], 'n', length);
        length += (size_t)snprintf(bytes[i] + length, 4, "%zu", i);
        mapAdd(&names, &entries[i], bytes[i], length);
    }
}

static void forgetNames(void) {
    for (size_t i = 0; i < NAMES; i++) {
        mapRemove(&names, &entries[i]);
    }
}

/* ---- the model ---- */

static int64_t lengthOf(const struct world *world, int64_t began_us) {
    int64_t from_us = began_us > world->reset_us ? began_us : world->reset_us;
    return world->now_us - from_us;
}

static int64_t trueTime(const struct world *world, const struct modelLock *lock) {
    int64_t time_us = lock->ended_us;
    for (size_t i = 0; i < lock->waiting; i++) {
        time_us += lengthOf(world, lock->began_us[i]);
    }
    return time_us;
}

/* The lock that has this place in the sketch. */
static struct modelLock *ofPlace(struct world *world, const struct contentionLock *place) {
    size_t i = 0;
    if (place->whole_length <= CONTENTION_LONGEST_NAME) {
        struct mapEntry *entry = mapFind(&names, place->name, place->whole_length);
        assert_non_null(entry);
        i = (size_t)(entry - entries);
    } else {
        while (i < LONG_NAMES && entries[i].hash != place->whole_hash) {
            i++;
        }
        assert_in_range(i, 0, LONG_NAMES - 1);
    }
    assert_in_range(place->db, 0, DATABASES - 1);
    return &world->locks[i * DATABASES + (size_t)place->db];
}

/* Records which locks have a place now, and which have lost theirs while they had waiters. */
static void recordPlaces(struct world *world) {
    bool had_place[LOCKS];
    for (size_t i = 0; i < LOCKS; i++) {
        had_place[i] = world->locks[i].has_place;
        world->locks[i].has_place = false;
    }
    for (size_t i = 0; i < world->sketch.used; i++) {
        struct modelLock *lock = ofPlace(world, &world->sketch.locks[i]);
        assert_false(lock->has_place); /* none has two */
        lock->has_place = true;
    }
    for (size_t i = 0; i < LOCKS; i++) {
        struct modelLock *lock = &world->locks[i];
        bool has_lost = had_place[i] && !lock->has_place;
        lock->is_new &= !has_lost;
        lock->leaks |= has_lost && lock->waiting > 0;
    }
}

/* ---- what the sketch guarantees ---- */

static void assertView(struct world *world, const struct contentionView *view,
                       const struct modelLock *lock) {
    int64_t true_us = trueTime(world, lock);
    assert_true(view->time_us >= 0 && view->time_us <= true_us);
    assert_true(view->waits <= lock->ended + lock->waiting);
    assert_true(view->longest_us <= lock->longest_us);
    assert_true(view->kept <= lock->handed_off && view->kept_us <= true_us);
    assert_int_equal(view->waiting, lock->waiting);
    if (lock->leaks) {
        return;
    }
    assert_true(true_us <= view->time_us + view->error_us);
    if (lock->is_new && view->error_us == 0) {
        assert_int_equal(view->waits, lock->ended + lock->waiting);
        assert_int_equal(view->longest_us, lock->longest_us);
        assert_int_equal(view->kept, lock->handed_off);
    }
}

static void assertTop(struct world *world) {
    struct contentionView top[CONTENTION_LOCKS + 1];
    size_t length =
        contentionTop(&world->sketch, world->now_us, top, fuzzBelow(&world->fuzz, LENGTH_OF(top)));
    assert_true(length <= world->sketch.used);
    for (size_t i = 0; i < length; i++) {
        size_t place = 0;
        while (world->sketch.locks[place].name != top[i].name) {
            place++;
            assert_true(place < world->sketch.used);
        }
        assertView(world, &top[i], ofPlace(world, &world->sketch.locks[place]));
        assert_true(i == 0 || top[i].time_us <= top[i - 1].time_us);
        assert_int_equal(top[i].is_cut, top[i].name_length == CONTENTION_LONGEST_NAME);
    }
}

/* The least time of any place, including the error; 0 while there is room. */
static int64_t leastTime(const struct world *world) {
    struct contentionView top[CONTENTION_LOCKS];
    if (contentionTop(&world->sketch, world->now_us, top, CONTENTION_LOCKS) < CONTENTION_LOCKS) {
        return 0;
    }
    int64_t least_us = INT64_MAX;
    for (size_t i = 0; i < CONTENTION_LOCKS; i++) {
        int64_t time_us = top[i].time_us + top[i].error_us;
        least_us = time_us < least_us ? time_us : least_us;
    }
    return least_us;
}

static void assertLocksWithoutPlaceHaveLittleTime(const struct world *world) {
    int64_t total_us = 0, least_us = leastTime(world);
    for (size_t i = 0; i < LOCKS; i++) {
        const struct modelLock *lock = &world->locks[i];
        total_us += trueTime(world, lock);
        if (!lock->has_place && !lock->leaks) {
            assert_int_equal(lock->waiting, 0);
            assert_true(lock->ended_us <= least_us);
        }
    }
    /* While few locks have waiters, the lock that is replaced is the one with the least time, which
     * is at most a CONTENTION_LOCKS-th of the total. A wait that ends when its lock has no place
     * may be counted twice. */
    assert_true(world->most_waiting > FEW || least_us <= 2 * total_us / CONTENTION_LOCKS);
}

/* ---- steps ---- */

/* Sometimes the trail is lost, as for a lock that has no waiters for a while. */
static struct contentionEvent eventOf(struct world *world, size_t number) {
    struct modelLock *lock = &world->locks[number];
    if (fuzzOneIn(&world->fuzz, 4)) {
        lock->trail = (struct contentionTrail){0};
    }
    return (struct contentionEvent){.name = &entries[number / DATABASES],
                                    .trail = &lock->trail,
                                    .db = (int)(number % DATABASES),
                                    .waiting = lock->waiting,
                                    .now_us = world->now_us};
}

static void begin(struct world *world, size_t number) {
    struct modelLock *lock = &world->locks[number];
    lock->began_us[lock->waiting++] = world->now_us;
    world->waiting++;
    const struct contentionEvent event = eventOf(world, number);
    contentionBegin(&world->sketch, &event);
}

static void end(struct world *world, size_t number) {
    struct modelLock *lock = &world->locks[number];
    size_t which = fuzzBelow(&world->fuzz, lock->waiting);
    int64_t began_us = lock->began_us[which];
    bool is_hand_off = fuzzOneIn(&world->fuzz, 2);
    lock->began_us[which] = lock->began_us[--lock->waiting];
    world->waiting--;
    lock->ended_us += lengthOf(world, began_us);
    lock->longest_us =
        world->now_us - began_us > lock->longest_us ? world->now_us - began_us : lock->longest_us;
    lock->ended++;
    lock->handed_off += is_hand_off;
    const struct contentionEvent event = eventOf(world, number);
    contentionEnd(&world->sketch, &event, began_us, is_hand_off);
}

static void reset(struct world *world) {
    contentionReset(&world->sketch, world->now_us);
    world->reset_us = world->now_us;
    for (size_t i = 0; i < LOCKS; i++) {
        struct modelLock *lock = &world->locks[i];
        lock->ended_us = lock->longest_us = 0;
        lock->ended = lock->handed_off = 0;
        lock->is_new = true;
        lock->leaks = lock->waiting > 0 && !lock->has_place;
    }
}

/* Some locks are requested much more often than others. */
static size_t anyLock(struct world *world) {
    return fuzzBelow(&world->fuzz, fuzzOneIn(&world->fuzz, 3) ? LOCKS : LOCKS / 10);
}

static size_t anyContendedLock(struct world *world) {
    size_t number = fuzzBelow(&world->fuzz, LOCKS);
    while (world->locks[number].waiting == 0) {
        number = (number + 1) % LOCKS;
    }
    return number;
}

static void step(struct world *world) {
    world->now_us += (int64_t)fuzzBelow(&world->fuzz, fuzzOneIn(&world->fuzz, 10) ? 10000 : 20);
    size_t number = anyLock(world);
    bool has_room = world->locks[number].waiting < MOST_WAITS;
    bool begins = world->waiting < world->most_waiting && has_room && !fuzzOneIn(&world->fuzz, 4);
    if (world->waiting == 0 || begins) {
        begin(world, number);
    } else {
        end(world, anyContendedLock(world));
    }
    if (fuzzOneIn(&world->fuzz, 3000)) {
        reset(world);
        assert_true(world->sketch.used <= world->waiting);
    }
}

static void walk(struct world *world, size_t most_waiting) {
    size_t before = memLive();
    world->most_waiting = most_waiting;
    reset(world);
    for (size_t i = 0; i < world->fuzz.steps; i++) {
        step(world);
        recordPlaces(world);
        assert_int_equal(memLive() - before, contentionMemory(&world->sketch));
        if (fuzzOneIn(&world->fuzz, 50)) {
            assertTop(world);
            assertLocksWithoutPlaceHaveLittleTime(world);
        }
    }
    contentionFree(&world->sketch);
    assert_int_equal(memLive(), before);
}

static void a_random_walk_agrees_with_a_model(void **state) {
    static const size_t most_waiting[] = {FEW, 100, LOCKS};
    (void)state;
    struct fuzz fuzz = fuzzStart("contention", 10000);
    mapSeed((const uint64_t[2]){fuzzNext(&fuzz), fuzzNext(&fuzz)});
    makeNames();
    for (size_t i = 0; i < LENGTH_OF(most_waiting); i++) {
        static struct world world;
        world = (struct world){.fuzz = fuzz};
        walk(&world, most_waiting[i]);
    }
    forgetNames();
    mapSeed((const uint64_t[2]){0, 0});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(a_random_walk_agrees_with_a_model),
    };
    return cmocka_run_group_tests_name("fuzz contention", tests, NULL, NULL);
}
