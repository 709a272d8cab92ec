/* rules.[ch]: every view of a lock's holds, against the written rules (docs/design.md, "The rules
 * of granting").
 *
 * The oracle below uses neither the conflict table nor the way in which the code decides. It lists
 * the holds as a list of holders, one line each, as LOCK.INFO shows them, and applies the sentences
 * of the rules to that list.
 */
#include "core/rules.h"

#include <string.h>

#include "support/unit.h"

static const enum lockMode every_mode[] = {MODE_READ, MODE_WRITE, MODE_EXCLUSIVE, MODE_SEMAPHORE};

/* The requester is "me". The others are different owners, which is the worst case. */
struct holder {
    const char *owner;
    /* "read", "write", "exclusive", "permits", or "?" for what the module cannot read */
    const char *holds;
};

struct holders {
    struct holder list[9];
    size_t count;
};

static const char *nameOf(enum lockMode mode) {
    switch (mode) {
    case MODE_READ:
        return "read";
    case MODE_WRITE:
        return "write";
    case MODE_EXCLUSIVE:
        return "exclusive";
    case MODE_SEMAPHORE:
        return "permits";
    case MODE_COUNT:
        break;
    }
    fail();
    return NULL;
}

static struct holders holdersOf(const struct holdsView *view) {
    static const char *const strangers[] = {"reader", "writer", "locker", "worker"};
    struct holders holders = {.count = 0};
    for (size_t i = 0; i < LENGTH_OF(every_mode); i++) {
        if (view->own[every_mode[i]]) {
            holders.list[holders.count++] = (struct holder){"me", nameOf(every_mode[i])};
        }
        if (view->others[every_mode[i]]) {
            holders.list[holders.count++] = (struct holder){strangers[i], nameOf(every_mode[i])};
        }
    }
    if (view->foreign) {
        holders.list[holders.count++] = (struct holder){"unknown", "?"};
    }
    return holders;
}

static bool isMe(const struct holder *holder) {
    return strcmp(holder->owner, "me") == 0;
}

/* Rule 1: "if no other owner holds the lock, or if the request and every other owner's hold are
 * reads"; and for permits, if "no owner holds the lock in another mode". */
static bool fitsByRule1(const char *request, const struct holders *holders) {
    size_t others = 0, others_that_read = 0, others_with_permits = 0;
    for (size_t i = 0; i < holders->count; i++) {
        if (!isMe(&holders->list[i])) {
            others++;
            others_that_read += strcmp(holders->list[i].holds, "read") == 0;
            others_with_permits += strcmp(holders->list[i].holds, "permits") == 0;
        }
    }
    bool no_other = others == 0;
    bool all_read = strcmp(request, "read") == 0 && others == others_that_read;
    bool all_permits = strcmp(request, "permits") == 0 && others == others_with_permits;
    return no_other || all_read || all_permits;
}

/* Rule 2: "an owner that already has a hold". */
static bool holdsAlready(const struct holders *holders) {
    for (size_t i = 0; i < holders->count; i++) {
        if (isMe(&holders->list[i])) {
            return true;
        }
    }
    return false;
}

/* Which layout of the key records such a hold (docs/design.md, "The data in keys"). */
static const char *layoutOf(const char *holds) {
    bool is_read_write = strcmp(holds, "read") == 0 || strcmp(holds, "write") == 0;
    return is_read_write ? "read-write" : holds;
}

/* The keys of a plain lock, a read-write lock and a semaphore differ in layout, so no key can
 * record two of them for me. How many of my holds could not be in one key with the requested one?
 */
static size_t ownHoldsOfTheOtherLayout(const char *request, const struct holders *holders) {
    size_t misfits = 0;
    for (size_t i = 0; i < holders->count; i++) {
        bool same = strcmp(layoutOf(holders->list[i].holds), layoutOf(request)) == 0;
        misfits += isMe(&holders->list[i]) && !same;
    }
    return misfits;
}

/* A key that the module cannot read belongs as a whole to another owner: nothing in it is mine,
 * whatever the view says. */
static enum verdict verdictOfTheRules(const char *request, const struct holders *holders,
                                      bool foreign) {
    if (foreign) {
        return VERDICT_WAIT;
    }
    if (!holdsAlready(holders)) {
        return fitsByRule1(request, holders) ? VERDICT_GRANT : VERDICT_WAIT;
    }
    if (ownHoldsOfTheOtherLayout(request, holders) > 0) {
        return VERDICT_SELF_BLOCKED;
    }
    if (strcmp(request, "permits") == 0 && fitsByRule1(request, holders)) {
        return VERDICT_ADD; /* rule 2 "does not apply to permits" */
    }
    return fitsByRule1(request, holders) ? VERDICT_REENTER : VERDICT_UPGRADE;
}

/* No key can look like this: one owner with two layouts. */
static bool ownsTwoLayouts(const struct holdsView *view) {
    bool reads_or_writes = view->own[MODE_READ] || view->own[MODE_WRITE];
    return (view->own[MODE_EXCLUSIVE] != 0) + reads_or_writes + (view->own[MODE_SEMAPHORE] != 0) >
           1;
}

