/* Where servers are, as users write it:
 *
 *   redis://[[user]:password@]host[:port][/db]
 *   rediss://...                                the same by TLS
 *   unix:///path/to/socket[?db=n]
 *   redis+sentinel://master@host[:port],...[/db]
 *   redis+cluster://[[user]:password@]host[:port],...
 *
 * with options behind a question mark, joined by '&': db, user, password, sentinel-user,
 * sentinel-password, tls=yes, and of TLS cacert, cert, key (files), sni, verify=no. In all parts '%' and
 * two hexadecimal digits stand for a byte. An IPv6 address is written in brackets.
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

/* What the options say; NULL where they say nothing. */
struct url {
    enum urlKind kind;
    bool tls;
    bool verify; /* the server's certificate */
    int db;
    char *master; /* of a sentinel */
    char *user, *password;
    char *sentinel_user, *sentinel_password;
    char *cacert, *cert, *key, *sni;
    struct address *addresses; /* at least one */
    size_t address_count;
};

/* Reads `text`. Returns NULL, or what is wrong with it: a text that lives for ever, and names nothing
 * of what may be secret. In both cases `url` is to be freed by urlFree. */
const char *urlParse(struct url *url, const char *text);
void urlFree(struct url *url);

/* "host:port", to be freed by free(). */
char *addressName(const struct address *address);

#endif
