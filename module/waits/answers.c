/* See answers.h. */
#include "waits/answers.h"

#include <stddef.h>
#include <string.h>

#include "core/mem.h"
#include "server/failpoint.h"
#include "server/server.h"

enum answerKind { ANSWER_NUMBER, ANSWER_NULL, ANSWER_ERROR, ANSWER_DEADLOCK, ANSWER_REDIRECTION };

struct answer {
    enum answerKind kind;
    bool delivered;
    int64_t number;
    void (*told)(RedisModuleCtx *ctx, bool delivered, void *data);
    void *data;
    enum replyError error;
    RedisModuleString *cycle; /* of ANSWER_DEADLOCK */
    bool asks;
    int slot;
    char address[]; /* of ANSWER_REDIRECTION, with its zero */
};

static size_t in_flight;

size_t answersInFlight(void) {
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
    case ANSWER_NULL:
        return replyNull(ctx);
    case ANSWER_ERROR:
        return replyError(ctx, answer->error);
    case ANSWER_DEADLOCK:
        return replyDeadlock(ctx, answer->cycle);
    case ANSWER_REDIRECTION:
        return replyRedirection(ctx, answer->asks, answer->slot, answer->address);
    }
    return REDISMODULE_ERR;
}

/* The server has printed the answer, or has found that the client died in this very loop turn. */
static void onFree(RedisModuleCtx *ctx, void *data) {
    struct answer *answer = data;
    if (answer->told) {
        answer->told(ctx, answer->delivered, answer->data);
    }
    if (answer->cycle) {
        RedisModule_FreeString(NULL, answer->cycle);
    }
    memFree(answer);
    in_flight--;
}

RedisModuleBlockedClient *answersBlock(RedisModuleCtx *ctx, RedisModuleCmdFunc onUnblock,
                                       RedisModuleDisconnectFunc onDisconnect) {
    /* Time-out 0: deadlines are our own timers, because the server's come up to 100 ms late and
     * race with unblocking. */
    if (failpoint(FAILPOINT_BLOCK)) {
        return NULL;
    }
    RedisModuleBlockedClient *bc = RedisModule_BlockClient(
        ctx, onReply, serverCanUnblockByCommand() ? onUnblock : NULL, onFree, 0);
    if (bc) {
        RedisModule_SetDisconnectCallback(bc, onDisconnect);
    }
    return bc;
}

static struct answer *newAnswer(enum answerKind kind, size_t address_size) {
    in_flight++;
    struct answer *answer = memAlloc(sizeof(*answer) + address_size);
    answer->kind = kind;
    return answer;
}

void answersSendNumber(RedisModuleBlockedClient *bc, int64_t number,
                       void (*told)(RedisModuleCtx *ctx, bool delivered, void *data), void *data) {
    struct answer *answer = newAnswer(ANSWER_NUMBER, 0);
    answer->number = number;
    answer->told = told;
    answer->data = data;
    RedisModule_UnblockClient(bc, answer);
}

void answersSendNull(RedisModuleBlockedClient *bc) {
    RedisModule_UnblockClient(bc, newAnswer(ANSWER_NULL, 0));
}

void answersSendError(RedisModuleBlockedClient *bc, enum replyError error) {
    struct answer *answer = newAnswer(ANSWER_ERROR, 0);
    answer->error = error;
    RedisModule_UnblockClient(bc, answer);
}

void answersSendDeadlock(RedisModuleBlockedClient *bc, RedisModuleString *cycle) {
    struct answer *answer = newAnswer(ANSWER_DEADLOCK, 0);
    answer->cycle = cycle;
    RedisModule_UnblockClient(bc, answer);
}

void answersSendRedirection(RedisModuleBlockedClient *bc, bool asks, int slot, const char *address,
                            size_t length) {
    struct answer *answer = newAnswer(ANSWER_REDIRECTION, length + 1);
    memcpy(answer->address, address, length);
    answer->asks = asks;
    answer->slot = slot;
    RedisModule_UnblockClient(bc, answer);
}

void answersSendNothing(RedisModuleBlockedClient *bc) {
    RedisModule_UnblockClient(bc, NULL);
}
