/* See tls.h. hiredis only transfers the bytes: it would not compare the certificate with the
 * host. */
#include "net/tls.h"

#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct tls {
    SSL_CTX *context;
    const struct url *url;
};

static bool loadFiles(SSL_CTX *context, const struct url *url) {
    bool trusts = url->cacert ? SSL_CTX_load_verify_locations(context, url->cacert, NULL) == 1
                              : SSL_CTX_set_default_verify_paths(context) == 1;
    const char *key = url->key ? url->key : url->cert;
    return trusts &&
           (!url->cert || (SSL_CTX_use_certificate_chain_file(context, url->cert) == 1 &&
                           SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1));
}

static char *reason(void) {
    char text[256];
    ERR_error_string_n(ERR_get_error(), text, sizeof(text));
    return memoryPrint("TLS: %s", text);
}

struct tls *tlsNew(const struct url *url, char **why) {
    redisInitOpenSSL();
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (!context || !loadFiles(context, url)) {
        *why = reason();
        SSL_CTX_free(context);
        return NULL;
    }
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_verify(context, url->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    struct tls *tls = memoryNew(sizeof(*tls));
    *tls = (struct tls){.context = context, .url = url};
    return tls;
}

void tlsFree(struct tls *tls) {
    if (tls) {
        SSL_CTX_free(tls->context);
        free(tls);
    }
}

/* Sets the name or the address that the certificate must be issued for. */
static bool expect(SSL *ssl, const char *name) {
    X509_VERIFY_PARAM *parameters = SSL_get0_param(ssl);
    if (X509_VERIFY_PARAM_set1_ip_asc(parameters, name) == 1) {
        return true;
    }
    char *copy = memoryCopy(name, strlen(name)); /* OpenSSL's macro takes no const */
    bool is_set = SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, copy) == 1;
    free(copy);
    return is_set;
}

SSL *tlsBegin(const struct tls *tls, redisContext *connection, const char *host, const char **why) {
    SSL *ssl = SSL_new(tls->context);
    *why = "cannot start TLS";
    if (!ssl || !expect(ssl, tls->url->sni ? tls->url->sni : host)) {
        SSL_free(ssl);
        return NULL;
    }
    SSL_set_connect_state(ssl);
    /* On success the session belongs to the connection. With a nearby server the handshake may
     * already have failed here. */
    if (redisInitiateSSL(connection, ssl) != REDIS_OK) {
        const char *trouble = tlsTrouble(ssl);
        *why = trouble ? trouble : *why;
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}

const char *tlsTrouble(const SSL *session) {
    long result = SSL_get_verify_result(session);
    return result == X509_V_OK ? NULL : X509_verify_cert_error_string(result);
}
