/* Who holds a lock and who waits for it, as lines of text. */
#ifndef LOCKCTL_DETAIL_H
#define LOCKCTL_DETAIL_H

#include <hiredis/hiredis.h>
#include <stddef.h>

#define DETAIL_LINES 64

struct detail {
    char *lines[DETAIL_LINES];
    size_t count;
};

/* Writes it anew, from an answer to LOCK.INFO. */
void detailSet(struct detail *detail, const redisReply *info);

/* Frees all that it has, and empties it. */
void detailFree(struct detail *detail);

#endif
