/* See keyslot.h. */
#include "core/keyslot.h"

#include <stdint.h>
#include <string.h>

#define SLOTS 16384

/* The hash tag; also stores its length. NULL if there is none. */
static const char *tagOf(const char *name, size_t length, size_t *tag_length) {
    const char *open = memchr(name, '{', length);
    if (!open) {
        return NULL;
    }
    const char *tag = open + 1;
    const char *close = memchr(tag, '}', (size_t)(name + length - tag));
    if (!close || close == tag) {
        return NULL;
    }
    *tag_length = (size_t)(close - tag);
    return tag;
}

/* One step of the CRC, by four bits: the table has the effect of the four bits that are shifted out
 * on the others. */
static uint16_t withHalf(uint16_t crc, unsigned half) {
    static const uint16_t shifted_out[] = {
        0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
        0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
    };
    return (uint16_t)((crc << 4) ^ shifted_out[(crc >> 12) ^ half]);
}

/* CRC-16/XMODEM. */
static uint16_t crcOf(const char *bytes, size_t length) {
    uint16_t crc = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        crc = withHalf(withHalf(crc, byte >> 4), byte & 0x0f);
    }
    return crc;
}

bool keyslotHasTag(const char *name, size_t length) {
    size_t tag_length;
    return tagOf(name, length, &tag_length);
}

int keyslotOf(const char *name, size_t length) {
    size_t tag_length;
    const char *tag = tagOf(name, length, &tag_length);
    return (tag ? crcOf(tag, tag_length) : crcOf(name, length)) % SLOTS;
}
