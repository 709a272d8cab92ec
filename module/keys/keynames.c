/* See keynames.h. */
#include "keys/keynames.h"

#include <stddef.h>
#include <string.h>

#include "common/failpoint.h"
#include "core/keyslot.h"
#include "core/mem.h"
#include "server/server.h"

static char *keynamesAppend(char *at, const char *bytes, size_t length) {
    memcpy(at, bytes, length);
    return at + length;
}

RedisModuleString *keynamesSide(RedisModuleCtx *ctx, const char *prefix, RedisModuleString *name) {
    size_t length, prefix_length = strlen(prefix);
    const char *bytes = RedisModule_StringPtrLen(name, &length);
    size_t brace = keyslotHasTag(bytes, length) ? 0 : 1;
    size_t size = prefix_length + length + 2 * brace;
    char small[256], *large = size > sizeof(small) ? memAlloc(size) : NULL;
    char *buffer = large ? large : small;
    char *at = keynamesAppend(buffer, prefix, prefix_length);
    at = keynamesAppend(at, "{", brace);
    at = keynamesAppend(at, bytes, length);
    keynamesAppend(at, "}", brace);
    RedisModuleString *side = RedisModule_CreateString(ctx, buffer, size);
    memFree(large);
    return side;
}

bool keynamesServeCluster(RedisModuleString *name) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(name, &length);
    return keyslotHasTag(bytes, length) || (length > 0 && !memchr(bytes, '}', length));
}

static bool isElsewhere(RedisModuleString *name) {
    return serverIsCluster() && !keynamesServeCluster(name);
}

RedisModuleKey *keynamesOpenSide(RedisModuleCtx *ctx, RedisModuleString *name,
                                 RedisModuleString *side, enum keyAccess access) {
    return isElsewhere(name) ? NULL : keynamesOpen(ctx, side, access);
}

bool keynamesSideIsInUse(RedisModuleString *name, const RedisModuleKey *side,
                         enum keyAccess access) {
    return keynamesIsInUse(side, access) && !isElsewhere(name);
}

bool keynamesSidesAreHere(RedisModuleCtx *ctx, RedisModuleString *name) {
    if (!serverIsCluster() || !keynamesServeCluster(name)) {
        return true;
    }
    /* Equivalent: any two names of this slot would do. */
    RedisModuleString *nothing = keynamesSide(ctx, "lock:nothing:", name);
    RedisModuleString *nobody = keynamesSide(ctx, "lock:nobody:", name);
    bool stable = serverSlotIsStable(ctx, nothing, nobody);
    RedisModule_FreeString(ctx, nothing);
    RedisModule_FreeString(ctx, nobody);
    return stable;
}
