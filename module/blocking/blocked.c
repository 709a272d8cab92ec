/* Blocking and unblocking clients.
 *
 *   blockedBegin         blocks the client of the running command
 *   blockedEndAfter      sets after what time the wait times out
 *   blockedEndAt         sets the time at which a wait without a client ends
 *   blockedAnswer…       unblocks the client with a reply; the server writes it before it sleeps
 *   blockedEnd           unblocks a client that is gone, or that the server has replied to
 *   blockedEndAll        ends all waits after the server has become a replica
 *   blockedMove          makes the client wait for something else
 *
 * To add a kind of waiter, embed `struct blocked`, write the three functions of `struct
 * blockedKind`, and call blockedBegin; waiters.c is an example. To add a kind of reply, add a
 * constant to enum answerKind, a case to onReply, and a function blockedAnswer….
 *
 * Contracts are in blocked.h.
 */
#include "blocking/blocked.h"

#include "common/config.h"
#include "common/failpoint.h"
#include "core/list.h"
#include "core/mem.h"
#include "server/server.h"

/* The blocked clients. The key of an entry is the bytes of the pointer `bc`. */
static struct map by_client;

size_t blockedCount(void) {
    return by_client.used;
}

bool blockedHaveRoom(void) {
    long long most = configMaxWaiters();
    return most == 0 || blockedCount() < (size_t)most;
}

static struct blocked *ofClient(RedisModuleBlockedClient *bc) {
    struct mapEntry *entry = mapFind(&by_client, (const char *)&bc, sizeof(bc));
    return LIST_ELEMENT_OR_NULL(entry, struct blocked, by_client);
}

bool blockedIsFound(const struct blocked *blocked) {
    return ofClient(blocked->bc) == blocked;
}

/* ---- replies ---- */

enum answerKind {
    ANSWER_NUMBER,
    ANSWER_WORD,
    ANSWER_NULL,
    ANSWER_ERROR,
    ANSWER_DEADLOCK,
    ANSWER_TEXT
};

struct answer {
    enum answerKind kind;
    bool delivered;
    int64_t number;
    struct blockedReceipt receipt;
    enum replyWord word;
    enum replyError error;
    RedisModuleString *text; /* of ANSWER_DEADLOCK, ANSWER_TEXT */
};

static size_t in_flight;

size_t blockedAnswersInFlight(void) {
    return in_flight;
}

static int onReply(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    (void)argv;
    (void)argc;
    struct answer *answer = RedisModule_GetBlockedClientPrivateData(ctx);
    (void)failpoint(FAILPOINT_REPLY);
    answer->delivered = true;
    switch (answer->kind) {
    case ANSWER_NUMBER:
        return replyInteger(ctx, answer->number);
    case ANSWER_WORD:
        return replyWord(ctx, answer->word);
    case ANSWER_NULL:
        return replyNull(ctx);
    case ANSWER_ERROR:
        return replyError(ctx, answer->error);
    case ANSWER_DEADLOCK:
        return replyDeadlock(ctx, answer->text);
    case ANSWER_TEXT:
        return replyErrorText(ctx, answer->text);
    }
    return REDISMODULE_ERR;
}

/* The server calls this when it has written the reply, or has found that the connection of the
 * client was closed in this event-loop iteration. */
static void onFree(RedisModuleCtx *ctx, void *data) {
    struct answer *answer = data;
    if (answer->receipt.onEnd) {
        answer->receipt.onEnd(ctx, answer->delivered, answer->receipt.data);
    }
    if (answer->text) {
        RedisModule_FreeString(NULL, answer->text);
    }
    memFree(answer);
    in_flight--;
}

static struct answer *blockedNewAnswer(enum answerKind kind) {
    in_flight++;
    struct answer *answer = memAlloc(sizeof(*answer));
    answer->kind = kind;
    return answer;
}

/* Unblocks the client. The server takes over `answer`, which may be NULL. */
static void unblock(struct blocked *blocked, struct answer *answer) {
    RedisModule_UnblockClient(blocked->bc, answer);
    mapRemove(&by_client, &blocked->by_client);
    blocked->bc = NULL;
    blocked->client_id = 0;
}

void blockedAnswerNumber(struct blocked *blocked, int64_t number, struct blockedReceipt receipt) {
    RedisModule_Assert(blocked->bc);
    struct answer *answer = blockedNewAnswer(ANSWER_NUMBER);
    answer->number = number;
    answer->receipt = receipt;
    unblock(blocked, answer);
}

void blockedAnswerWord(struct blocked *blocked, enum replyWord word) {
    if (blocked->bc) {
        struct answer *answer = blockedNewAnswer(ANSWER_WORD);
        answer->word = word;
        unblock(blocked, answer);
    }
}

void blockedAnswerNull(struct blocked *blocked) {
    if (blocked->bc) {
        unblock(blocked, blockedNewAnswer(ANSWER_NULL));
    }
}

void blockedAnswerError(struct blocked *blocked, enum replyError error) {
    if (blocked->bc) {
        struct answer *answer = blockedNewAnswer(ANSWER_ERROR);
        answer->error = error;
        unblock(blocked, answer);
    }
}

