/* A command under a lock: LOCK.GUARD.
 *
 * The check of the lock and the command are one step, so an owner that has lost its lock can no
 * longer write. The inner command runs as the caller: with its ACL, its RESP version, its refusals
 * (OOM, READONLY, …), and as in a script: nothing that a script may not call, and nothing that
 * blocks.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "commands/args.h"
#include "commands/commands.h"
#include "commands/slots.h"
#include "common/reply.h"
#include "grant/holding.h"
#include "server/server.h"

#define FIRST_INNER 3

static bool running;

/* Whether the reply is an error whose text begins and ends like this. */
static bool isError(RedisModuleCallReply *reply, const char *begin, const char *end) {
    if (!reply || RedisModule_CallReplyType(reply) != REDISMODULE_REPLY_ERROR) {
        return false;
    }
    size_t length, begins = strlen(begin), ends = strlen(end);
    const char *text = RedisModule_CallReplyStringPtr(reply, &length);
    return length >= begins + ends && memcmp(text, begin, begins) == 0 &&
           memcmp(text + length - ends, end, ends) == 0;
}

/* Whether the server has refused the command because scripts may not call it, and so has not run
 * it. The error number alone is not enough, because a command may also set it while it runs. */
static bool isRefusedToScripts(RedisModuleCallReply *reply, int error) {
    return error == ESPIPE && isError(reply, "ERR command '", "' is not allowed on script mode");
}

/* Whether the server flags this command as one that may block its client. */
static bool mayBlock(RedisModuleCtx *ctx, RedisModuleString *command) {
    bool blocks = false;
    RedisModuleCallReply *reply = RedisModule_Call(ctx, "COMMAND", "cs", "INFO", command);
    RedisModuleCallReply *info = reply ? RedisModule_CallReplyArrayElement(reply, 0) : NULL;
    RedisModuleCallReply *flags = info ? RedisModule_CallReplyArrayElement(info, 2) : NULL;
    size_t count = flags ? RedisModule_CallReplyLength(flags) : 0;
    for (size_t i = 0; i < count && !blocks; i++) {
        size_t length;
        const char *flag =
            RedisModule_CallReplyStringPtr(RedisModule_CallReplyArrayElement(flags, i), &length);
        blocks = flag && length == strlen("blocking") && memcmp(flag, "blocking", length) == 0;
    }
    if (reply) {
        RedisModule_FreeCallReply(reply);
    }
    return blocks;
}

/* WAIT and WAITAOF: called by a module, the first crashes Redis 7.0. */
static bool waitsForReplicas(RedisModuleString *command) {
    return strncasecmp(RedisModule_StringPtrLen(command, NULL), "WAIT", strlen("WAIT")) == 0;
}

static RedisModuleCallReply *cmdGuardCall(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    const char *command = RedisModule_StringPtrLen(argv[FIRST_INNER], NULL);
    RedisModuleString **arguments = argv + FIRST_INNER + 1;
    size_t count = (size_t)(argc - FIRST_INNER - 1);
    /* "!": replicated as the inner command; "C": with the caller's permissions; "E": errors as
     * replies; "S": as in a script; "M": OOM; "0": in the caller's RESP version. */
    errno = 0;
    RedisModuleCallReply *reply = RedisModule_Call(ctx, command, "!CESM0v", arguments, count);
    if (!isRefusedToScripts(reply, errno) || waitsForReplicas(argv[FIRST_INNER]) ||
        !mayBlock(ctx, argv[FIRST_INNER])) {
        return reply;
    }
    /* Scripts may not call BLPOP and similar commands because they block. A call from a module
     * never blocks: they do what they do in MULTI. */
    RedisModule_FreeCallReply(reply);
    return RedisModule_Call(ctx, command, "!CEM0v", arguments, count);
}

/* Redis 7.0 has different texts, and another error code, for what the caller may not do. Replies
 * what later servers reply. Returns whether it was such an error. */
static bool replyNoPermission(RedisModuleCtx *ctx, RedisModuleCallReply *reply,
                              RedisModuleString *command) {
    static const char begin[] = "ERR acl verification failed, can't ";
    bool is_refusal = true;
    if (isError(reply, begin, "run this command or subcommand.")) {
        replyNoCommandPermission(ctx, command);
    } else if (isError(reply, begin, "keys mentioned in the command arguments.")) {
        replyError(ctx, REPLY_NO_KEY_PERMISSION);
    } else if (isError(reply, begin, "channel mentioned in the command.")) {
        replyError(ctx, REPLY_NO_CHANNEL_PERMISSION);
    } else {
        is_refusal = false;
    }
    return is_refusal;
}

static void runInnerOrReply(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (slotsCheckInnerOrReply(ctx, argv[1], argv + FIRST_INNER, argc - FIRST_INNER) !=
        REDISMODULE_OK) {
        return;
    }
    running = true;
    RedisModuleCallReply *reply = cmdGuardCall(ctx, argv, argc);
    running = false;
    if (!reply) {
        replyError(ctx, REPLY_NOT_RUN);
        return;
    }
    if (!replyNoPermission(ctx, reply, argv[FIRST_INNER])) {
        RedisModule_ReplyWithCallReply(ctx, reply);
    }
    RedisModule_FreeCallReply(reply);
}

/* LOCK.GUARD key owner command [arg …] */
int guardCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (argc <= FIRST_INNER) {
        return RedisModule_WrongArity(ctx);
    }
    if (argsOwnerOrReply(ctx, argv[2]) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    if (running) {
        replyError(ctx, REPLY_NESTED_GUARD);
        return REDISMODULE_OK;
    }
    switch (holdingCheckOwner(ctx, argv[1], argv[2], serverNow())) {
    case RESULT_DONE:
        runInnerOrReply(ctx, argv, argc);
        break;
    case RESULT_WRONG_TYPE:
        replyError(ctx, REPLY_WRONG_TYPE);
        break;
    case RESULT_TRY_AGAIN:
        replyError(ctx, REPLY_TRY_AGAIN);
        break;
    case RESULT_KEY_IN_USE:
        replyError(ctx, REPLY_KEY_IN_USE);
        break;
    default:
        replyError(ctx, REPLY_NOT_HELD);
        break;
    }
    return REDISMODULE_OK;
}
