/* The screen of lockctl top. */
#ifndef LOCKCTL_SCREEN_H
#define LOCKCTL_SCREEN_H

#include "look/gather.h"

struct screen {
    enum sampleOrder order;
    size_t first;    /* the lock in the first row */
    size_t selected; /* the index of the selected lock */
    char *name;      /* of the selected lock, which stays selected when its row moves */
    size_t length;
    bool is_paused;
    bool wants_help;
};

enum screenWish { SCREEN_NOTHING, SCREEN_DRAW, SCREEN_SAMPLE, SCREEN_QUIT };

/* Take over the terminal, and restore it. */
void screenBegin(struct screen *screen);
void screenEnd(struct screen *screen);

/* Adapts to a new size of the terminal. */
void screenResize(void);

/* Returns the number of rows for locks. */
size_t screenRows(void);

/* Updates the selected lock and the first row for a new sample. */
void screenFollow(struct screen *screen, const struct sample *sample);

void screenDraw(const struct screen *screen, const struct gather *gather);

/* Reads the keys that were pressed, and returns the action that they request. */
enum screenWish screenKeys(struct screen *screen, const struct sample *sample);

#endif
