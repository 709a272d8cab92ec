/* A reentrant lock as client libraries implement it in Lua: a hash of owner to hold count, whose
 * TTL is the lease, and a message to the waiters when the last hold is released. Each step is
 * necessary; none was added to make it slow. */

#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "load/scripts.h"

typedef struct Script {
    const char *name;
    const char *source;
} Script;

static const Script scripts[] = {
    /* acquire: KEYS lock; ARGV lease in ms, owner. nil = acquired; a number = held by another
     * owner for that many ms. */
    {"acquire",
     "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then\n"
     "  redis.call('hincrby', KEYS[1], ARGV[2], 1)\n"
     "  redis.call('pexpire', KEYS[1], ARGV[1])\n"
     "  return nil\n"
     "end\n"
     "return redis.call('pttl', KEYS[1])\n"},
    /* release: KEYS lock, channel; ARGV lease in ms, owner. nil = not the holder; else the number
     * of holds left. */
    {"release", "if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end\n"
                "local left = redis.call('hincrby', KEYS[1], ARGV[2], -1)\n"
                "if left > 0 then\n"
                "  redis.call('pexpire', KEYS[1], ARGV[1])\n"
                "else\n"
                "  redis.call('del', KEYS[1])\n"
                "  redis.call('publish', KEYS[2], 'free')\n"
                "end\n"
                "return left\n"},
};

static const char *sourceOf(const char *name) {
    for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++) {
        if (strcmp(scripts[i].name, name) == 0) {
            return scripts[i].source;
        }
    }
    die("no such script: %s", name);
}

void scriptsLoad(redisContext *connection, const char *name, char *sha, size_t size) {
    redisReply *reply = redisCommand(connection, "SCRIPT LOAD %s", sourceOf(name));
    if (reply == NULL || reply->type != REDIS_REPLY_STRING) {
        die("SCRIPT LOAD %s: %s", name, reply ? reply->str : connection->errstr);
    }
    snprintf(sha, size, "%s", reply->str);
    freeReplyObject(reply);
}
