/* The command line of lockctl. */
#ifndef LOCKCTL_OPTIONS_H
#define LOCKCTL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "look/look.h"
#include "run/run.h"
#include "urls.h"

enum optionsTask { OPTIONS_RUN, OPTIONS_LS, OPTIONS_TOP };

/* All options. To be freed by optionsFree. */
struct options {
    enum optionsTask task;
    struct urls urls;
    struct runOrder run;
    struct lookOrder look;
    char *own_owner;
};

/* Parses the command line, and LOCKCTL_URL. If they are wrong it prints an error and ends the
 * process; if they ask for help it prints that and ends the process. Blanks passwords in `argv`. */
void optionsRead(struct options *options, int argc, char **argv);
void optionsFree(struct options *options);

#endif
