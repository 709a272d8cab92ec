/* See identity.h. */
#include "hold/identity.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "net/replies.h"

void identityForget(struct identity *identity) {
    free(identity->nodes);
    *identity = (struct identity){0};
}

void identityRequestHello(struct words *words) {
    *words = (struct words){0};
    wordsAdd(words, "HELLO");
}

void identityRequestInfo(struct words *words) {
    *words = (struct words){0};
    wordsAdd(words, "INFO");
    wordsAdd(words, "server");
}

void identityRequestNodes(struct words *words) {
    *words = (struct words){0};
    wordsAdd(words, "CLUSTER");
    wordsAdd(words, "NODES");
}

static bool isField(const redisReply *map, const char *name, const char *value) {
    const redisReply *field = replyField(map, name);
    return field && field->str && strcmp(field->str, value) == 0;
}

void identityTakeHello(struct identity *identity, const redisReply *reply) {
    identity->is_replica = isField(reply, "role", "replica") || isField(reply, "role", "slave");
    identity->is_cluster = isField(reply, "mode", "cluster");
}

/* Copies the hexadecimal digits at `from`. */
static void copyId(char id[IDENTITY_ID], const char *from) {
    size_t length = strspn(from, "0123456789abcdef");
    length = length < IDENTITY_ID ? length : IDENTITY_ID - 1;
    memcpy(id, from, length);
    id[length] = '\0';
}

void identityTakeInfo(struct identity *identity, const redisReply *reply) {
    const char *line = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, "\nrun_id:") : NULL;
    if (line) {
        copyId(identity->run_id, line + strlen("\nrun_id:"));
    }
}

/* A line for each node: "id address flags ...", with "myself" among the flags of one. */
void identityTakeNodes(struct identity *identity, const redisReply *reply) {
    if (reply->type != REDIS_REPLY_STRING) {
        return;
    }
    const char *line = reply->str;
    const char *myself = strstr(line, "myself");
    for (const char *end; myself && (end = strchr(line, '\n')) && end < myself; line = end + 1) {
    }
    if (myself) {
        copyId(identity->node_id, line);
    }
    free(identity->nodes);
    identity->nodes = memoryPrint("%s", reply->str);
}

bool identityIsSameServer(const struct identity *one, const struct identity *other) {
    return *one->run_id && strcmp(one->run_id, other->run_id) == 0;
}

static bool knows(const struct identity *one, const struct identity *other) {
    return one->nodes && *other->node_id && strstr(one->nodes, other->node_id);
}

bool identityIsSameCluster(const struct identity *one, const struct identity *other) {
    return knows(one, other) || knows(other, one);
}
