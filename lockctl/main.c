/* lockctl, the tool for the shell. See docs/lockctl.md. */
#include <locale.h>

#include "look/look.h"
#include "options.h"
#include "run/run.h"

int main(int argc, char **argv) {
    struct options options;
    int status = 0;
    setlocale(LC_CTYPE, ""); /* decides which characters of a name are printable */
    optionsRead(&options, argc, argv);
    switch (options.task) {
    case OPTIONS_RUN:
        status = runCommand(&options.run);
        break;
    case OPTIONS_LS:
        status = lsCommand(&options.look);
        break;
    case OPTIONS_TOP:
        status = topCommand(&options.look);
        break;
    }
    optionsFree(&options);
    return status;
}
