/* See heap.h. The node at place i is not later than those at places 2i and 2i + 1. */
#include "core/heap.h"

#include <assert.h>
#include <string.h>

#include "core/mem.h"

#define LEAST_ROOM 16

static void heapResize(struct heap *heap, size_t room) {
    struct heapNode **nodes = memAlloc(room * sizeof(struct heapNode *));
    if (heap->count > 0) {
        memcpy(nodes, heap->nodes, heap->count * sizeof(struct heapNode *));
    }
    memFree(heap->nodes);
    heap->nodes = nodes;
    heap->room = room;
}

#define HEAP_AT(heap, place) ((heap)->nodes[(place)-1])

static void heapSet(struct heap *heap, size_t place, struct heapNode *node) {
    heap->nodes[place - 1] = node;
    node->place = place;
}

static void rise(struct heap *heap, struct heapNode *node) {
    size_t place = node->place;
    for (; place > 1 && HEAP_AT(heap, place / 2)->at > node->at; place /= 2) {
        heapSet(heap, place, HEAP_AT(heap, place / 2));
    }
    heapSet(heap, place, node);
}

/* The earlier one of the two places below this one; 0 if there is none. */
static size_t firstBelow(const struct heap *heap, size_t place) {
    size_t left = 2 * place, right = left + 1;
    if (left > heap->count) {
        return 0;
    }
    return right <= heap->count && HEAP_AT(heap, right)->at < HEAP_AT(heap, left)->at ? right
                                                                                      : left;
}

static void sink(struct heap *heap, struct heapNode *node) {
    size_t place = node->place, below;
    while ((below = firstBelow(heap, place)) && HEAP_AT(heap, below)->at < node->at) {
        heapSet(heap, place, HEAP_AT(heap, below));
        place = below;
    }
    heapSet(heap, place, node);
}

void heapPut(struct heap *heap, struct heapNode *node, int64_t moment) {
    if (node->place == 0) {
        if (heap->count == heap->room) {
            heapResize(heap, heap->room ? 2 * heap->room : LEAST_ROOM);
        }
        heap->count++;
        heapSet(heap, heap->count, node);
    }
    node->at = moment;
    rise(heap, node);
    sink(heap, node);
}

void heapRemove(struct heap *heap, struct heapNode *node) {
    if (node->place == 0) {
        return;
    }
    assert(HEAP_AT(heap, node->place) == node);
    struct heapNode *last = HEAP_AT(heap, heap->count);
    size_t place = node->place;
    heap->count--;
    node->place = 0;
    if (last != node) {
        heapSet(heap, place, last);
        rise(heap, last);
        sink(heap, last);
    }
    if (heap->count == 0) {
        memFree(heap->nodes);
        *heap = (struct heap){0};
    } else if (heap->room > LEAST_ROOM && heap->count < heap->room / 4) {
        heapResize(heap, heap->room / 2);
    }
}

struct heapNode *heapFirst(const struct heap *heap) {
    return heap->count ? HEAP_AT(heap, 1) : NULL;
}
