/* A priority queue by time.
 *
 * It is intrusive: an element contains a struct heapNode. Adding, moving or removing an element is
 * O(log n), and reading the first one is O(1). Elements with the same time are in no particular
 * order.
 */
#ifndef LOCK_HEAP_H
#define LOCK_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heapNode {
    int64_t at;   /* the time; only heapPut may change it */
    size_t place; /* from 1; 0 if the node is in no heap */
};

/* An empty heap is all zero, and owns no memory. */
struct heap {
    struct heapNode **nodes;
    size_t count, room;
};

/* Adds the node with this time. If the node is already in the heap, changes its time. */
void heapPut(struct heap *heap, struct heapNode *node, int64_t moment);

/* Removes the node; does nothing if it is not in the heap. */
void heapRemove(struct heap *heap, struct heapNode *node);

/* The node with the earliest time, or NULL. */
struct heapNode *heapFirst(const struct heap *heap);

#endif
