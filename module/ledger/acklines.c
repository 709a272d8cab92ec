/* See acklines.h. */
#include "ledger/acklines.h"

#include "common/replicas.h"
#include "core/mem.h"

/* A queue. Replies join both lists at the end. So `waiting` is in the order of the offsets, and it
 * is enough to check the first reply in it. */
struct ackline {
    struct link in_lines; /* in `lines.all` */
    size_t replicas;      /* how many replicas each reply waits for */
    struct list fresh;    /* replies that have no offset yet */
    struct list waiting;  /* replies that wait until the replicas have reached their offset */
};

static struct {
    struct list all; /* the queues */
    size_t places;   /* how many replies are in all queues together */
    size_t fresh;    /* how many of these replies are fresh */
} lines;

size_t acklinesCount(void) {
    return lines.places;
}

size_t acklinesFresh(void) {
    return lines.fresh;
}

static struct ackline *ofLines(struct link *link) {
    return LIST_ELEMENT_OR_NULL(link, struct ackline, in_lines);
}

static struct ackplace *ofList(struct link *link) {
    return LIST_ELEMENT_OR_NULL(link, struct ackplace, in_list);
}

static struct ackline *lineFor(size_t replicas) {
    struct ackline *line = ofLines(lines.all.first);
    while (line && line->replicas != replicas) {
        line = ofLines(line->in_lines.next);
    }
    if (!line) {
        line = memAlloc(sizeof(*line));
        line->replicas = replicas;
        listAddLast(&lines.all, &line->in_lines);
    }
    return line;
}

static void acklinesJoin(struct ackplace *place, struct list *list) {
    place->list = list;
    listAddLast(list, &place->in_list);
}

void acklinesEnter(struct ackplace *place, size_t replicas) {
    place->line = lineFor(replicas);
    acklinesJoin(place, &place->line->fresh);
    lines.places++;
    lines.fresh++;
}

void acklinesLeave(struct ackplace *place) {
    struct ackline *line = place->line;
    if (!line) {
        return;
    }
    listRemove(place->list, &place->in_list);
    lines.places--;
    lines.fresh -= place->list == &line->fresh;
    place->line = NULL;
    if (listIsEmpty(&line->fresh) && listIsEmpty(&line->waiting)) {
        listRemove(&lines.all, &line->in_lines);
        memFree(line);
    }
}

static void placeFreshOf(struct ackline *line, int64_t offset) {
    struct ackplace *place;
    while ((place = ofList(line->fresh.first))) {
        listRemove(&line->fresh, &place->in_list);
        place->offset = offset;
        acklinesJoin(place, &line->waiting);
    }
}

void acklinesPlaceFresh(int64_t offset) {
    struct ackline *line = ofLines(lines.all.first);
    for (; line; line = ofLines(line->in_lines.next)) {
        placeFreshOf(line, offset);
    }
    lines.fresh = 0;
}

struct ackplace *acklinesFirstAcknowledged(void) {
    for (struct ackline *line = ofLines(lines.all.first); line;
         line = ofLines(line->in_lines.next)) {
        struct ackplace *first = ofList(line->waiting.first);
        if (first && first->offset <= replicasAcknowledged(line->replicas)) {
            return first;
        }
    }
    return NULL;
}
