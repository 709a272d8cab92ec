/* See unwritten.h. */
#include "queue/unwritten.h"

#include "core/list.h"

static struct waiter *ofNote(struct link *link) {
    return LIST_ELEMENT(link, struct waiter, note);
}

void unwrittenNote(struct lock *lock, struct waiter *waiter) {
    if (!waiter->noted) {
        waiter->noted = true;
        listAddLast(&lock->fair.unwritten, &waiter->note);
    }
}

void unwrittenNoteUnplaced(struct lock *lock, struct waiter *waiter) {
    waiter->placed = false;
    unwrittenNote(lock, waiter);
}

void unwrittenDrop(struct lock *lock, struct waiter *old) {
    if (old->noted) {
        old->noted = false;
        listRemove(&lock->fair.unwritten, &old->note);
    }
}

struct waiter *unwrittenNext(struct lock *lock) {
    struct link *first = lock->fair.unwritten.first;
    if (!first) {
        return NULL;
    }
    struct waiter *waiter = ofNote(first);
    unwrittenDrop(lock, waiter);
    return waiter;
}

void unwrittenForget(struct lock *lock) {
    blockingkeyTakeNote(&lock->key, CONTENDED_OTHER_POSITIONS);
    struct waiter *waiter;
    while ((waiter = unwrittenNext(lock))) {
        if (waiter->over) {
            waiterFree(waiter);
        }
    }
}
