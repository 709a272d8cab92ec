/* lockctl top: once as text or JSON, continuously as JSON, or on a screen. */
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alarm.h"
#include "base/failure.h"
#include "base/printable.h"
#include "look/gather.h"
#include "look/look.h"
#include "look/screen.h"

struct top {
    const struct lookOrder *order;
    struct event_base *base;
    struct gather gather;
    struct screen screen;
    struct alarm next;
    bool is_due, is_over;
    int ended_by; /* a signal, or 0 */
};

/* ---- text and JSON ---- */

static json_t *lockJson(const struct gather *gather, const struct sampleLock *lock) {
    json_t *row = json_object();
    printableSet(row, "lock", lock->name, lock->length);
    json_object_set_new(row, "node", json_string(gather->nodes.list[lock->node]->place));
    json_object_set_new(row, "db", json_integer(lock->db));
    json_object_set_new(row, "waiters", json_integer(lock->waiters));
    json_object_set_new(row, "waits", json_integer(lock->waits));
    json_object_set_new(row, "usec", json_integer(lock->waited_us));
    json_object_set_new(row, "usec_per_wait", json_integer(lock->mean_us));
    json_object_set_new(row, "usec_longest", json_integer(lock->longest_us));
    json_object_set_new(row, "usec_per_hold",
                        lock->held_us < 0 ? json_null() : json_integer(lock->held_us));
    json_object_set_new(row, "usec_error", json_integer(lock->error_us));
    json_object_set_new(row, "holders", json_integer((json_int_t)lock->holders));
    if (lock->holder) {
        printableSet(row, "owner", lock->holder, lock->holder_length);
    } else {
        json_object_set_new(row, "owner", json_null());
    }
    return row;
}

static json_t *totalsJson(const struct sampleTotals *totals) {
    const struct {
        const char *name;
        int64_t value;
    } fields[] = {
        {"waiters", totals->waiters},           {"contended_locks", totals->contended},
        {"sessions", totals->sessions},         {"granted", totals->granted},
        {"granted_after_wait", totals->waited}, {"lease_ends", totals->lease_ends},
        {"time_outs", totals->time_outs},       {"deadlocks_refused", totals->deadlocks},
        {"wait_ms_p50", totals->p50_ms},        {"wait_ms_p99", totals->p99_ms},
        {"wait_ms_p99_9", totals->p99_9_ms},    {"wait_ms_max", totals->max_ms},
    };
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        json_object_set_new(object, fields[i].name, json_integer(fields[i].value));
    }
    return object;
}

static void printJson(const struct top *top) {
    json_t *locks = json_array();
    for (size_t i = 0; i < top->gather.now.count; i++) {
        json_array_append_new(locks, lockJson(&top->gather, &top->gather.now.locks[i]));
    }
    json_t *all = json_object();
    json_object_set_new(all, "nodes", json_integer((json_int_t)top->gather.nodes.count));
    json_object_set_new(all, "nodes_replied",
                        json_integer((json_int_t)top->gather.now.nodes_replied));
    json_object_set_new(all, "totals", totalsJson(&top->gather.now.totals));
    json_object_set_new(all, "locks", locks);
    /* One object per line if more follow. */
    size_t flags = top->order->is_once ? JSON_INDENT(2) : JSON_COMPACT;
    json_dumpf(all, stdout, flags | JSON_PRESERVE_ORDER);
    putchar('\n');
    fflush(stdout);
    json_decref(all);
}

static void printLock(const struct sampleLock *lock) {
    char mean[16];
    char longest[16];
    char held[16];
    char *name = printableText(lock->name, lock->length);
    char *holder = printableText(lock->holder ? lock->holder : "", lock->holder_length);
    printf("%7" PRId64 " %10" PRId64 " %8s %8s %8s  %s", lock->waiters, lock->waits,
           sampleDuration(mean, lock->mean_us), sampleDuration(longest, lock->longest_us),
           sampleDuration(held, lock->held_us), name);
    if (*holder) {
        printf("  held by %s", holder);
    }
    if (lock->holders > 1) {
        printf(" and %zu more", lock->holders - 1);
    }
    putchar('\n');
    free(holder);
    free(name);
}

static void printText(const struct top *top) {
    const struct sample *now = &top->gather.now;
    const struct sampleTotals *totals = &now->totals;
    printf("waiters %" PRId64 "  locks %" PRId64 "  sessions %" PRId64 "  waits: p50 %" PRId64
           " p99 %" PRId64 " p99.9 %" PRId64 " max %" PRId64 " ms\n",
           totals->waiters, totals->contended, totals->sessions, totals->p50_ms, totals->p99_ms,
           totals->p99_9_ms, totals->max_ms);
    printf("%7s %10s %8s %8s %8s  %s\n", "WAITERS", "WAITS", "MEAN", "LONGEST", "HELD", "LOCK");
    for (size_t i = 0; i < now->count; i++) {
        printLock(&now->locks[i]);
    }
    fflush(stdout);
}

