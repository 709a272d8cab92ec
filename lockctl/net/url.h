/* Parses the URLs of servers:
 *
 *   redis://[[user]:password@]host[:port][/db]
 *   rediss://...                                the same with TLS
 *   valkey://..., valkeys://...                 the same as redis:// and rediss://
 *   unix:///path/to/socket[?db=n]
 *   redis+sentinel://master@host[:port],...[/db]
 *   redis+cluster://[[user]:password@]host[:port],...
 *
 * Options follow a question mark and are separated by '&': db, user, password, sentinel-user,
 * sentinel-password, tls=yes, and for TLS cacert, cert, key (files), sni, verify=no. In every part,
 * '%' and two hexadecimal digits encode a byte. An IPv6 address is written in brackets.
 */
#ifndef LOCKCTL_URL_H
#define LOCKCTL_URL_H

#include <stdbool.h>
#include <stddef.h>

enum urlKind { URL_SERVER, URL_SENTINEL, URL_CLUSTER };

struct address {
    char *host; /* or the path of a socket; `port` is 0 then */
    int port;
};

/* A parsed URL. A text that the URL does not contain is NULL. */
struct url {
    enum urlKind kind;
    bool tls;
    bool verify; /* verify the server's certificate */
    int db;
    char *master; /* the name of the master; URL_SENTINEL only */
    char *user, *password;
    char *sentinel_user, *sentinel_password;
    char *cacert, *cert, *key, *sni;
    struct address *addresses; /* at least one */
    size_t address_count;
};

/* Parses `text`. Returns NULL, or an error text, which is static and contains nothing secret. In
 * both cases the caller must free `url` with urlFree. */
const char *urlParse(struct url *url, const char *text);
void urlFree(struct url *url);

/* Returns "host:port", "[host]:port" for an IPv6 address, or the path of a socket. The caller must
 * free the text with free(). */
char *addressName(const struct address *address);

#endif
