/* Whether a queue is what waitqueue.h and waitgraph.h say that it is: for the checking build
 * (`make CHECKED=1`) and for the unit tests. A new field of a queue or a position is a new line here.
 */
#ifndef LOCK_QUEUECHECK_H
#define LOCK_QUEUECHECK_H

#include "core/waitqueue.h"

/* What is wrong with the queue, in words; or NULL. O(n) in its positions. */
const char *queuecheckFault(const struct waitqueue *queue);

#endif
