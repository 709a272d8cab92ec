/* See ownerfield.h. */
#include "keys/ownerfield.h"

#include <string.h>

static bool isMode(const char *bytes, size_t length) {
    return length == strlen("mode") && memcmp(bytes, "mode", length) == 0;
}

static bool endsInWrite(const char *bytes, size_t length) {
    return length >= OWNERFIELD_WRITE_LENGTH &&
           memcmp(bytes + length - OWNERFIELD_WRITE_LENGTH, OWNERFIELD_WRITE,
                  OWNERFIELD_WRITE_LENGTH) == 0;
}

enum ownerfieldOwner ownerfieldJudgeBytes(const char *bytes, size_t length) {
    if (length < 1 || length > OWNERFIELD_LONGEST) {
        return OWNERFIELD_BAD_LENGTH;
    }
    return isMode(bytes, length) || endsInWrite(bytes, length) ? OWNERFIELD_RESERVED
                                                               : OWNERFIELD_OWNER;
}

bool ownerfieldIsOwner(RedisModuleString *name) {
    return ownerfieldJudge(name) == OWNERFIELD_OWNER;
}

enum ownerfieldKind ownerfieldKindOf(RedisModuleString *field) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(field, &length);
    if (isMode(bytes, length)) {
        return OWNERFIELD_MODE;
    }
    if (!endsInWrite(bytes, length)) {
        return ownerfieldJudgeBytes(bytes, length) == OWNERFIELD_OWNER ? OWNERFIELD_OF_OWNER
                                                                       : OWNERFIELD_FOREIGN;
    }
    bool has_owner =
        ownerfieldJudgeBytes(bytes, length - OWNERFIELD_WRITE_LENGTH) == OWNERFIELD_OWNER;
    return has_owner ? OWNERFIELD_OF_WRITES : OWNERFIELD_FOREIGN;
}
