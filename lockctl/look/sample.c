/* See sample.h. */
#include "look/sample.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "net/replies.h"

/* ---- adding ---- */

static struct sampleLock lockOf(const redisReply *map, size_t node) {
    const redisReply *name = replyField(map, "lock");
    bool has_name = name && name->type == REDIS_REPLY_STRING;
    return (struct sampleLock){.name =
                                   memoryCopy(has_name ? name->str : "", has_name ? name->len : 0),
                               .length = has_name ? name->len : 0,
                               .node = node,
                               .db = replyNumber(map, "db", 0),
                               .waits = replyNumber(map, "waits", 0),
                               .waiters = replyNumber(map, "waiters", 0),
                               .waited_us = replyNumber(map, "usec", 0),
                               .mean_us = replyNumber(map, "usec_per_wait", -1),
                               .longest_us = replyNumber(map, "usec_longest", -1),
                               .held_us = replyNumber(map, "usec_per_hold", -1),
                               .error_us = replyNumber(map, "usec_error", 0),
                               .waits_per_s = -1,
                               .average = -1};
}

void sampleAddTop(struct sample *sample, size_t node, const redisReply *top) {
    if (top->elements == 0) {
        return;
    }
    size_t count = sample->count + top->elements;
    sample->locks = memoryResize(sample->locks, count * sizeof(struct sampleLock));
    for (size_t i = 0; i < top->elements; i++) {
        sample->locks[sample->count++] = lockOf(top->element[i], node);
    }
}

static void raiseTo(int64_t *most, int64_t value) {
    *most = value > *most ? value : *most;
}

void sampleAddInfo(struct sample *sample, const redisReply *info) {
    struct sampleTotals *totals = &sample->totals;
    sample->nodes_replied++;
    totals->waiters += replyInfoNumber(info, "lock_waiters", 0);
    totals->contended += replyInfoNumber(info, "lock_contended_locks", 0);
    totals->sessions += replyInfoNumber(info, "lock_sessions", 0);
    totals->waited += replyInfoNumber(info, "lock_granted_after_wait", 0);
    totals->granted += replyInfoNumber(info, "lock_granted_at_once", 0) +
                       replyInfoNumber(info, "lock_granted_after_wait", 0);
    totals->lease_ends += replyInfoNumber(info, "lock_lease_ends", 0);
    totals->deadlocks += replyInfoNumber(info, "lock_deadlocks_refused", 0);
    totals->time_outs += replyInfoNumber(info, "lock_time_outs", 0);
    raiseTo(&totals->p50_ms, replyInfoNumber(info, "lock_wait_ms_p50", 0));
    raiseTo(&totals->p99_ms, replyInfoNumber(info, "lock_wait_ms_p99", 0));
    raiseTo(&totals->p99_9_ms, replyInfoNumber(info, "lock_wait_ms_p99_9", 0));
    raiseTo(&totals->max_ms, replyInfoNumber(info, "lock_wait_ms_max", 0));
}

/* ---- the difference ---- */

/* Compares by node, database and name: equal means the same lock. */
static int compareIdentity(const void *a, const void *b) {
    const struct sampleLock *first = a;
    const struct sampleLock *second = b;
    if (first->node != second->node) {
        return first->node < second->node ? -1 : 1;
    }
    if (first->db != second->db) {
        return first->db < second->db ? -1 : 1;
    }
    size_t shorter = first->length < second->length ? first->length : second->length;
    int by_bytes = memcmp(first->name, second->name, shorter);
    return by_bytes ? by_bytes
                    : (first->length > second->length) - (first->length < second->length);
}

/* Returns the increase per second; 0 if the counter was reset in between. */
static double perSecond(int64_t now, int64_t before, double seconds) {
    return now > before ? (double)(now - before) / seconds : 0;
}

static void compareLock(struct sampleLock *lock, const struct sampleLock *before, double seconds) {
    lock->waits_per_s = perSecond(lock->waits, before ? before->waits : 0, seconds);
    lock->average = perSecond(lock->waited_us, before ? before->waited_us : 0, seconds) / 1e6;
}

