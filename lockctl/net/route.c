/* See route.h. */
#include "net/route.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "net/replies.h"

static void set(struct route *route, const char *host, size_t length, int port) {
    char *copy = memoryCopy(host, length);
    free(route->found.host);
    route->found = (struct address){.host = copy, .port = port};
}

static struct address *nextAddress(struct route *route) {
    struct address *address = &route->url->addresses[route->next];
    route->next = (route->next + 1) % route->url->address_count;
    return address;
}

/* ---- sentinels ---- */

static void onMasterName(void *arg, redisReply *reply) {
    struct route *route = arg;
    linkClose(&route->sentinel);
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2) {
        const redisReply *host = reply->element[0];
        set(route, host->str, host->len, (int)strtol(reply->element[1]->str, NULL, 10));
        route->watch->found(route->arg, &route->found);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        char *why = memoryPrint("the sentinel replied: %s", reply->str);
        route->watch->failed(route->arg, why);
        free(why);
    } else {
        route->watch->failed(route->arg, "the sentinel does not know this master");
    }
}

static void onSentinelOpen(void *arg) {
    struct route *route = arg;
    struct words words = {0};
    wordsAdd(&words, "SENTINEL");
    wordsAdd(&words, "get-master-addr-by-name");
    wordsAdd(&words, route->url->master);
    linkAsk(&route->sentinel, &words, route->limit_ms, onMasterName, route);
}

static void onSentinelEnd(void *arg, const char *why, bool is_final) {
    const struct route *route = arg;
    (void)is_final; /* another sentinel may reply */
    char *whole = memoryPrint("sentinel: %s", why);
    route->watch->failed(route->arg, whole);
    free(whole);
}

static const struct linkWatch sentinel_watch = {onSentinelOpen, onSentinelEnd};

/* ---- all kinds of URLs ---- */

static void reportFound(void *arg) {
    struct route *route = arg;
    route->watch->found(route->arg, &route->found);
}

void routeInit(struct route *route, struct event_base *base, const struct url *url,
               const struct tls *tls, const struct routeWatch *watch, void *arg) {
    *route = (struct route){.url = url, .watch = watch, .arg = arg};
    const struct linkLogin login = {.user = url->sentinel_user, .password = url->sentinel_password};
    linkInit(&route->sentinel, base, tls, login, &sentinel_watch, route);
    alarmInit(&route->later, base, reportFound, route);
}

void routeStop(struct route *route) {
    linkClose(&route->sentinel);
    alarmStop(&route->later);
}

void routeFree(struct route *route) {
    if (route->later.event) {
        routeStop(route);
        linkFree(&route->sentinel);
        alarmFree(&route->later);
        free(route->found.host);
        route->found.host = NULL;
    }
}

void routeFind(struct route *route, int64_t limit_ms) {
    routeStop(route);
    route->limit_ms = limit_ms;
    if (!route->found.host && route->url->kind == URL_SENTINEL) {
        linkOpen(&route->sentinel, nextAddress(route), limit_ms);
        return;
    }
    if (!route->found.host) {
        const struct address *address = nextAddress(route);
        set(route, address->host, strlen(address->host), address->port);
    }
    alarmSet(&route->later, 0);
}

bool routeMoved(struct route *route, const char *place) {
    const char *colon = strrchr(place, ':');
    int port = colon ? (int)strtol(colon + 1, NULL, 10) : 0;
    if (port <= 0 || colon == place) {
        return false; /* the node does not know its own host: ask another one */
    }
    set(route, place, (size_t)(colon - place), port);
    return true;
}

bool routeFollow(struct route *route, const struct route *other) {
    const struct address *mine = &route->found;
    const struct address *there = &other->found;
    if (!there->host ||
        (mine->host && mine->port == there->port && strcmp(mine->host, there->host) == 0)) {
        return false;
    }
    set(route, there->host, strlen(there->host), there->port);
    return true;
}

void routeForget(struct route *route) {
    free(route->found.host);
    route->found = (struct address){0};
}
