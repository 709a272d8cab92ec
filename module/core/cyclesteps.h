/* The steps of a search for cycles: which owners it visits, in which order.
 *
 * To *expand* an owner is to reach the owners that it waits for. The search is breadth-first, in
 * two rounds: it follows holders as far as they lead, then the ties of all owners that it has
 * reached. It starts from what the asker waits for with its new request. What the asker's owner
 * already waited for is expanded only if other requests begin to wait for the new position: any
 * other cycle through those older waits would have been refused when they began.
 */
#ifndef LOCK_CYCLESTEPS_H
#define LOCK_CYCLESTEPS_H

#include "core/cyclestate.h"

/* Takes one step. The search must not have ended. */
void searchOneStep(struct cyclesearch *search);

#endif
