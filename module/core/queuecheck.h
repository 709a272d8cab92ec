/* Checks that a queue is consistent, as waitqueue.h and waitgraph.h describe it. For the checking
 * build
 * (`make CHECKED=1`) and for the unit tests. If you add a field to a queue or a position, add a
 * check here. */
#ifndef LOCK_QUEUECHECK_H
#define LOCK_QUEUECHECK_H

#include "core/waitqueue.h"

/* A text that describes what is wrong with the queue, or NULL if it is consistent. O(n) in its
 * positions. */
const char *queuecheckFault(const struct waitqueue *queue);

#endif