/* Returns whether all nodes have replied. */
static bool lookOnce(struct top *top) {
    gatherSample(&top->gather);
    sampleSort(&top->gather.now, SAMPLE_BY_TIME, (size_t)top->order->count);
    gatherHolders(&top->gather, 0, top->gather.now.count, (size_t)-1);
    if (top->order->as_json) {
        printJson(top);
    } else {
        printText(top);
    }
    if (top->gather.error) {
        failureSay("%s", top->gather.error);
    }
    return !top->gather.error && top->gather.now.nodes_replied == top->gather.nodes.count;
}

/* ---- continuous output ---- */

static void onNext(void *arg) {
    struct top *top = arg;
    top->is_due = true;
}

static void onSignal(evutil_socket_t number, short what, void *arg) {
    struct top *top = arg;
    (void)what;
    top->is_over = true;
    top->ended_by = (int)number;
}

static void onResize(evutil_socket_t number, short what, void *arg) {
    struct top *top = arg;
    (void)number;
    (void)what;
    screenResize();
    screenFollow(&top->screen, &top->gather.now);
    screenDraw(&top->screen, &top->gather);
}

static void sampleForScreen(struct top *top) {
    if (!top->screen.is_paused) {
        gatherSample(&top->gather);
    }
    sampleSort(&top->gather.now, top->screen.order, (size_t)-1);
    screenFollow(&top->screen, &top->gather.now);
    gatherHolders(&top->gather, top->screen.first, screenRows(), top->screen.selected);
    screenDraw(&top->screen, &top->gather);
}

static void onKeys(evutil_socket_t fd, short what, void *arg) {
    struct top *top = arg;
    (void)fd;
    (void)what;
    switch (screenKeys(&top->screen, &top->gather.now)) {
    case SCREEN_NOTHING:
        break;
    case SCREEN_DRAW:
        screenDraw(&top->screen, &top->gather);
        break;
    case SCREEN_SAMPLE:
        top->is_due = true;
        break;
    case SCREEN_QUIT:
        top->is_over = true;
        break;
    }
}

static void loop(struct top *top, void (*sample)(struct top *top)) {
    alarmInit(&top->next, top->base, onNext, top);
    top->is_due = true;
    while (!top->is_over) {
        if (top->is_due) {
            top->is_due = false;
            sample(top);
            alarmSet(&top->next, top->order->interval_ms);
        } else {
            event_base_loop(top->base, EVLOOP_ONCE);
        }
    }
    alarmFree(&top->next);
}

static void watchSignals(struct top *top, struct event **events) {
    events[0] = evsignal_new(top->base, SIGINT, onSignal, top);
    events[1] = evsignal_new(top->base, SIGTERM, onSignal, top);
    events[2] = evsignal_new(top->base, SIGHUP, onSignal, top);
    for (int i = 0; i < 3; i++) {
        event_add(events[i], NULL);
    }
}

static int showScreen(struct top *top) {
    struct event *events[5];
    screenBegin(&top->screen);
    watchSignals(top, events);
    events[3] = evsignal_new(top->base, SIGWINCH, onResize, top);
    events[4] = event_new(top->base, STDIN_FILENO, EV_READ | EV_PERSIST, onKeys, top);
    event_add(events[3], NULL);
    event_add(events[4], NULL);
    loop(top, sampleForScreen);
    screenEnd(&top->screen);
    for (int i = 0; i < 5; i++) {
        event_free(events[i]);
    }
    return top->ended_by ? 128 + top->ended_by : 0;
}

static void printAgain(struct top *top) {
    lookOnce(top);
}

static int printLines(struct top *top) {
    struct event *events[3];
    watchSignals(top, events);
    loop(top, printAgain);
    for (int i = 0; i < 3; i++) {
        event_free(events[i]);
    }
    return top->ended_by ? 128 + top->ended_by : 0;
}

int topCommand(const struct lookOrder *order) {
    struct top top = {.order = order, .base = event_base_new()};
    gatherOpen(&top.gather, top.base, order);
    int status;
    if (order->is_once) {
        status = lookOnce(&top) ? 0 : FAILURE_UNAVAILABLE;
    } else if (order->as_json) {
        status = printLines(&top);
    } else if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        failureSay("top needs a terminal, or --once or --json");
        status = FAILURE_USAGE;
    } else {
        status = showScreen(&top);
    }
    gatherClose(&top.gather);
    event_base_free(top.base);
    return status;
}
