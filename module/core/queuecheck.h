/* Whether a queue is what waitqueue.h and waitgraph.h say that it is: for the checking build (`make
 * CHECKED=1`) and for the unit tests. For a new field of a queue or a position add a check here. */
#ifndef LOCK_QUEUECHECK_H
#define LOCK_QUEUECHECK_H

#include "core/waitqueue.h"

/* What is wrong with the queue, as text; NULL if nothing is. O(n) in its positions. */
const char *queuecheckFault(const struct waitqueue *queue);

#endif
