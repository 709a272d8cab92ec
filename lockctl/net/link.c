/* See link.h. */
#include "net/link.h"

#include <fcntl.h>
#include <hiredis/adapters/libevent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/failure.h"
#include "base/memory.h"

struct question {
    struct link *link;
    linkAnswer *answer;
    void *arg;
    bool has_limit;
};

/* ---- closing ---- */

void linkClose(struct link *link) {
    redisAsyncContext *context = link->context;
    link->context = NULL;
    link->is_open = link->is_waiting = false;
    link->greetings = 0;
    link->session = NULL;
    alarmStop(&link->limit);
    if (context) {
        context->data = NULL; /* ignore later callbacks */
        redisAsyncFree(context);
    }
}

static void end(struct link *link, const char *why, bool is_final) {
    char *reason = memoryPrint("%s", why); /* `why` may belong to the connection */
    linkClose(link);
    link->watch->ended(link->arg, reason, is_final);
    free(reason);
}

static void onLimit(void *arg) {
    struct link *link = arg;
    end(link, link->why ? link->why : "no reply in time", false);
}

/* The connection has ended; the caller frees it. */
static void endGone(const redisAsyncContext *context) {
    struct link *link = context->data;
    const char *trouble = link->session ? tlsTrouble(link->session) : NULL;
    char *why = memoryPrint("%s", trouble            ? trouble
                                  : *context->errstr ? context->errstr
                                                     : "connection closed");
    link->context = NULL;
    end(link, why, false);
    free(why);
}

static void onDisconnect(const redisAsyncContext *context, int status) {
    (void)status;
    if (context->data) {
        endGone(context);
    }
}

/* ---- initialization: AUTH, SELECT ---- */

static void beOpen(struct link *link) {
    link->is_open = true;
    alarmStop(&link->limit);
    link->watch->opened(link->arg);
}

static bool isFinal(const char *error) {
    return strncmp(error, "WRONGPASS", 9) == 0 || strncmp(error, "NOAUTH", 6) == 0 ||
           strncmp(error, "NOPERM", 6) == 0 || strncmp(error, "ERR AUTH", 8) == 0 ||
           strncmp(error, "ERR invalid password", 20) == 0 ||
           strncmp(error, "ERR DB index", 12) == 0;
}

static void onGreeted(void *arg, redisReply *reply) {
    struct link *link = arg;
    if (reply->type == REDIS_REPLY_ERROR) {
        end(link, reply->str, isFinal(reply->str));
    } else if (--link->greetings == 0) {
        beOpen(link);
    }
}

static void greet(struct link *link, const struct words *words) {
    link->greetings++;
    linkAsk(link, words, 0, onGreeted, link);
}

static void greetAll(struct link *link) {
    if (link->login.password) {
        struct words words = {0};
        wordsAdd(&words, "AUTH");
        if (link->login.user) {
            wordsAdd(&words, link->login.user);
        }
        wordsAdd(&words, link->login.password);
        greet(link, &words);
    }
    if (link->login.db > 0) {
        struct words words = {0};
        wordsAdd(&words, "SELECT");
        wordsAddNumber(&words, link->login.db);
        greet(link, &words);
    }
}

static void onConnect(const redisAsyncContext *context, int status) {
    struct link *link = context->data;
    if (!link) {
        return;
    }
    if (status != REDIS_OK) {
        endGone(context);
        return;
    }
    greetAll(link);
    if (link->greetings == 0) {
        beOpen(link);
    }
}

/* ---- opening ---- */

void linkInit(struct link *link, struct event_base *base, const struct tls *tls,
              struct linkLogin login, const struct linkWatch *watch, void *arg) {
    *link = (struct link){.base = base, .tls = tls, .login = login, .watch = watch, .arg = arg};
    alarmInit(&link->limit, base, onLimit, link);
}

void linkFree(struct link *link) {
    if (link->limit.event) {
        linkClose(link);
        alarmFree(&link->limit);
        free(link->why);
    }
}

/* Lets a link that only waits for a reply detect a peer that has vanished without closing the
 * connection. */
static void keepAlive(const redisAsyncContext *context) {
    const int on = 1;
    const int idle_s = 15;
    setsockopt(context->c.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
#ifdef TCP_KEEPIDLE
    setsockopt(context->c.fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(context->c.fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
#endif
}

static bool giveUp(struct link *link, redisAsyncContext *context, const char *why) {
    link->why = memoryPrint("%s", why);
    if (context) {
        redisAsyncFree(context);
    }
    return false;
}

static bool begin(struct link *link, const struct address *address) {
    redisOptions options = {0};
    if (address->port == 0) {
        REDIS_OPTIONS_SET_UNIX(&options, address->host);
    } else {
        REDIS_OPTIONS_SET_TCP(&options, address->host, address->port);
        options.options |= REDIS_OPT_PREFER_IP_UNSPEC;
    }
    redisAsyncContext *context = redisAsyncConnectWithOptions(&options);
    if (!context || context->err) {
        return giveUp(link, context, context ? context->errstr : "out of memory");
    }
    if (link->tls && address->port != 0) {
        const char *why;
        link->session = tlsBegin(link->tls, &context->c, address->host, &why);
        if (!link->session) {
            return giveUp(link, context, why);
        }
    }
    /* The command must not inherit the socket: it would keep a session alive. */
    fcntl(context->c.fd, F_SETFD, FD_CLOEXEC);
    keepAlive(context);
    context->data = link;
    link->context = context;
    redisLibeventAttach(context, link->base);
    redisAsyncSetConnectCallback(context, onConnect);
    redisAsyncSetDisconnectCallback(context, onDisconnect);
    return true;
}

void linkOpen(struct link *link, const struct address *address, int64_t limit_ms) {
    linkClose(link);
    free(link->why);
    link->why = NULL;
    /* If opening fails at once, the alarm reports it, so that `watch` is not called before this
     * function has returned. */
    alarmSet(&link->limit, begin(link, address) ? limit_ms : 0);
}

/* ---- requests ---- */

static void onReply(redisAsyncContext *context, void *reply, void *arg) {
    struct question *question = arg;
    struct link *link = context->data;
    if (link && reply) {
        if (question->has_limit) {
            alarmStop(&link->limit);
            link->is_waiting = false;
        }
        question->answer(question->arg, reply);
    }
    free(question);
}

void linkAsk(struct link *link, const struct words *words, int64_t limit_ms, linkAnswer *answer,
             void *arg) {
    struct question *question = memoryNew(sizeof(*question));
    *question =
        (struct question){.link = link, .answer = answer, .arg = arg, .has_limit = limit_ms > 0};
    const char *texts[WORDS_MOST];
    memcpy(texts, words->text, sizeof(texts));
    if (redisAsyncCommandArgv(link->context, onReply, question, words->count, texts,
                              words->length) != REDIS_OK) {
        free(question); /* the link is about to close, and reports it */
        return;
    }
    if (limit_ms > 0) {
        link->is_waiting = true;
        alarmSet(&link->limit, limit_ms);
    }
}
