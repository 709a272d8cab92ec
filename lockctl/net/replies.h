/* Reading answers. Maps come as flat arrays of names and values: RESP2 is spoken. */
#ifndef LOCKCTL_REPLIES_H
#define LOCKCTL_REPLIES_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether it is an error that begins with this word. */
bool replyIsError(const redisReply *reply, const char *word);

/* The value of a name in a map, or NULL; `map` may be NULL. */
const redisReply *replyField(const redisReply *map, const char *name);

/* The number that a name in a map has, or `otherwise` if it has none. */
int64_t replyNumber(const redisReply *map, const char *name, int64_t otherwise);

/* Likewise of "name:value" in the text of INFO. */
int64_t replyInfoNumber(const redisReply *info, const char *name, int64_t otherwise);

#endif
