/* The holders and waiters of a lock, as lines of text. */
#ifndef LOCKCTL_DETAIL_H
#define LOCKCTL_DETAIL_H

#include <hiredis/hiredis.h>
#include <stddef.h>

#define DETAIL_LINES 64

struct detail {
    char *lines[DETAIL_LINES];
    size_t count;
};

/* Replaces the lines, from a reply to LOCK.INFO. */
void detailSet(struct detail *detail, const redisReply *info);

/* Frees the lines, and empties the struct. */
void detailFree(struct detail *detail);

#endif