void sampleCompare(struct sample *sample, const struct sample *before) {
    sample->totals.granted_per_s = sample->totals.waited_per_s = -1;
    if (before->at_ms == 0 || before->at_ms >= sample->at_ms) {
        return;
    }
    double seconds = (double)(sample->at_ms - before->at_ms) / 1000;
    size_t size = (before->count + 1) * sizeof(struct sampleLock);
    struct sampleLock *sorted = memoryNew(size);
    if (before->count > 0) {
        memcpy(sorted, before->locks, before->count * sizeof(struct sampleLock));
        qsort(sorted, before->count, sizeof(struct sampleLock), compareIdentity);
    }
    for (size_t i = 0; i < sample->count; i++) {
        struct sampleLock *lock = &sample->locks[i];
        compareLock(
            lock, bsearch(lock, sorted, before->count, sizeof(struct sampleLock), compareIdentity),
            seconds);
    }
    free(sorted);
    struct sampleTotals *totals = &sample->totals;
    totals->granted_per_s = perSecond(totals->granted, before->totals.granted, seconds);
    totals->waited_per_s = perSecond(totals->waited, before->totals.waited, seconds);
}

/* ---- order ---- */

static double keyOf(const struct sampleLock *lock, enum sampleOrder order) {
    switch (order) {
    case SAMPLE_BY_TIME:
        return (double)lock->waited_us;
    case SAMPLE_BY_WAITERS:
        return (double)lock->waiters;
    case SAMPLE_BY_RATE:
        return lock->waits_per_s;
    case SAMPLE_BY_MEAN:
        return (double)lock->mean_us;
    case SAMPLE_BY_LONGEST:
        return (double)lock->longest_us;
    case SAMPLE_BY_NAME:
        return 0;
    }
    return 0;
}

static enum sampleOrder sorted_by; /* qsort has no parameter for it */

/* Compares by the sort key, then by total time, then by identity, so that rows keep their
 * places. */
static int compareKeys(const void *a, const void *b) {
    double first = keyOf(a, sorted_by);
    double second = keyOf(b, sorted_by);
    if (first != second) {
        return first > second ? -1 : 1;
    }
    if (sorted_by != SAMPLE_BY_NAME) {
        double first_time = keyOf(a, SAMPLE_BY_TIME);
        double second_time = keyOf(b, SAMPLE_BY_TIME);
        if (first_time != second_time) {
            return first_time > second_time ? -1 : 1;
        }
    }
    return compareIdentity(a, b);
}

static void freeLock(const struct sampleLock *lock) {
    free(lock->name);
    free(lock->holder);
}

void sampleSort(struct sample *sample, enum sampleOrder order, size_t most) {
    if (sample->count == 0) {
        return;
    }
    sorted_by = order;
    qsort(sample->locks, sample->count, sizeof(struct sampleLock), compareKeys);
    while (sample->count > most) {
        freeLock(&sample->locks[--sample->count]);
    }
}

void sampleFree(struct sample *sample) {
    for (size_t i = 0; i < sample->count; i++) {
        freeLock(&sample->locks[i]);
    }
    free(sample->locks);
    *sample = (struct sample){0};
}

char *sampleDuration(char *room, int64_t us) {
    if (us < 0) {
        snprintf(room, 16, "-");
    } else if (us < 1000) {
        snprintf(room, 16, "%" PRId64 " us", us);
    } else if (us < 10000) {
        snprintf(room, 16, "%.1f ms", (double)us / 1e3);
    } else if (us < 1000000) {
        snprintf(room, 16, "%" PRId64 " ms", us / 1000);
    } else if (us < 100 * (int64_t)1000000) {
        snprintf(room, 16, "%.1f s", (double)us / 1e6);
    } else if (us < 6000 * (int64_t)1000000) {
        snprintf(room, 16, "%" PRId64 " min", us / 60000000);
    } else {
        snprintf(room, 16, "%" PRId64 " h", us / 3600000000);
    }
    return room;
}
