/* See failpoint.h. */
#ifndef CHECKED
#define CHECKED /* also if this file is checked alone: make tidy */
#endif
#define _POSIX_C_SOURCE 200809L /* SIGSTOP, strtok_r */
#include "common/failpoint.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "server/server.h"

static const char *const names[FAILPOINT_COUNT] = {
    [FAILPOINT_TAKE_BEGUN] = "take.begun",
    [FAILPOINT_TAKE_WRITTEN] = "take.written",
    [FAILPOINT_RELEASE_BEGUN] = "release.begun",
    [FAILPOINT_RELEASE_DONE] = "release.done",
    [FAILPOINT_RENEW_BEGUN] = "renew.begun",
    [FAILPOINT_RENEW_DONE] = "renew.done",
    [FAILPOINT_EFFECT] = "effect",
    [FAILPOINT_ANSWER] = "answer",
    [FAILPOINT_REPLY] = "reply",
    [FAILPOINT_DRAIN_BEGUN] = "drain.begun",
    [FAILPOINT_DRAIN_LOCK] = "drain.lock",
    [FAILPOINT_MULTIKEY_BETWEEN] = "multikey.between",
    [FAILPOINT_FAIR_BETWEEN] = "fair.between",
    [FAILPOINT_DELIVER_BEGUN] = "deliver.begun",
    [FAILPOINT_DELIVER_PUSHED] = "deliver.pushed",
    [FAILPOINT_CONSENT] = "consent",
    [FAILPOINT_BLOCK] = "block",
    [FAILPOINT_OPEN] = "open",
};

enum action { KILL, STOP, FAIL, ACTION_COUNT };

static const char *const actions[ACTION_COUNT] = {
    [KILL] = "kill", [STOP] = "stop", [FAIL] = "fail"};

static struct {
    RedisModuleString *text; /* as it was set; NULL if none is */
    enum failpoint point;
    enum action action;
    unsigned long countdown; /* it acts when the point is reached this many more times */
} armed;

/* The keys that have been opened to write since FAILPOINT_OPEN was set, in this order. Once the
 * countdown is 0, the last one is in use. */
#define MOST_OPENED 64
static struct {
    struct openedKey {
        int db;
        RedisModuleString *name;
    } keys[MOST_OPENED];
    size_t count;
} opened;

static void forgetOpened(void) {
    while (opened.count > 0) {
        RedisModule_FreeString(NULL, opened.keys[--opened.count].name);
    }
}

static void disarm(void) {
    if (armed.text) {
        RedisModule_FreeString(NULL, armed.text);
        armed.text = NULL;
    }
    forgetOpened();
}

/* Performs the action. Returns whether the operation at the point is to fail. */
static bool happen(void) {
    enum action action = armed.action;
    disarm();
    switch (action) {
    case KILL:
        (void)raise(SIGKILL);
        break;
    case STOP:
        (void)raise(SIGSTOP);
        break;
    case FAIL:
    case ACTION_COUNT:
        break;
    }
    return action == FAIL;
}

bool failpoint(enum failpoint point) {
    if (!armed.text || armed.point != point || --armed.countdown > 0) {
        return false;
    }
    return happen();
}

/* ---- keys in use ---- */

/* The index of this key in `opened`; the number of keys there if it is none of them. */
static size_t findOpened(const struct openedKey *key) {
    size_t i = 0;
    while (i < opened.count && (opened.keys[i].db != key->db ||
                                RedisModule_StringCompare(opened.keys[i].name, key->name) != 0)) {
        i++;
    }
    return i;
}

/* The key is in use from now on. */
static void failpointHoldKey(void) {
    static const char text[] = "open in-use";
    RedisModule_FreeString(NULL, armed.text);
    armed.text = RedisModule_CreateString(NULL, text, sizeof(text) - 1);
}

bool failpointKeyIsInUse(RedisModuleCtx *ctx, RedisModuleString *name) {
    struct openedKey key = {RedisModule_GetSelectedDb(ctx), name};
    if (!armed.text || armed.point != FAILPOINT_OPEN) {
        return false;
    }
    size_t number = findOpened(&key);
    if (number < opened.count || armed.countdown == 0) {
        return armed.countdown == 0 && number == opened.count - 1;
    }
    RedisModule_Assert(opened.count < MOST_OPENED);
    key.name = RedisModule_CreateStringFromString(NULL, name);
    opened.keys[opened.count++] = key;
    if (--armed.countdown > 0) {
        return false;
    }
    if (armed.action != FAIL) {
        return happen();
    }
    failpointHoldKey();
    return true;
}

/* ---- the config ---- */

/* The index of the word in the table, or `count`. */
static size_t numberOf(const char *word, const char *const table[], size_t count) {
    size_t i = 0;
    while (i < count && (!word || strcmp(word, table[i]) != 0)) {
        i++;
    }
    return i;
}

/* The word as a number; 0 if it is none, or is too large. */
static unsigned long failpointCountOf(const char *word) {
    char *end;
    bool begins_with_digit = *word >= '0' && *word <= '9';
    errno = 0;
    unsigned long count = strtoul(word, &end, 10);
    return begins_with_digit && *end == '\0' && errno == 0 ? count : 0;
}

/* Parses "point action [n]". Returns whether the value has this form; then it replaces what was
 * set. */
static bool arm(RedisModuleString *value) {
    char text[64], *rest = NULL;
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(value, &length);
    if (length >= sizeof(text) || memchr(bytes, '\0', length)) {
        return false;
    }
    memcpy(text, bytes, length);
    text[length] = '\0';
    size_t point = numberOf(strtok_r(text, " ", &rest), names, FAILPOINT_COUNT);
    size_t action = numberOf(strtok_r(NULL, " ", &rest), actions, ACTION_COUNT);
    const char *times = strtok_r(NULL, " ", &rest);
    unsigned long count = times ? failpointCountOf(times) : 1;
    if (point == FAILPOINT_COUNT || action == ACTION_COUNT || count == 0 ||
        strtok_r(NULL, " ", &rest)) {
        return false;
    }
    disarm();
    armed.point = (enum failpoint)point;
    armed.action = (enum action)action;
    armed.countdown = count;
    armed.text = RedisModule_CreateStringFromString(NULL, value);
    return true;
}

static int failpointSet(const char *name, RedisModuleString *value, void *data,
                        RedisModuleString **error) {
    static const char refused[] = "no such failpoint, or nothing to do there";
    (void)name;
    (void)data;
    size_t length;
    (void)RedisModule_StringPtrLen(value, &length);
    if (length == 0) {
        disarm();
    } else if (!arm(value)) {
        *error = RedisModule_CreateString(NULL, refused, sizeof(refused) - 1);
        return REDISMODULE_ERR;
    }
    return REDISMODULE_OK;
}

static RedisModuleString *get(const char *name, void *data) {
    static RedisModuleString *none;
    (void)name;
    (void)data;
    if (!none) {
        none = RedisModule_CreateString(NULL, "", 0);
    }
    return armed.text ? armed.text : none;
}

static bool refusesWrites(void) {
    return failpoint(FAILPOINT_CONSENT);
}

int failpointRegister(RedisModuleCtx *ctx) {
    server_refuses = refusesWrites;
    return RedisModule_RegisterStringConfig(ctx, "failpoint", "", REDISMODULE_CONFIG_DEFAULT, get,
                                            failpointSet, NULL, NULL);
}
