/* See others.h. */

#include <stdio.h>

#include "load/others.h"
#include "load/template.h"

void othersSet(const Server *server, unsigned ms) {
    char text[64];
    for (unsigned i = 0; i < OTHERS; i++) {
        snprintf(text, sizeof(text), "SET other:{n} x PX %u", 1 + i * ms / OTHERS);
        templateQueue(server->control, text, i, i);
    }
    for (unsigned i = 0; i < OTHERS; i++) {
        freeReplyObject(serverReply(server->control));
    }
}
