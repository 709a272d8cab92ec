/* See replies.h. */
#include "net/replies.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

bool replyIsError(const redisReply *reply, const char *word) {
    size_t length = strlen(word);
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, word, length) == 0 &&
           (reply->str[length] == ' ' || reply->str[length] == '\0');
}

const redisReply *replyField(const redisReply *map, const char *name) {
    size_t count = map && map->type == REDIS_REPLY_ARRAY ? map->elements : 0;
    for (size_t i = 0; i + 1 < count; i += 2) {
        const redisReply *field = map->element[i];
        if (field->type == REDIS_REPLY_STRING && strcmp(field->str, name) == 0) {
            return map->element[i + 1];
        }
    }
    return NULL;
}

int64_t replyNumber(const redisReply *map, const char *name, int64_t otherwise) {
    const redisReply *value = replyField(map, name);
    return value && value->type == REDIS_REPLY_INTEGER ? value->integer : otherwise;
}

int64_t replyInfoNumber(const redisReply *info, const char *name, int64_t otherwise) {
    if (!info || info->type != REDIS_REPLY_STRING) {
        return otherwise;
    }
    size_t length = strlen(name);
    for (const char *line = info->str; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            return strtoll(line + length + 1, NULL, 10);
        }
    }
    return otherwise;
}
