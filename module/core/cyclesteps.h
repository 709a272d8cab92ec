/* The steps of a search for cycles, which determine the owners that it visits and their order.
 *
 * To *expand* an owner is to reach the owners that it waits for. The search is breadth-first, in
 * two rounds. In the first round it follows holders until there are no more, and in the second
 * round it follows the ties of all owners that it has reached. It begins with the owners that the
 * asker's new request waits for. The older requests of the asker's owner are expanded only if other
 * requests begin to wait for the new position, because any other cycle through the older requests
 * would have been refused when they began to wait.
 */
#ifndef LOCK_CYCLESTEPS_H
#define LOCK_CYCLESTEPS_H

#include "core/cyclestate.h"

/* Takes one step. The search must not have ended. */
void searchOneStep(struct cyclesearch *search);

#endif
