/* See swappeddbs.h. */
#include "core/swappeddbs.h"

#include <string.h>

#include "core/mem.h"

/* Returns `numbers`, of which there are `from`, extended to `count`, each new one being its own
 * index. Frees the old array. */
static int *grown(int *numbers, size_t from, size_t count) {
    int *all = memAlloc(count * sizeof(all[0]));
    if (from > 0) {
        memcpy(all, numbers, from * sizeof(all[0]));
        memFree(numbers);
    }
    for (size_t i = from; i < count; i++) {
        all[i] = (int)i;
    }
    return all;
}

static void swappeddbsMakeRoom(struct swappeddbs *dbs, int last_db) {
    size_t count = (size_t)last_db + 1;
    if (count > dbs->count) {
        dbs->staying = grown(dbs->staying, dbs->count, count);
        dbs->current = grown(dbs->current, dbs->count, count);
        dbs->count = count;
    }
}

void swappeddbsSwap(struct swappeddbs *dbs, int first_db, int second_db) {
    swappeddbsMakeRoom(dbs, first_db > second_db ? first_db : second_db);
    int first = dbs->staying[first_db], second = dbs->staying[second_db];
    dbs->staying[first_db] = second;
    dbs->staying[second_db] = first;
    dbs->current[first] = second_db;
    dbs->current[second] = first_db;
}

void swappeddbsForget(struct swappeddbs *dbs) {
    memFree(dbs->staying);
    memFree(dbs->current);
    *dbs = (struct swappeddbs){0};
}
