/* Parses the URLs of servers:
 *
 *   redis://[[user]:password@]host[:port][/db]
 *   rediss://...                                the same with TLS
 *   unix:///path/to/socket[?db=n]
 *   redis+sentinel://master@host[:port],...[/db]
 *   redis+cluster://[[user]:password@]host[:port],...
 *
 * with options after a question mark, joined by '&': db, user, password, sentinel-user,
 * sentinel-password, tls=yes, and for TLS cacert, cert, key (files), sni, verify=no. In all parts
 * '%' and two hexadecimal digits encode a byte. An IPv6 address is written in brackets.
 */
#ifndef LOCKCTL_URL_H
#define LOCKCTL_URL_H

#include <stdbool.h>
#include <stddef.h>

enum urlKind { URL_SERVER, URL_SENTINEL, URL_CLUSTER };

struct address {
    char *host; /* or the path of a socket, with port 0 */
    int port;
};

/* A parsed URL. A text is NULL if it was not given. */
struct url {
    enum urlKind kind;
    bool tls;
    bool verify; /* verify the server's certificate */
    int db;
    char *master; /* the name of the master, with a sentinel */
    char *user, *password;
    char *sentinel_user, *sentinel_password;
    char *cacert, *cert, *key, *sni;
    struct address *addresses; /* at least one */
    size_t address_count;
};

/* Parses `text`. Returns NULL, or an error: a static text that contains nothing secret. In both
 * cases `url` is to be freed by urlFree. */
const char *urlParse(struct url *url, const char *text);
void urlFree(struct url *url);

/* Returns "host:port", to be freed by free(). */
char *addressName(const struct address *address);

#endif
