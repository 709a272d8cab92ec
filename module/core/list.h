/* An intrusive doubly linked list.
 *
 * The links are parts of the elements, so adding and removing never allocates memory, and removing
 * needs no search. An element that may be in several lists has a link for each list. The list owns
 * nothing.
 */
#ifndef LOCK_LIST_H
#define LOCK_LIST_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

struct link {
    struct link *prev, *next;
};

/* `length` is stored so that the elements need not be counted. */
struct list {
    struct link *first, *last;
    size_t length;
};

/* The struct of this type that contains this link as `member`. */
#define LIST_ELEMENT(link_pointer, type, member) \
    ((type *)(void *)((char *)(link_pointer)-offsetof(type, member)))

/* The same; NULL for NULL. */
#define LIST_ELEMENT_OR_NULL(link_pointer, type, member) \
    ((link_pointer) ? LIST_ELEMENT(link_pointer, type, member) : NULL)

static inline bool listIsEmpty(const struct list *list) {
    return list->length == 0;
}

/* Inserts `link` before `successor`, or at the end if that is NULL. */
static inline void listInsertBefore(struct list *list, struct link *successor, struct link *link) {
    link->next = successor;
    link->prev = successor ? successor->prev : list->last;
    if (link->prev) {
        link->prev->next = link;
    } else {
        list->first = link;
    }
    if (successor) {
        successor->prev = link;
    } else {
        list->last = link;
    }
    list->length++;
}

static inline void listAddLast(struct list *list, struct link *link) {
    listInsertBefore(list, NULL, link);
}

static inline void listRemove(struct list *list, struct link *link) {
    assert(list->length > 0);
    if (link->prev) {
        link->prev->next = link->next;
    } else {
        list->first = link->next;
    }
    if (link->next) {
        link->next->prev = link->prev;
    } else {
        list->last = link->prev;
    }
    link->prev = link->next = NULL;
    list->length--;
}

#endif
