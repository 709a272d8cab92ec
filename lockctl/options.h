/* What users write behind `lockctl`. */
#ifndef LOCKCTL_OPTIONS_H
#define LOCKCTL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "look/look.h"
#include "run/run.h"
#include "urls.h"

enum optionsTask { OPTIONS_RUN, OPTIONS_LS, OPTIONS_TOP };

/* All that is asked for. To be freed by optionsFree. */
struct options {
    enum optionsTask task;
    struct urls urls;
    struct runOrder run;
    struct lookOrder look;
    char *own_owner;
};

/* Reads them, and LOCKCTL_URL; ends the process, having said why, if they make no sense, or if they ask
 * for help. Blanks passwords in `argv`. */
void optionsRead(struct options *options, int argc, char **argv);
void optionsFree(struct options *options);

#endif
