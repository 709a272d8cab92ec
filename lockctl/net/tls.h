/* TLS for connections. Verifies the certificate, and that it was issued for the host. */
#ifndef LOCKCTL_TLS_H
#define LOCKCTL_TLS_H

#include <hiredis/hiredis.h>

#include "net/url.h"

/* Returns what all connections for one URL share, or NULL and the reason in `*why`: a text to be
 * freed by free(). The result is to be freed by tlsFree, which also accepts NULL. */
struct tls *tlsNew(const struct url *url, char **why);
void tlsFree(struct tls *tls);

/* Starts TLS on a new connection. Returns the session for tlsTrouble, which lives as long as the
 * connection, or NULL and the reason in `*why`: a static text. */
struct ssl_st *tlsBegin(const struct tls *tls, redisContext *connection, const char *host,
                        const char **why);

/* Returns why the server's certificate was refused, as a static text, or NULL if it was not
 * refused. */
const char *tlsTrouble(const struct ssl_st *session);

#endif
