/* See nodes.h. */
#include "look/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/memory.h"
#include "net/replies.h"

struct question {
    struct question *next;
    struct node *node;
    nodeAnswer *answer;
    char *name;
    size_t length;
};

static void setTrouble(struct node *node, const char *trouble) {
    free(node->trouble);
    node->trouble = trouble ? memoryPrint("%s", trouble) : NULL;
}

/* ---- requests ---- */

static void onReply(void *arg, redisReply *reply) {
    const struct question *question = arg;
    struct node *node = question->node;
    node->unanswered--;
    alarmSet(&node->nodes->limit, node->nodes->order->silence_ms);
    question->answer(node, reply, question->name, question->length);
}

void nodeAsk(struct node *node, const struct words *words, nodeAnswer *answer, const char *name,
             size_t length) {
    if (!serverIsOpen(&node->server)) {
        return;
    }
    struct question *question = memoryNew(sizeof(*question));
    *question = (struct question){.next = node->nodes->questions,
                                  .node = node,
                                  .answer = answer,
                                  .name = name ? memoryCopy(name, length) : NULL,
                                  .length = length};
    node->nodes->questions = question;
    node->unanswered++;
    serverAsk(&node->server, words, 0, onReply, question);
}

static bool isUnanswered(const struct nodes *nodes) {
    for (size_t i = 0; i < nodes->count; i++) {
        if (nodes->list[i]->unanswered > 0) {
            return true;
        }
    }
    return false;
}

static void forgetQuestions(struct nodes *nodes) {
    struct question *next;
    for (struct question *question = nodes->questions; question; question = next) {
        next = question->next;
        free(question->name);
        free(question);
    }
    nodes->questions = NULL;
}

static void onLimit(void *arg) {
    struct nodes *nodes = arg;
    nodes->is_late = true;
}

void nodesFinish(struct nodes *nodes) {
    nodes->is_late = false;
    alarmSet(&nodes->limit, nodes->order->silence_ms);
    while (isUnanswered(nodes) && !nodes->is_late) {
        event_base_loop(nodes->base, EVLOOP_ONCE);
    }
    alarmStop(&nodes->limit);
    for (size_t i = 0; i < nodes->count; i++) {
        struct node *node = nodes->list[i];
        if (node->unanswered > 0) {
            node->unanswered = 0;
            setTrouble(node, "no reply in time");
            serverOpen(&node->server);
        }
    }
    forgetQuestions(nodes);
}

/* ---- nodes ---- */

static void onOpened(void *arg) {
    setTrouble(arg, NULL);
}

static void onFailed(void *arg, const char *why, bool is_final) {
    struct node *node = arg;
    (void)is_final;
    node->unanswered = 0;
    setTrouble(node, why);
}

static const struct serverWatch node_watch = {onOpened, onFailed};

static char *copied(const char *text) {
    return text ? memoryPrint("%s", text) : NULL;
}

/* Copies a URL with its credentials and options; `address` replaces the addresses unless it is
 * NULL. */
static void copyUrl(struct url *to, const struct url *from, const struct address *address) {
    *to = *from;
    to->master = copied(from->master);
    to->user = copied(from->user);
    to->password = copied(from->password);
    to->sentinel_user = copied(from->sentinel_user);
    to->sentinel_password = copied(from->sentinel_password);
    to->cacert = copied(from->cacert);
    to->cert = copied(from->cert);
    to->key = copied(from->key);
    to->sni = copied(from->sni);
    size_t count = address ? 1 : from->address_count;
    const struct address *addresses = address ? address : from->addresses;
    to->addresses = memoryNew(count * sizeof(struct address));
    to->address_count = count;
    for (size_t i = 0; i < count; i++) {
        to->addresses[i] =
            (struct address){.host = copied(addresses[i].host), .port = addresses[i].port};
    }
}

