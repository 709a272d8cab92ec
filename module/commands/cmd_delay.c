/* The delayed queue: DELAY.PUSH, DELAY.CANCEL, DELAY.LIST. Elements are delivered by deliver.c. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "commands/args.h"
#include "commands/commands.h"
#include "common/reply.h"
#include "delay/queues.h"
#include "keys/delaykeys.h"
#include "keys/keynames.h"
#include "server/server.h"

/* The longest step between ids that are tried (makeId): about 18 minutes. */
#define LONGEST_STEP_US (INT64_C(1) << 30)

/* Checks what every command of a queue needs of its name. The first call subscribes to the events
 * of queues' keys, and begins a scan for queues that existed before. */
static int keysOrReply(RedisModuleCtx *ctx, RedisModuleString *list) {
    queuesListen(ctx);
    if (serverIsCluster() && !keynamesServeCluster(list)) {
        return replyError(ctx, REPLY_NO_SIDE_KEYS);
    }
    return keynamesSidesAreHere(ctx, list) ? REDISMODULE_OK : replyError(ctx, REPLY_TRY_AGAIN);
}

static int idOrReply(RedisModuleCtx *ctx, RedisModuleString *id) {
    return delaykeysIsId(id) ? REDISMODULE_OK : replyError(ctx, REPLY_EMPTY_ID);
}

static int delayOrReply(const struct args *args, RedisModuleString *value, int64_t *due_ms) {
    long long delay_ms;
    if (RedisModule_StringToLongLong(value, &delay_ms) != REDISMODULE_OK || delay_ms < 0 ||
        delay_ms >= DELAYKEYS_LATEST - args->now_ms) {
        return replyError(args->ctx, REPLY_BAD_DELAY);
    }
    *due_ms = args->now_ms + delay_ms;
    return REDISMODULE_OK;
}

static bool isStar(RedisModuleString *id) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(id, &length);
    return length == 1 && bytes[0] == '*';
}

static int64_t randomBelow(int64_t bound) {
    uint64_t bits;
    RedisModule_GetRandomBytes((unsigned char *)&bits, sizeof(bits));
    return (int64_t)(bits % (uint64_t)bound);
}

/* The last id made; a new one is larger than all that this process has made. It is the time in µs,
 * which has the same number of digits for centuries, so that ids are also in order as text. */
static int64_t last_id;

static RedisModuleString *idIfFree(struct delaykeys *keys) {
    RedisModuleString *id = RedisModule_CreateStringFromLongLong(keys->ctx, last_id);
    if (!delaykeysHas(keys, id)) {
        return id;
    }
    RedisModule_FreeString(keys->ctx, id);
    return NULL;
}

/* Returns a new id, never one that is pending: a client may have pushed such ids itself, or the
 * clock may have been set back. If the next ids are taken, the steps are random, and each may be
 * twice as long as the one before: n taken ids in a row need about log n steps, and no client can
 * predict which ids are tried. */
static RedisModuleString *makeId(struct delaykeys *keys) {
    int64_t now_us = serverMicroseconds(), reach = 1;
    last_id = now_us > last_id ? now_us : last_id + 1;
    RedisModuleString *id;
    while (!(id = idIfFree(keys))) {
        last_id += 1 + randomBelow(reach);
        reach = reach < LONGEST_STEP_US ? 2 * reach : reach;
    }
    return id;
}

/* Puts the element into the keys and replies its id. Returns whether it is a new one. */
static bool cmdDelayPush(const struct args *args, struct delaykeys *keys, int64_t due_ms) {
    RedisModuleString **argv = args->argv;
    RedisModuleString *id = argv[2];
    if (isStar(id)) {
        id = makeId(keys);
    } else {
        RedisModule_RetainString(args->ctx, id);
    }
    bool is_new = delaykeysPut(keys, id, argv[4], due_ms);
    replyString(args->ctx, id);
    RedisModule_FreeString(args->ctx, id);
    return is_new;
}

/* Checks that the keys, which were opened for writing, can be written. */
static int writableOrReply(const struct delaykeys *keys) {
    if (delaykeysAreInUse(keys)) {
        return replyError(keys->ctx, REPLY_KEY_IN_USE);
    }
    return delaykeysIsWrongType(keys) ? replyError(keys->ctx, REPLY_WRONG_TYPE) : REDISMODULE_OK;
}

