/* Reads replies. The protocol is RESP2, so maps are flat arrays of names and values. */
#ifndef LOCKCTL_REPLIES_H
#define LOCKCTL_REPLIES_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether the reply is an error that begins with this word. */
bool replyIsError(const redisReply *reply, const char *word);

/* Returns the value of a field in a map, or NULL. `map` may be NULL. */
const redisReply *replyField(const redisReply *map, const char *name);

/* Returns the number in a field of a map, or `otherwise` if there is none. */
int64_t replyNumber(const redisReply *map, const char *name, int64_t otherwise);

/* The same for "name:value" in the text of INFO. */
int64_t replyInfoNumber(const redisReply *info, const char *name, int64_t otherwise);

#endif
