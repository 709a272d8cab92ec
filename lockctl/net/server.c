/* See server.h. */
#include "net/server.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "net/replies.h"

/* The pause before the next attempt, after a server could not be reached or asked to try later. */
#define PAUSE_MS 100

bool serverIsOpen(const struct server *server) {
    return server->link.is_open;
}

static void find(void *arg) {
    struct server *server = arg;
    routeFind(&server->route, server->limit_ms);
}

static void openAgain(struct server *server, int64_t pause_ms) {
    linkClose(&server->link);
    routeStop(&server->route);
    alarmSet(&server->again, pause_ms);
}

/* ---- finding and opening ---- */

static void fail(struct server *server, const char *why, bool is_final) {
    routeForget(&server->route);
    if (is_final) {
        serverClose(server);
    } else {
        openAgain(server, PAUSE_MS);
    }
    server->watch->failed(server->arg, why, is_final);
}

static void onFound(void *arg, const struct address *address) {
    struct server *server = arg;
    linkOpen(&server->link, address, server->limit_ms);
}

static void onNotFound(void *arg, const char *why) {
    fail(arg, why, false);
}

static void onOpen(void *arg) {
    const struct server *server = arg;
    server->watch->opened(server->arg);
}

static void onEnd(void *arg, const char *why, bool is_final) {
    struct server *server = arg;
    char *place =
        server->route.found.host ? addressName(&server->route.found) : memoryPrint("the server");
    char *whole = memoryPrint("%s: %s", place, why);
    fail(server, whole, is_final);
    free(whole);
    free(place);
}

static const struct routeWatch route_watch = {onFound, onNotFound};
static const struct linkWatch link_watch = {onOpen, onEnd};

/* ---- calls from the user of the server ---- */

char *serverInit(struct server *server, struct event_base *base, const struct url *url,
                 int64_t limit_ms, const struct serverWatch *watch, void *arg) {
    char *why = NULL;
    *server = (struct server){.watch = watch, .arg = arg, .limit_ms = limit_ms};
    server->tls = url->tls ? tlsNew(url, &why) : NULL;
    const struct linkLogin login = {.user = url->user, .password = url->password, .db = url->db};
    routeInit(&server->route, base, url, server->tls, &route_watch, server);
    linkInit(&server->link, base, server->tls, login, &link_watch, server);
    alarmInit(&server->again, base, find, server);
    return why;
}

void serverFree(struct server *server) {
    routeFree(&server->route);
    linkFree(&server->link);
    alarmFree(&server->again);
    tlsFree(server->tls);
    server->tls = NULL;
}

void serverOpen(struct server *server) {
    server->is_wanted = true;
    openAgain(server, 0);
}

void serverClose(struct server *server) {
    server->is_wanted = false;
    linkClose(&server->link);
    routeStop(&server->route);
    alarmStop(&server->again);
}

void serverFollow(struct server *server, const struct server *other) {
    if (server->is_wanted && routeFollow(&server->route, &other->route)) {
        openAgain(server, 0);
    }
}

void serverAsk(struct server *server, const struct words *words, int64_t limit_ms,
               linkAnswer *answer, void *arg) {
    linkAsk(&server->link, words, limit_ms, answer, arg);
}

/* ---- redirections ---- */

/* Returns the address in "MOVED 3999 127.0.0.1:6381", or NULL. */
static const char *placeIn(const redisReply *reply) {
    const char *space = strchr(reply->str, ' ');
    space = space ? strchr(space + 1, ' ') : NULL;
    return space ? space + 1 : NULL;
}

static bool isForLater(const redisReply *reply) {
    const char *const words[] = {"READONLY", "LOADING",   "MASTERDOWN", "CLUSTERDOWN",
                                 "TRYAGAIN", "UNBLOCKED", "BUSY",       "ASK"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (replyIsError(reply, words[i])) {
            return true;
        }
    }
    return strcmp(reply->str, "ERR max number of clients reached") == 0;
}

bool serverGoesOn(struct server *server, const redisReply *reply) {
    if (reply->type != REDIS_REPLY_ERROR) {
        return false;
    }
    if (replyIsError(reply, "MOVED")) {
        const char *place = placeIn(reply);
        bool is_known = place && routeMoved(&server->route, place);
        if (!is_known) {
            routeForget(&server->route);
        }
        openAgain(server, is_known ? 0 : PAUSE_MS);
        return true;
    }
    if (isForLater(reply)) {
        routeForget(&server->route);
        openAgain(server, PAUSE_MS);
        return true;
    }
    return false;
}