void blockedAnswerDeadlock(struct blocked *blocked, RedisModuleString *cycle) {
    RedisModule_Assert(blocked->bc);
    struct answer *answer = blockedNewAnswer(ANSWER_DEADLOCK);
    answer->text = cycle;
    unblock(blocked, answer);
}

void blockedAnswerText(struct blocked *blocked, RedisModuleString *error) {
    if (blocked->bc) {
        struct answer *answer = blockedNewAnswer(ANSWER_TEXT);
        answer->text = error;
        RedisModule_RetainString(NULL, error);
        unblock(blocked, answer);
    }
}

void blockedEnd(struct blocked *blocked) {
    if (blocked->bc) {
        unblock(blocked, NULL);
    }
}

/* ---- deadlines ---- */

static void blockedOnTimer(RedisModuleCtx *ctx, struct timer *timer);

static void putEnd(struct blocked *blocked, int64_t end_ms) {
    blocked->end_ms = end_ms;
    blocked->clock_steps = timerClockSteps();
}

void blockedEndAfter(RedisModuleCtx *ctx, struct blocked *blocked, int64_t block_ms,
                     int64_t now_ms) {
    int64_t at_us = block_ms == 0 ? INT64_MAX : timerAfter(block_ms);
    bool forever = block_ms == 0 || block_ms > INT64_MAX - now_ms;
    putEnd(blocked, forever ? BLOCKED_FOREVER : now_ms + block_ms);
    blockedStopTimer(ctx, blocked);
    if (at_us != INT64_MAX) {
        timerSet(ctx, &blocked->timer, at_us, blockedOnTimer);
    }
}

void blockedEndAt(RedisModuleCtx *ctx, struct blocked *blocked, int64_t at_ms) {
    putEnd(blocked, at_ms);
    timerSetWall(ctx, &blocked->timer, at_ms, blockedOnTimer);
}

int64_t blockedEndMs(struct blocked *blocked, int64_t now_ms) {
    const struct timer *timer = &blocked->timer;
    bool must_recompute = timer->is_set && timer->clock == TIMER_MONOTONIC &&
                          blocked->clock_steps != timerClockSteps();
    if (must_recompute) {
        putEnd(blocked, now_ms + timerLeftMs(timer));
    }
    return blocked->end_ms;
}

static void blockedOnTimer(RedisModuleCtx *ctx, struct timer *timer) {
    struct blocked *blocked = TIMER_OWNER(timer, struct blocked, timer);
    blocked->kind->onDeadline(ctx, blocked);
}

/* ---- callbacks of the server ---- */

/* If the wait of the client has already ended, the client is no longer in the map. */
static void onDisconnect(RedisModuleCtx *ctx, RedisModuleBlockedClient *bc) {
    struct blocked *blocked = ofClient(bc);
    if (blocked) {
        blockedEnd(blocked);
        blocked->kind->onGone(ctx, blocked);
    }
}

/* The server calls this for CLIENT UNBLOCK … TIMEOUT only, because it does not know of any
 * deadline. */
static int blockedOnUnblock(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    (void)argv;
    (void)argc;
    struct blocked *blocked = ofClient(RedisModule_GetBlockedClientHandle(ctx));
    if (blocked) {
        blockedEnd(blocked);
        blocked->kind->onUnblock(ctx, blocked);
    }
    return replyNull(ctx);
}

static void endOne(struct mapEntry *entry, void *ctx) {
    struct blocked *blocked = LIST_ELEMENT(entry, struct blocked, by_client);
    blockedAnswerError(blocked, REPLY_UNBLOCKED);
    blocked->kind->onGone(ctx, blocked);
}

void blockedEndAll(RedisModuleCtx *ctx) {
    mapEach(&by_client, endOne, ctx);
}

/* ---- blocking ---- */

/* Blocks the client without a time-out of the server, because such a time-out is up to 100 ms late,
 * and may happen while the module unblocks the client. */
static RedisModuleBlockedClient *blockedBlock(RedisModuleCtx *ctx) {
    if (failpoint(FAILPOINT_BLOCK)) {
        return NULL;
    }
    return RedisModule_BlockClient(
        ctx, onReply, serverCanUnblockByCommand() ? blockedOnUnblock : NULL, onFree, 0);
}

static void takeClient(struct blocked *blocked, RedisModuleBlockedClient *bc,
                       unsigned long long client_id) {
    blocked->bc = bc;
    blocked->client_id = client_id;
    blocked->end_ms = BLOCKED_FOREVER;
    mapAdd(&by_client, &blocked->by_client, (const char *)&blocked->bc, sizeof(blocked->bc));
}

void blockedMove(struct blocked *from, struct blocked *to, const struct blockedKind *kind) {
    RedisModule_Assert(from->bc && !to->bc);
    mapRemove(&by_client, &from->by_client);
    to->kind = kind;
    takeClient(to, from->bc, from->client_id);
    from->bc = NULL;
    from->client_id = 0;
}

bool blockedBegin(struct blocked *blocked, RedisModuleCtx *ctx, const struct blockedKind *kind) {
    RedisModuleBlockedClient *bc = blockedBlock(ctx);
    if (!bc) {
        return false;
    }
    RedisModule_SetDisconnectCallback(bc, onDisconnect);
    blocked->kind = kind;
    takeClient(blocked, bc, RedisModule_GetClientId(ctx));
    return true;
}
