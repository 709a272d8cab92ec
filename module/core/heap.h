/* A priority queue by time.
 *
 * It is intrusive: an element has a struct heapNode in it. To add, move or remove an element takes
 * O(log n), to read the first one O(1). Of elements with the same time any may be first.
 */
#ifndef LOCK_HEAP_H
#define LOCK_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heapNode {
    int64_t at;   /* the time: only changed by heapPut */
    size_t place; /* from 1; 0 if it is in no heap */
};

/* All zero is an empty heap. An empty heap owns no memory. */
struct heap {
    struct heapNode **nodes;
    size_t count, room;
};

/* Adds the node with this time; or moves it, if it is in the heap already. */
void heapPut(struct heap *heap, struct heapNode *node, int64_t moment);

/* Removes the node; does nothing if it is not in the heap. */
void heapRemove(struct heap *heap, struct heapNode *node);

/* The node with the earliest time, or NULL. */
struct heapNode *heapFirst(const struct heap *heap);

#endif