/* Calls `check` for own counts of 0, 1 and 2 in each mode × others in each mode × foreign. There
 * are enough permits. */
static void forEveryView(void (*check)(const struct holdsView *view)) {
    size_t views = 0;
    for (int own = 0; own < 3 * 3 * 3 * 3; own++) {
        for (unsigned rest = 0; rest < 1U << 5; rest++, views++) {
            struct holdsView view = {.foreign = rest & 8};
            view.own[MODE_READ] = own % 3;
            view.own[MODE_WRITE] = own / 3 % 3;
            view.own[MODE_EXCLUSIVE] = own / 9 % 3;
            view.own[MODE_SEMAPHORE] = own / 27;
            view.others[MODE_READ] = rest & 1;
            view.others[MODE_WRITE] = rest & 2;
            view.others[MODE_EXCLUSIVE] = rest & 4;
            view.others[MODE_SEMAPHORE] = rest & 16;
            check(&view);
        }
    }
    assert_int_equal(views, 81 * 16 * 2);
}

/* The limit of a semaphore is so high that it never matters. */
static enum verdict decide(enum lockMode mode, const struct holdsView *view) {
    const struct lockRequest request = {mode, {1, RULES_MAX_HOLDS}, .once = false};
    return rulesDecide(&request, view);
}

static void checkVerdict(const struct holdsView *view) {
    struct holders holders = holdersOf(view);
    for (size_t i = 0; i < LENGTH_OF(every_mode); i++) {
        const char *request = nameOf(every_mode[i]);
        enum verdict verdict = decide(every_mode[i], view);
        if (ownsTwoLayouts(view)) {
            /* The rules do not define the refusal, but no hold is ever granted against rule 1. */
            assert_true(!rulesFits(verdict) || fitsByRule1(request, &holders));
            assert_int_not_equal(verdict, VERDICT_GRANT);
        } else {
            assert_int_equal(verdict, verdictOfTheRules(request, &holders, view->foreign));
        }
    }
}

static void every_verdict_is_that_of_the_rules(void **state) {
    (void)state;
    forEveryView(checkVerdict);
}

static void checkOwnsAny(const struct holdsView *view) {
    bool owns = view->own[MODE_READ] + view->own[MODE_WRITE] + view->own[MODE_EXCLUSIVE] +
                    view->own[MODE_SEMAPHORE] !=
                0;
    assert_int_equal(rulesOwnsAny(view), owns);
}

static void an_owner_owns_if_it_has_a_hold_in_any_mode(void **state) {
    (void)state;
    forEveryView(checkOwnsAny);
}

static void only_reads_and_only_permits_are_compatible(void **state) {
    (void)state;
    size_t compatible_pairs = 0;
    for (size_t i = 0; i < LENGTH_OF(every_mode); i++) {
        for (size_t j = 0; j < LENGTH_OF(every_mode); j++) {
            compatible_pairs += !rulesConflict(every_mode[i], every_mode[j]);
        }
    }
    assert_int_equal(compatible_pairs, 2);
    assert_false(rulesConflict(MODE_READ, MODE_READ));
    assert_false(rulesConflict(MODE_SEMAPHORE, MODE_SEMAPHORE));
}

static void conflict_is_symmetric(void **state) {
    (void)state;
    for (size_t i = 0; i < LENGTH_OF(every_mode); i++) {
        for (size_t j = 0; j < LENGTH_OF(every_mode); j++) {
            assert_int_equal(rulesConflict(every_mode[i], every_mode[j]),
                             rulesConflict(every_mode[j], every_mode[i]));
        }
    }
}

static void no_request_waits_for_a_free_lock(void **state) {
    (void)state;
    const struct holdsView free_lock = {.foreign = false};
    for (size_t i = 0; i < LENGTH_OF(every_mode); i++) {
        assert_int_equal(decide(every_mode[i], &free_lock), VERDICT_GRANT);
    }
}

/* Examples of rule 2 without the oracle, so that a mistake in the oracle is noticed. */
static void the_examples_of_rule_2(void **state) {
    (void)state;
    /* A downgrade begins. */
    const struct holdsView write_owner = {.own = {[MODE_WRITE] = 1}};
    assert_int_equal(decide(MODE_READ, &write_owner), VERDICT_REENTER);
    const struct holdsView sole_reader = {.own = {[MODE_READ] = 1}};
    assert_int_equal(decide(MODE_WRITE, &sole_reader), VERDICT_REENTER);
    const struct holdsView reader_among_readers = {.own = {[MODE_READ] = 1},
                                                   .others = {[MODE_READ] = true}};
    assert_int_equal(decide(MODE_READ, &reader_among_readers), VERDICT_REENTER);
    assert_int_equal(decide(MODE_WRITE, &reader_among_readers), VERDICT_UPGRADE);
    const struct holdsView lock_owner = {.own = {[MODE_EXCLUSIVE] = 1}};
    assert_int_equal(decide(MODE_EXCLUSIVE, &lock_owner), VERDICT_REENTER);
    assert_int_equal(decide(MODE_READ, &lock_owner), VERDICT_SELF_BLOCKED);
}

