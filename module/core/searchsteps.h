/* The steps of a search for cycles: whom it looks at, in which order.
 *
 * It goes breadth first, twice: as far as holders lead, then along the ties of all that has been
 * reached. It starts from what the asker waits for with its new request; and from what it has waited
 * for before only if others begin to wait for it with this position: other cycles through those waits
 * would have been refused when they began.
 */
#ifndef LOCK_SEARCHSTEPS_H
#define LOCK_SEARCHSTEPS_H

#include "core/searchstate.h"

/* Takes one step. The search must go on. */
void searchOneStep(struct waitsearch *search);

#endif
