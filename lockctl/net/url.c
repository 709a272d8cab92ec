/* See url.h. */
#include "net/url.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"

#define DEFAULT_PORT 6379
#define SENTINEL_PORT 26379

static const struct scheme {
    const char *text;
    enum urlKind kind;
    bool tls;
    bool is_path;
} schemes[] = {
    {"redis://", URL_SERVER, false, false},
    {"rediss://", URL_SERVER, true, false},
    {"valkey://", URL_SERVER, false, false},
    {"valkeys://", URL_SERVER, true, false},
    {"unix://", URL_SERVER, false, true},
    {"redis+sentinel://", URL_SENTINEL, false, false},
    {"rediss+sentinel://", URL_SENTINEL, true, false},
    {"redis+cluster://", URL_CLUSTER, false, false},
    {"rediss+cluster://", URL_CLUSTER, true, false},
};

/* A part of the text that is parsed. */
struct part {
    const char *at;
    size_t length;
};

/* Returns the part of `rest` before the first `mark`, or all of `rest` if it contains no `mark`.
 * Removes from `rest` what it returns, and the mark. */
static struct part cut(struct part *rest, char mark) {
    const char *found = rest->length ? memchr(rest->at, mark, rest->length) : NULL;
    struct part before = {rest->at, found ? (size_t)(found - rest->at) : rest->length};
    size_t off = before.length + (found != NULL);
    *rest = (struct part){rest->at + off, rest->length - off};
    return before;
}

