/* A priority queue by time: which of many comes first.
 *
 * Intrusive: an element embeds a struct heapNode. To put, move and take out an element is O(log n),
 * to see the first O(1). Of those with the same moment any may be first.
 */
#ifndef LOCK_HEAP_H
#define LOCK_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heapNode {
    int64_t at;   /* read it, but change it by heapPut only */
    size_t place; /* from 1; 0: in no heap */
};

/* All zero is an empty heap. An empty heap owns no memory. */
struct heap {
    struct heapNode **nodes;
    size_t count, room;
};

/* Puts the node into the heap, or moves it there, with this moment. */
void heapPut(struct heap *heap, struct heapNode *node, int64_t moment);

/* Takes the node out of the heap; does nothing when it is not in it. */
void heapRemove(struct heap *heap, struct heapNode *node);

/* The node whose moment comes first, or NULL. */
struct heapNode *heapFirst(const struct heap *heap);

#endif