/* Checks that an element can be added. */
static int queueOrReply(const struct delaykeys *keys) {
    if (writableOrReply(keys) != REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    return delaykeysAreOfAnother(keys) ? replyError(keys->ctx, REPLY_ANOTHER_LIST) : REDISMODULE_OK;
}

/* An element was removed, or its time has changed: if it was the last one, or some elements have
 * been skipped, has the queue checked again. */
static void noteGone(RedisModuleCtx *ctx, RedisModuleString *list, size_t left) {
    RedisModuleString *name = delaykeysQueueOf(ctx, list);
    struct delayedQueue *queue = queuesFind(RedisModule_GetSelectedDb(ctx), name);
    if (queue && (left == 0 || queue->skipped > 0)) {
        queuesLookAgain(ctx, queue);
    }
    RedisModule_FreeString(ctx, name);
}

/* Has the queue checked when the element is due. Not on a writable replica, which delivers nothing,
 * because the master does. */
static void notePushed(RedisModuleCtx *ctx, RedisModuleString *list, int64_t due_ms) {
    if (RedisModule_GetContextFlags(ctx) & REDISMODULE_CTX_FLAGS_MASTER) {
        RedisModuleString *queue = delaykeysQueueOf(ctx, list);
        queuesLookAt(ctx, RedisModule_GetSelectedDb(ctx), queue, due_ms);
        RedisModule_FreeString(ctx, queue);
    }
}

/* DELAY.PUSH list id ms value */
int delayPushCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    const struct args args = argsOf(ctx, argv, argc);
    int64_t due_ms = 0;
    if (argc != 5) {
        return RedisModule_WrongArity(ctx);
    }
    if (idOrReply(ctx, argv[2]) != REDISMODULE_OK ||
        delayOrReply(&args, argv[3], &due_ms) != REDISMODULE_OK ||
        keysOrReply(ctx, argv[1]) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    struct delaykeys keys;
    delaykeysOpen(&keys, ctx, argv[1], KEY_TO_WRITE);
    if (queueOrReply(&keys) == REDISMODULE_OK) {
        bool is_new = cmdDelayPush(&args, &keys, due_ms);
        notePushed(ctx, argv[1], due_ms);
        if (!is_new) {
            noteGone(ctx, argv[1], delaykeysLength(&keys));
        }
    }
    delaykeysClose(&keys);
    return REDISMODULE_OK;
}

/* DELAY.CANCEL list id [id ...] */
int delayCancelCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (argc < 3) {
        return RedisModule_WrongArity(ctx);
    }
    if (keysOrReply(ctx, argv[1]) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    struct delaykeys keys;
    delaykeysOpen(&keys, ctx, argv[1], KEY_TO_WRITE);
    if (writableOrReply(&keys) == REDISMODULE_OK) {
        bool are_ours = !delaykeysAreOfAnother(&keys);
        size_t cancelled = are_ours ? delaykeysRemove(&keys, argv + 2, (size_t)argc - 2) : 0;
        replyInteger(ctx, (int64_t)cancelled);
        if (cancelled > 0) {
            noteGone(ctx, argv[1], delaykeysLength(&keys));
        }
    }
    delaykeysClose(&keys);
    return REDISMODULE_OK;
}

struct shownElements {
    RedisModuleCtx *ctx;
    int64_t now_ms;
    int64_t shown, most;
};

static bool show(const struct delaykeysElement *element, void *data) {
    struct shownElements *list = data;
    if (list->shown == list->most) {
        return false;
    }
    int64_t left_ms = element->due_ms > list->now_ms ? element->due_ms - list->now_ms : 0;
    replyList(list->ctx, 3);
    replyString(list->ctx, element->id);
    replyInteger(list->ctx, left_ms);
    if (element->value) {
        replyString(list->ctx, element->value);
    } else {
        replyNull(list->ctx);
    }
    list->shown++;
    return list->shown < list->most;
}

/* DELAY.LIST list [COUNT n] */
int delayListCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    const struct args args = argsOf(ctx, argv, argc);
    struct argsOptions options;
    if (argc < 2) {
        return RedisModule_WrongArity(ctx);
    }
    if (argsOptionsOrReply(&args, 2, ARGS_COUNT, &options) != REDISMODULE_OK ||
        keysOrReply(ctx, argv[1]) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    struct delaykeys keys;
    struct shownElements list = {.ctx = ctx, .now_ms = args.now_ms, .most = options.count};
    delaykeysOpen(&keys, ctx, argv[1], KEY_TO_READ);
    if (delaykeysIsWrongType(&keys)) {
        replyError(ctx, REPLY_WRONG_TYPE);
    } else {
        replyListStart(ctx);
        if (!delaykeysAreOfAnother(&keys)) {
            delaykeysEach(&keys, show, &list);
        }
        replyListEnd(ctx, (long)list.shown);
    }
    delaykeysClose(&keys);
    return REDISMODULE_OK;
}