static struct node *addNode(struct nodes *nodes, const struct url *url,
                            const struct address *address) {
    if (nodes->count == sizeof(nodes->list) / sizeof(nodes->list[0])) {
        failureExit(FAILURE_UNAVAILABLE, "too many nodes");
    }
    struct node *node = memoryNew(sizeof(*node));
    node->nodes = nodes;
    node->number = nodes->count;
    copyUrl(&node->url, url, address);
    if (address) {
        node->url.kind = URL_SERVER;
    }
    node->place = node->url.kind == URL_SENTINEL ? copied(node->url.master)
                                                 : addressName(node->url.addresses);
    nodes->list[nodes->count++] = node;
    char *why = serverInit(&node->server, nodes->base, &node->url, nodes->order->silence_ms,
                           &node_watch, node);
    if (why) {
        failureExit(FAILURE_USAGE, "%s", why);
    }
    serverOpen(&node->server);
    return node;
}

static void freeNode(struct node *node) {
    serverFree(&node->server);
    urlFree(&node->url);
    free(node->place);
    free(node->trouble);
    free(node);
}

static void awaitOpen(struct nodes *nodes, struct node *node) {
    nodes->is_late = false;
    alarmSet(&nodes->limit, nodes->order->silence_ms);
    while (!serverIsOpen(&node->server) && !nodes->is_late && node->server.is_wanted) {
        event_base_loop(nodes->base, EVLOOP_ONCE);
    }
    alarmStop(&nodes->limit);
    if (!serverIsOpen(&node->server)) {
        failureExit(FAILURE_UNAVAILABLE, "%s", node->trouble ? node->trouble : "no reply in time");
    }
}

/* ---- clusters ---- */

static bool isKnown(const struct nodes *nodes, const char *place) {
    for (size_t i = 0; i < nodes->count; i++) {
        if (strcmp(nodes->list[i]->place, place) == 0) {
            return true;
        }
    }
    return false;
}

/* Handles a reply to CLUSTER SLOTS. In each range of slots the first node is the master. */
static void onSlots(struct node *seed, redisReply *reply, const char *name, size_t length) {
    struct nodes *nodes = seed->nodes;
    (void)name;
    (void)length;
    if (reply->type != REDIS_REPLY_ARRAY) {
        failureExit(FAILURE_UNAVAILABLE, "%s: %s", seed->place,
                    reply->str ? reply->str : "not a node of a cluster");
    }
    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *master = reply->element[i]->element[2];
        char *host = master->element[0]->str;
        const struct address address = {.host = host && *host ? host : seed->url.addresses[0].host,
                                        .port = (int)master->element[1]->integer};
        char *place = addressName(&address);
        if (!isKnown(nodes, place)) {
            addNode(nodes, &seed->url, &address);
        }
        free(place);
    }
}

/* Removes the node that named the others, and closes the gap in the list. */
static void dropNode(struct nodes *nodes, size_t number) {
    freeNode(nodes->list[number]);
    nodes->count--;
    memmove(&nodes->list[number], &nodes->list[number + 1],
            (nodes->count - number) * sizeof(nodes->list[0]));
    for (size_t i = number; i < nodes->count; i++) {
        nodes->list[i]->number = i;
    }
}

static void addCluster(struct nodes *nodes, const struct url *url) {
    struct words words = {0};
    struct node *seed = addNode(nodes, url, NULL);
    size_t number = seed->number;
    free(seed->place);
    seed->place = memoryPrint("the cluster");
    awaitOpen(nodes, seed);
    wordsAdd(&words, "CLUSTER");
    wordsAdd(&words, "SLOTS");
    nodeAsk(seed, &words, onSlots, NULL, 0);
    nodesFinish(nodes);
    dropNode(nodes, number);
    for (size_t i = number; i < nodes->count; i++) {
        awaitOpen(nodes, nodes->list[i]);
    }
}

/* ---- all ---- */

void nodesOpen(struct nodes *nodes, struct event_base *base, const struct lookOrder *order) {
    *nodes = (struct nodes){.base = base, .order = order};
    alarmInit(&nodes->limit, base, onLimit, nodes);
    for (size_t i = 0; i < order->url_count; i++) {
        if (order->urls[i].kind == URL_CLUSTER) {
            addCluster(nodes, &order->urls[i]);
        } else {
            awaitOpen(nodes, addNode(nodes, &order->urls[i], NULL));
        }
    }
}

void nodesFree(struct nodes *nodes) {
    for (size_t i = 0; i < nodes->count; i++) {
        freeNode(nodes->list[i]);
    }
    forgetQuestions(nodes);
    alarmFree(&nodes->limit);
}
