/* See server.h. */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */

#include "server/server.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#define VERSION_7_2 0x00070200
#define VERSION_7_4 0x00070400

static struct {
    bool unblock_by_command;
    bool dry_run; /* RedisModule_Call has the flag "D": it checks everything, and runs nothing */
    bool cluster;
} server;

/* Valkey gives modules Redis's version number 7.2.4; it is recognized by its own API names. The
 * first member of a context is the function that looks names up. */
static bool isValkey(RedisModuleCtx *ctx) {
    int (*lookUp)(const char *name, void *target);
    void *target;
    memcpy(&lookUp, ctx, sizeof(lookUp));
    return lookUp("ValkeyModule_Alloc", &target) == REDISMODULE_OK;
}

void serverLearn(RedisModuleCtx *ctx) {
    bool is_valkey = isValkey(ctx);
    int version = RedisModule_GetServerVersion();
    server.unblock_by_command = is_valkey || version >= VERSION_7_4;
    server.dry_run = is_valkey || version >= VERSION_7_2;
    server.cluster = RedisModule_GetContextFlags(ctx) & REDISMODULE_CTX_FLAGS_CLUSTER;
}

bool serverCanUnblockByCommand(void) {
    return server.unblock_by_command;
}

bool serverIsCluster(void) {
    return server.cluster;
}

bool serverMayBlock(RedisModuleCtx *ctx) {
    int flags = RedisModule_GetContextFlags(ctx);
    return (flags & REDISMODULE_CTX_FLAGS_MASTER) && !(flags & REDISMODULE_CTX_FLAGS_DENY_BLOCKING);
}

/* Whether the client is a connection: the server creates internal clients for scripts and for calls
 * from modules. Those have an id too, but they are not in the list of clients. Only the query for
 * the user shows that on every server (on Valkey 9.1 RedisModule_GetClientInfoById finds them). */
static bool isConnection(RedisModuleCtx *ctx, unsigned long long id) {
    RedisModuleString *user = RedisModule_GetClientUserNameById(ctx, id);
    if (user) {
        RedisModule_FreeString(ctx, user);
    }
    return user;
}

unsigned long long serverConnectionOf(RedisModuleCtx *ctx) {
    if (!(RedisModule_GetContextFlags(ctx) & REDISMODULE_CTX_FLAGS_MASTER)) {
        return 0;
    }
    unsigned long long id = RedisModule_GetClientId(ctx);
    return isConnection(ctx, id) ? id : 0;
}

enum serverWritable serverWritableNow(RedisModuleCtx *ctx) {
    int flags = RedisModule_GetContextFlags(ctx);
    if (!(flags & REDISMODULE_CTX_FLAGS_MASTER)) {
        return SERVER_IS_REPLICA;
    }
    bool not_yet = (flags & REDISMODULE_CTX_FLAGS_LOADING) || RedisModule_AvoidReplicaTraffic();
    return not_yet ? SERVER_WRITABLE_LATER : SERVER_WRITABLE;
}

int64_t serverMicroseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- the last command of a client ---- */

/* The value of a field in a line of CLIENT LIST; `field` has the form " name=". Before `cmd` there
 * are no spaces but those that the server itself writes. */
static struct serverText valueOf(const struct serverText *line, const char *field) {
    struct serverText value = {NULL, 0};
    size_t length = strlen(field);
    for (size_t at = 0; !value.bytes && at + length <= line->length; at++) {
        if (memcmp(line->bytes + at, field, length) == 0) {
            value.bytes = line->bytes + at + length;
        }
    }
    const char *end = line->bytes + line->length;
    while (value.bytes && value.bytes + value.length < end && value.bytes[value.length] != ' ') {
        value.length++;
    }
    return value;
}

bool serverLastCommand(RedisModuleCtx *ctx, unsigned long long client_id,
                       void (*receive)(const struct serverText *name, void *data), void *data) {
    RedisModuleCallReply *reply =
        RedisModule_Call(ctx, "CLIENT", "ccl", "LIST", "ID", (long long)client_id);
    if (!reply) {
        return false;
    }
    struct serverText line = {NULL, 0};
    line.bytes = RedisModule_CallReplyStringPtr(reply, &line.length);
    const struct serverText name =
        line.bytes ? valueOf(&line, " cmd=") : (struct serverText){NULL, 0};
    if (name.bytes) {
        receive(&name, data);
    }
    RedisModule_FreeCallReply(reply);
    return line.bytes;
}

/* ---- test commands: as a client would send them, but they change nothing ---- */

/* Whether a test command was refused. `reply` is its reply, with errors as replies ("E"), and is
 * freed; errno was 0 before the call. Returns 0, or the errno of a refusal. A dry run that is not
 * refused has no reply. */
static int refusal(RedisModuleCallReply *reply) {
    int error = errno ? errno : EINVAL;
    if (!reply) {
        return server.dry_run ? 0 : error;
    }
    bool refused = RedisModule_CallReplyType(reply) == REDISMODULE_REPLY_ERROR;
    RedisModule_FreeCallReply(reply);
    return refused ? error : 0;
}

#ifdef CHECKED
bool (*server_refuses)(void);
#endif

enum serverPermission serverMayWriteKey(RedisModuleCtx *ctx, RedisModuleString *name) {
#ifdef CHECKED
    if (server_refuses && server_refuses()) {
        return SERVER_REFUSES;
    }
#endif
    /* A write that is valid for every type of key, and changes no key: with GT an expiry is only
     * put off, so it is never set to the first millisecond of unix time. "S" makes the server check
     * it as it checks a script's writes. */
    errno = 0;
    int error = refusal(
        RedisModule_Call(ctx, "PEXPIREAT", server.dry_run ? "DSEscc" : "SEscc", name, "1", "GT"));
    if (error == 0) {
        return SERVER_ACCEPTS;
    }
    return error == EPERM ? SERVER_NOT_OURS : SERVER_REFUSES;
}

bool serverHasKeys(RedisModuleCtx *ctx, RedisModuleString **names, size_t count) {
    errno = 0;
    return refusal(RedisModule_Call(ctx, "EXISTS", server.dry_run ? "DEv" : "Ev", names, count)) !=
           EPERM;
}

bool serverSlotIsStable(RedisModuleCtx *ctx, RedisModuleString *nothing,
                        RedisModuleString *nobody) {
    /* Two keys, because a client that has sent ASKING may access a single one that is missing on
     * the importing node. A read, because this is called on replicas too. */
    RedisModuleString *names[] = {nothing, nobody};
    return serverHasKeys(ctx, names, 2);
}
