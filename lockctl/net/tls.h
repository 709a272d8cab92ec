/* TLS for connections: certificates are verified, and so is that they are the host's. */
#ifndef LOCKCTL_TLS_H
#define LOCKCTL_TLS_H

#include <hiredis/hiredis.h>

#include "net/url.h"

/* What all connections by one URL have in common, or NULL, with `*why` saying why: a text to be freed by
 * free(). To be freed by tlsFree, which takes NULL too. */
struct tls *tlsNew(const struct url *url, char **why);
void tlsFree(struct tls *tls);

/* Makes a connection that has just been begun speak TLS. Returns what tlsTrouble asks, which lives as long
 * as the connection, or NULL if it cannot, with `*why` saying why: a text that lives for ever. */
struct ssl_st *tlsBegin(const struct tls *tls, redisContext *connection, const char *host,
                        const char **why);

/* Why the server's certificate was refused, or NULL if it was not: a text that lives for ever. */
const char *tlsTrouble(const struct ssl_st *session);

#endif