static int digit(char c) {
    return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* Returns the part with each %xx replaced by the byte that it encodes. */
static char *decoded(struct part part) {
    char *text = memoryCopy(part.at, part.length);
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (from[0] == '%' && isxdigit((unsigned char)from[1]) &&
            isxdigit((unsigned char)from[2])) {
            *to++ = (char)(digit(from[1]) * 16 + digit(from[2]));
            from += 2;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
    return text;
}

static void set(char **field, struct part part) {
    free(*field);
    *field = decoded(part);
}

/* Returns a number from 0 to `most`, or -1. */
static int numberOf(struct part part, int most) {
    int number = 0;
    for (size_t i = 0; i < part.length; i++) {
        if (!isdigit((unsigned char)part.at[i]) || number > most) {
            return -1;
        }
        number = number * 10 + (part.at[i] - '0');
    }
    return part.length > 0 && number <= most ? number : -1;
}

static bool is(struct part part, const char *word) {
    return part.length == strlen(word) && strncasecmp(part.at, word, part.length) == 0;
}

/* ---- the parts ---- */

#define LARGEST_DB 16777216

static const char *parseDb(struct url *url, struct part part) {
    if (part.length > 0) {
        url->db = numberOf(part, LARGEST_DB);
    }
    return url->db < 0 ? "the database must be a number from 0 to 16777216" : NULL;
}

static const char *parseOption(struct url *url, struct part option) {
    const struct {
        const char *name;
        char **field;
    } texts[] = {
        {"user", &url->user},
        {"password", &url->password},
        {"sentinel-user", &url->sentinel_user},
        {"sentinel-password", &url->sentinel_password},
        {"cacert", &url->cacert},
        {"cert", &url->cert},
        {"key", &url->key},
        {"sni", &url->sni},
    };
    struct part value = option;
    struct part name = cut(&value, '=');
    if (is(name, "db")) {
        return parseDb(url, value);
    }
    if (is(name, "tls") || is(name, "verify")) {
        bool *flag = is(name, "tls") ? &url->tls : &url->verify;
        *flag = is(value, "yes");
        return is(value, "yes") || is(value, "no") ? NULL
                                                   : "the options tls and verify must be yes or no";
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (is(name, texts[i].name)) {
            set(texts[i].field, value);
            return NULL;
        }
    }
    return "unknown option after '?'";
}

static const char *parseOptions(struct url *url, struct part options) {
    const char *wrong = NULL;
    while (options.length > 0 && !wrong) {
        wrong = parseOption(url, cut(&options, '&'));
    }
    return wrong;
}

static const char *parseUser(struct url *url, struct part user) {
    if (url->kind == URL_SENTINEL) {
        set(&url->master, user);
        return NULL;
    }
    struct part password = user;
    struct part name = cut(&password, ':');
    if (name.length == user.length) {
        return "the part before '@' must be user:password or :password";
    }
    if (name.length > 0) {
        set(&url->user, name);
    }
    set(&url->password, password);
    return NULL;
}

static const char *addAddress(struct url *url, struct part part) {
    int port = url->kind == URL_SENTINEL ? SENTINEL_PORT : DEFAULT_PORT;
    struct part rest = part;
    struct part host;
    if (part.length > 0 && part.at[0] == '[') {
        cut(&rest, '[');
        host = cut(&rest, ']');
        cut(&rest, ':');
    } else {
        host = cut(&rest, ':');
    }
    if (rest.length > 0) {
        port = numberOf(rest, 65535);
    }
    if (port <= 0) {
        return "a port must be a number from 1 to 65535";
    }
    size_t size = (url->address_count + 1) * sizeof(struct address);
    url->addresses = memoryResize(url->addresses, size);
    url->addresses[url->address_count++] = (struct address){
        .host = host.length > 0 ? decoded(host) : memoryCopy("127.0.0.1", 9), .port = port};
    return NULL;
}

static const char *parseHosts(struct url *url, struct part hosts) {
    /* The host begins after the last '@', because a password may contain an '@' that is not
     * encoded. */
    size_t at = hosts.length;
    while (at > 0 && hosts.at[at - 1] != '@') {
        at--;
    }
    const char *wrong = at > 0 ? parseUser(url, (struct part){hosts.at, at - 1}) : NULL;
    hosts = (struct part){hosts.at + at, hosts.length - at};
    do {
        wrong = wrong ? wrong : addAddress(url, cut(&hosts, ','));
    } while (!wrong && hosts.length > 0);
    return wrong;
}

static const char *parsePath(struct url *url, struct part path) {
    if (path.length == 0 || path.at[0] != '/') {
        return "unix:// must be followed by the absolute path of a socket";
    }
    url->addresses = memoryNew(sizeof(struct address));
    url->addresses[url->address_count++] = (struct address){.host = decoded(path), .port = 0};
    return NULL;
}

static const char *whole(const struct url *url) {
    if (url->kind == URL_SENTINEL && (!url->master || !*url->master)) {
        return "no master name: use redis+sentinel://master@host";
    }
    if (url->kind == URL_CLUSTER && url->db != 0) {
        return "a cluster has only database 0";
    }
    if (url->kind == URL_SERVER && url->address_count != 1) {
        return "only redis+sentinel:// and redis+cluster:// accept more than one host";
    }
    return NULL;
}

static const char *parseBehindScheme(struct url *url, const struct scheme *scheme,
                                     struct part rest) {
    struct part options = rest;
    struct part place = cut(&options, '?');
    const char *wrong = NULL;
    if (scheme->is_path) {
        wrong = parsePath(url, place);
    } else {
        struct part db = place;
        struct part hosts = cut(&db, '/');
        wrong = parseHosts(url, hosts);
        wrong = wrong ? wrong : parseDb(url, db);
    }
    wrong = wrong ? wrong : parseOptions(url, options);
    return wrong ? wrong : whole(url);
}

const char *urlParse(struct url *url, const char *text) {
    *url = (struct url){.verify = true};
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t length = strlen(schemes[i].text);
        if (strncasecmp(text, schemes[i].text, length) == 0) {
            url->kind = schemes[i].kind;
            url->tls = schemes[i].tls;
            return parseBehindScheme(url, &schemes[i],
                                     (struct part){text + length, strlen(text + length)});
        }
    }
    return "a URL must begin with redis://, rediss://, valkey://, valkeys://, unix://, "
           "redis+sentinel:// or redis+cluster://";
}

void urlFree(struct url *url) {
    for (size_t i = 0; i < url->address_count; i++) {
        free(url->addresses[i].host);
    }
    free(url->addresses);
    char *texts[] = {url->master,        url->user,   url->password,
                     url->sentinel_user, url->cacert, url->sentinel_password,
                     url->cert,          url->key,    url->sni};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        free(texts[i]);
    }
    *url = (struct url){0};
}

char *addressName(const struct address *address) {
    return address->port == 0           ? memoryPrint("%s", address->host)
           : strchr(address->host, ':') ? memoryPrint("[%s]:%d", address->host, address->port)
                                        : memoryPrint("%s:%d", address->host, address->port);
}