/* "If these and all permits already taken are at most its limit": every number up to 5, and those
 * at the end of the range. */
static void permits_are_granted_up_to_the_limit(void **state) {
    (void)state;
    static const int64_t numbers[] = {1, 2, 3, 4, 5, RULES_MAX_HOLDS - 1, RULES_MAX_HOLDS};
    for (size_t i = 0; i < LENGTH_OF(numbers) * LENGTH_OF(numbers); i++) {
        const struct permits permits = {numbers[i / LENGTH_OF(numbers)],
                                        numbers[i % LENGTH_OF(numbers)]};
        const struct lockRequest request = {MODE_SEMAPHORE, permits, .once = false};
        for (size_t j = 0; j < LENGTH_OF(numbers); j++) {
            struct holdsView view = {.others = {[MODE_SEMAPHORE] = true},
                                     .permits_taken = numbers[j]};
            bool fits = numbers[j] + permits.count <= permits.limit;
            assert_int_equal(rulesDecide(&request, &view), fits ? VERDICT_GRANT : VERDICT_WAIT);
            view.own[MODE_SEMAPHORE] = 1;
            assert_int_equal(rulesDecide(&request, &view), fits ? VERDICT_ADD : VERDICT_WAIT);
        }
    }
    const struct lockRequest request = {MODE_SEMAPHORE, {1, RULES_MAX_HOLDS}, .once = false};
    const struct holdsView overfull = {.permits_taken = INT64_MAX}; /* by another client's write */
    assert_int_equal(rulesDecide(&request, &overfull), VERDICT_WAIT);
}

/* ONCE: in every mode, whatever else the owner and others hold there, except for a key that the
 * module cannot read. */
static void with_once_existing_holds_count_and_missing_ones_are_added(void **state) {
    (void)state;
    for (size_t i = 0; i < LENGTH_OF(every_mode); i++) {
        const struct lockRequest request = {every_mode[i], {3, 5}, .once = true};
        bool is_counted = every_mode[i] == MODE_SEMAPHORE;
        struct holdsView view = {.own = {0}};
        assert_int_equal(rulesLacks(&request, &view), is_counted ? 3 : 1);
        assert_int_equal(rulesDecide(&request, &view), VERDICT_GRANT);
        view.own[every_mode[i]] = is_counted ? 3 : 1;
        view.permits_taken = INT64_MAX;
        assert_int_equal(rulesLacks(&request, &view), 0);
        assert_int_equal(rulesDecide(&request, &view), VERDICT_HELD);
        view.own[every_mode[i]] = RULES_MAX_HOLDS;
        assert_int_equal(rulesDecide(&request, &view), VERDICT_HELD);
        view.foreign = true;
        assert_int_equal(rulesDecide(&request, &view), VERDICT_WAIT);
    }
}

static void with_once_missing_permits_must_be_within_the_limit(void **state) {
    (void)state;
    const struct lockRequest request = {MODE_SEMAPHORE, {3, 5}, .once = true};
    for (int64_t taken = 2; taken < 8; taken++) {
        const struct holdsView view = {.own = {[MODE_SEMAPHORE] = 2}, .permits_taken = taken};
        assert_int_equal(rulesLacks(&request, &view), 1);
        assert_int_equal(rulesDecide(&request, &view), taken <= 4 ? VERDICT_ADD : VERDICT_WAIT);
    }
}

static void permits_wait_behind_permits_but_readers_not_behind_readers(void **state) {
    (void)state;
    for (size_t i = 0; i < LENGTH_OF(every_mode); i++) {
        for (size_t j = 0; j < LENGTH_OF(every_mode); j++) {
            bool both_read = every_mode[i] == MODE_READ && every_mode[j] == MODE_READ;
            assert_int_equal(rulesStandsBehind(every_mode[i], every_mode[j]), !both_read);
        }
    }
}

static void a_hold_count_may_reach_its_maximum(void **state) {
    (void)state;
    assert_int_equal(RULES_MAX_HOLDS, 2147483647);
    const struct holdsView view = {.own = {[MODE_EXCLUSIVE] = RULES_MAX_HOLDS}};
    assert_true(rulesOwnsAny(&view));
    assert_int_equal(decide(MODE_EXCLUSIVE, &view), VERDICT_REENTER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(every_verdict_is_that_of_the_rules),
        UNIT(an_owner_owns_if_it_has_a_hold_in_any_mode),
        UNIT(only_reads_and_only_permits_are_compatible),
        UNIT(conflict_is_symmetric),
        UNIT(no_request_waits_for_a_free_lock),
        UNIT(the_examples_of_rule_2),
        UNIT(permits_are_granted_up_to_the_limit),
        UNIT(with_once_existing_holds_count_and_missing_ones_are_added),
        UNIT(with_once_missing_permits_must_be_within_the_limit),
        UNIT(permits_wait_behind_permits_but_readers_not_behind_readers),
        UNIT(a_hold_count_may_reach_its_maximum),
    };
    return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}
