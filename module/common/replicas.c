/* See replicas.h. */
#include "common/replicas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/propagate.h"
#include "server/server.h"

static struct {
    bool is_known; /* `online` is up to date */
    size_t online;
    int64_t sent;
    int64_t acknowledged[REPLICAS_MOST]; /* by replicas that are online, the largest offset first */
} seen;

/* While a client waits, the request is repeated after this time: not all replicas may have
 * answered, and an answer may have been lost with a link. */
#define ASK_AGAIN_US 100000

static struct {
    int64_t offset; /* the offset of the stream at the last request; -1: there was none */
    uint64_t at_us;
} asked = {-1, 0};

static size_t replicasKept(void) {
    return seen.online < REPLICAS_MOST ? seen.online : REPLICAS_MOST;
}

/* Adds an offset. Of more than REPLICAS_MOST the largest are kept. */
static void replicasInsert(int64_t offset) {
    size_t at = replicasKept();
    for (; at > 0 && seen.acknowledged[at - 1] < offset; at--) {
        if (at < REPLICAS_MOST) {
            seen.acknowledged[at] = seen.acknowledged[at - 1];
        }
    }
    if (at < REPLICAS_MOST) {
        seen.acknowledged[at] = offset;
    }
    seen.online++;
}

/* Parses `ip=…,port=…,state=online,offset=…,lag=…`. A replica that has not yet received all data
 * has another state. */
static void addReplica(const char *line) {
    static const char state[] = ",state=online,", offset[] = ",offset=";
    const char *number = strstr(line, offset);
    if (number && strstr(line, state)) {
        replicasInsert(strtoll(number + strlen(offset), NULL, 10));
    }
}

void replicasLook(RedisModuleCtx *ctx) {
    int error;
    char field[32];
    const char *line;
    RedisModuleServerInfoData *info = RedisModule_GetServerInfo(ctx, "replication");
    seen.sent = RedisModule_ServerInfoGetFieldSigned(info, "master_repl_offset", &error);
    seen.online = 0;
    for (int i = 0; snprintf(field, sizeof(field), "slave%d", i) > 0 &&
                    (line = RedisModule_ServerInfoGetFieldC(info, field));
         i++) {
        addReplica(line);
    }
    RedisModule_FreeServerInfo(ctx, info);
    seen.is_known = true;
}

size_t replicasOnline(RedisModuleCtx *ctx) {
    if (!seen.is_known) {
        replicasLook(ctx);
    }
    return replicasKept();
}

void replicasMayHaveChanged(void) {
    seen.is_known = false;
}

int64_t replicasSent(void) {
    return seen.sent;
}

int64_t replicasAcknowledged(size_t count) {
    return count <= replicasKept() ? seen.acknowledged[count - 1] : -1;
}

bool replicasHaveAnswered(void) {
    return replicasAcknowledged(1) >= asked.offset;
}

bool replicasAsk(RedisModuleCtx *ctx, int64_t offset) {
    uint64_t now_us = RedisModule_MonotonicMicroseconds();
    bool is_new = offset > asked.offset && replicasHaveAnswered();
    bool is_again = now_us - asked.at_us >= ASK_AGAIN_US;
    if ((!is_new && !is_again) || serverWritableNow(ctx) != SERVER_WRITABLE) {
        return false;
    }
    asked.offset = seen.sent;
    asked.at_us = now_us;
    propagateAskReplicas(ctx);
    return true;
}

void replicasForgetQuestion(void) {
    asked.offset = -1;
}
