/* The lines in which answers wait for replicas: one for each number of replicas that somebody waits
 * for.
 *
 * An answer is *fresh* until the next look at the replicas, since what it tells of may not be in
 * the replication stream yet. That look gives it its offset: how far the stream has come by then.
 */
#ifndef LOCK_ACKLINES_H
#define LOCK_ACKLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/list.h"

struct ackline;

/* A position in a line; the caller's memory, all zero while it stands in none. */
struct ackplace {
    struct link in_list;
    struct list *list; /* of its line: the fresh, or those with an offset */
    struct ackline *line;
    int64_t offset; /* how far `line`'s number of replicas have to come */
};

/* At the end of the line for so many replicas. */
void acklinesEnter(struct ackplace *place, size_t replicas);

/* Out of its line, whether fresh or not; does nothing if it stands in none. */
void acklinesLeave(struct ackplace *place);

/* Gives all that are fresh this offset, which is not before those given earlier. */
void acklinesPlaceFresh(int64_t offset);

/* The first who waits for no more than its replicas have acknowledged (server/replicas.h, as of the
 * last look), or NULL. */
struct ackplace *acklinesFirstAcknowledged(void);

/* How many stand in lines, and how many of these are fresh. */
size_t acklinesCount(void);
size_t acklinesFresh(void);

#endif
