/* The screen of lockctl top. */
#ifndef LOCKCTL_SCREEN_H
#define LOCKCTL_SCREEN_H

#include "look/gather.h"

struct screen {
    enum sampleOrder order;
    size_t first;    /* the lock in the first row */
    size_t selected; /* which lock */
    char *name;      /* of the selected one, which is followed when rows change places */
    size_t length;
    bool is_paused;
    bool wants_help;
};

enum screenWish { SCREEN_NOTHING, SCREEN_DRAW, SCREEN_SAMPLE, SCREEN_QUIT };

/* Takes the terminal, and gives it back. */
void screenBegin(struct screen *screen);
void screenEnd(struct screen *screen);

/* The terminal has another size now. */
void screenResize(void);

/* How many rows for locks there are. */
size_t screenRows(void);

/* Finds the selected lock, and the first row, in a new sample. */
void screenFollow(struct screen *screen, const struct sample *sample);

void screenDraw(const struct screen *screen, const struct gather *gather);

/* Reads the keys that have been pressed; returns what they ask for. */
enum screenWish screenKeys(struct screen *screen, const struct sample *sample);

#endif
