/* Requests in the form in which the measurements contain them: words with placeholders. */

#ifndef BENCH_LOAD_TEMPLATE_H
#define BENCH_LOAD_TEMPLATE_H

#include <hiredis/hiredis.h>

typedef struct Message {
    char *bytes; /* as sent; the caller frees it */
    size_t size;
} Message;

/* The request of `text`, in which spaces separate the arguments and
 *   {n}         is the number `key`,
 *   {key}       is the name of a lock made of that number, 13 bytes,
 *   {owner}     is an owner made of the number `owner`, the 36 bytes of a UUID,
 *   {sha:name}  is the hash of that script of scripts.h, loaded over `connection` first. */
Message templateExpand(redisContext *connection, const char *text, unsigned key, unsigned owner);

/* Queues the request on `connection`; it is sent when the next reply is read. */
void templateQueue(redisContext *connection, const char *text, unsigned key, unsigned owner);

#endif
