/* See hashmap.h. Buckets are chained. The array doubles when it has fewer than two buckets per
 * entry, because each step along a chain is a cache miss. It shrinks when an entry is added to an
 * array that is nearly empty.
 *
 * After a change of size the old array stays until all its buckets have been moved, in order, a few
 * with each entry that is added. So no step takes long, however many entries there are. Removing an
 * entry moves no buckets, as mapEach may be walking both arrays. A hash determines in which array
 * its bucket is. The next change of size waits until all buckets are moved, which is long before it
 * is needed. */
#include "core/hashmap.h"

#include <assert.h>
#include <string.h>

#include "core/mem.h"

#define INITIAL_BUCKETS 8
#define HARDLY_USED 16 /* buckets per entry */

/* How many chains are moved, and how many buckets are visited, with each entry that is added.
 * Before the array grows again, half as many entries are added as the old array has buckets; after
 * it has shrunk, three sixteenths. So four chains are enough. */
#define CHAINS_AT_ONCE 4
#define BUCKETS_AT_ONCE 64

static uint64_t hash_seed[2];

void mapSeed(const uint64_t seed[2]) {
    hash_seed[0] = seed[0];
    hash_seed[1] = seed[1];
}

/* ---- SipHash-1-3 (Aumasson and Bernstein, 2012): one round per word, three at the end ---- */

struct sip {
    uint64_t a, b, c, d;
};

#define ROTATE(word, bits) (((word) << (bits)) | ((word) >> (64 - (bits))))

#define SIP_ROUND(v)                       \
    do {                                   \
        (v).a += (v).b;                    \
        (v).c += (v).d;                    \
        (v).b = ROTATE((v).b, 13) ^ (v).a; \
        (v).d = ROTATE((v).d, 16) ^ (v).c; \
        (v).a = ROTATE((v).a, 32) + (v).d; \
        (v).c += (v).b;                    \
        (v).d = ROTATE((v).d, 21) ^ (v).a; \
        (v).b = ROTATE((v).b, 17) ^ (v).c; \
        (v).c = ROTATE((v).c, 32);         \
    } while (0)

#define SIP_ABSORB(v, word) \
    do {                    \
        (v).d ^= (word);    \
        SIP_ROUND(v);       \
        (v).a ^= (word);    \
    } while (0)

/* Whole words are read in the byte order of the machine, because the hash never leaves the process.
 * The last word has the rest of the bytes, fewer than eight, and the length in the highest byte. */
uint64_t mapHash(const char *bytes, size_t length) {
    struct sip v = {
        hash_seed[0] ^ UINT64_C(0x736f6d6570736575), hash_seed[1] ^ UINT64_C(0x646f72616e646f6d),
        hash_seed[0] ^ UINT64_C(0x6c7967656e657261), hash_seed[1] ^ UINT64_C(0x7465646279746573)};
    const char *end = bytes + (length - length % 8);
    for (; bytes < end; bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, sizeof(word));
        SIP_ABSORB(v, word);
    }
    uint64_t last = (uint64_t)length << 56;
    for (size_t i = 0; i < length % 8; i++) {
        last |= (uint64_t)(unsigned char)bytes[i] << (8 * i);
    }
    SIP_ABSORB(v, last);
    v.c ^= 0xff;
    for (int i = 0; i < 3; i++) {
        SIP_ROUND(v);
    }
    return v.a ^ v.b ^ v.c ^ v.d;
}

/* ---- the map ---- */

/* Where the first entry of the bucket is linked: in the old array, until the bucket is moved. */
#define HASHMAP_BUCKET(map, hash)                                    \
    ((map)->old && ((hash) & ((map)->old_count - 1)) >= (map)->moved \
         ? &(map)->old[(hash) & ((map)->old_count - 1)]              \
         : &(map)->buckets[(hash) & ((map)->bucket_count - 1)])

/* The first entry with this key, or NULL. */
static struct mapEntry *scan(const struct map *map, const char *key, size_t length, uint64_t hash) {
    struct mapEntry *entry = *HASHMAP_BUCKET(map, hash);
    for (; entry; entry = entry->next) {
        if (entry->hash == hash && entry->key_length == length &&
            memcmp(entry->key, key, length) == 0) {
            return entry;
        }
    }
    return NULL;
}

/* Puts an entry that is the first of its key into its bucket. */
static void linkFirst(struct map *map, struct mapEntry *entry) {
    struct mapEntry **bucket = HASHMAP_BUCKET(map, entry->hash);
    entry->next = *bucket;
    *bucket = entry;
}

/* Moves the next bucket of the old array. Returns whether it had any entries. */
static bool moveBucket(struct map *map) {
    struct mapEntry *entry = map->old[map->moved++], *next;
    bool had_any = entry;
    for (; entry; entry = next) {
        next = entry->next;
        linkFirst(map, entry);
    }
    return had_any;
}

static void moveSome(struct map *map) {
    int chains = 0;
    for (int i = 0; i < BUCKETS_AT_ONCE && chains < CHAINS_AT_ONCE && map->moved < map->old_count;
         i++) {
        chains += moveBucket(map);
    }
    if (map->moved == map->old_count) {
        memFree(map->old);
        map->old = NULL;
        map->old_count = map->moved = 0;
    }
}

static void hashmapMakeRoom(struct map *map) {
    size_t count = map->bucket_count;
    if (map->old) {
        moveSome(map);
        return;
    }
    if (map->used >= count / 2) {
        count = count ? count * 2 : INITIAL_BUCKETS;
    } else if (count > INITIAL_BUCKETS && map->used < count / HARDLY_USED) {
        count /= 2;
    }
    if (count != map->bucket_count) {
        map->old = map->buckets;
        map->old_count = map->bucket_count;
        map->buckets = memAlloc(count * sizeof(struct mapEntry *));
        map->bucket_count = count;
    }
}

void mapAddHashed(struct map *map, struct mapEntry *entry) {
    hashmapMakeRoom(map);
    struct mapEntry *first = scan(map, entry->key, entry->key_length, entry->hash);
    if (first) {
        entry->older = first->youngest;
        first->youngest->younger = entry;
        first->youngest = entry;
    } else {
        entry->youngest = entry;
        linkFirst(map, entry);
    }
    map->used++;
}

/* Puts the entry into the bucket in the place of `first`, the first entry of the same key. */
static void replaceFirst(struct map *map, struct mapEntry *first, struct mapEntry *entry) {
    struct mapEntry **at = HASHMAP_BUCKET(map, first->hash);
    while (*at != first) {
        at = &(*at)->next;
    }
    *at = entry;
    entry->next = first->next;
    entry->youngest = first->youngest;
}

void mapAddBefore(struct map *map, struct mapEntry *entry, const char *key,
                  struct mapEntry *other) {
    *entry = (struct mapEntry){.key = key,
                               .key_length = other->key_length,
                               .hash = other->hash,
                               .older = other->older,
                               .younger = other};
    hashmapMakeRoom(map);
    if (other->older) {
        other->older->younger = entry;
    } else {
        replaceFirst(map, other, entry);
    }
    other->older = entry;
    map->used++;
}

/* Unlinks the first entry of its key. The next entry of the same key, if any, takes its place in
 * the bucket. */
static void unlinkFirst(struct map *map, struct mapEntry *entry) {
    struct mapEntry **at = HASHMAP_BUCKET(map, entry->hash);
    while (*at != entry) {
        assert(*at); /* else the entry is in no map, or in another one */
        at = &(*at)->next;
    }
    struct mapEntry *heir = entry->younger;
    *at = heir ? heir : entry->next;
    if (heir) {
        heir->older = NULL;
        heir->youngest = entry->youngest;
        heir->next = entry->next;
    }
}

/* Unlinks an entry that is not the first of its key. */
static void unlinkYounger(struct map *map, struct mapEntry *entry) {
    entry->older->younger = entry->younger;
    if (entry->younger) {
        entry->younger->older = entry->older;
    } else {
        scan(map, entry->key, entry->key_length, entry->hash)->youngest = entry->older;
    }
}

void mapRemove(struct map *map, struct mapEntry *entry) {
    if (entry->older) {
        unlinkYounger(map, entry);
    } else {
        unlinkFirst(map, entry);
    }
    map->used--;
    if (map->used == 0) {
        memFree(map->old);
        memFree(map->buckets);
        *map = (struct map){0};
    }
}

struct mapEntry *mapFind(const struct map *map, const char *key, size_t key_length) {
    return map->used ? scan(map, key, key_length, mapHash(key, key_length)) : NULL;
}

struct mapEntry *mapFindLike(const struct map *map, const struct mapEntry *other) {
    return map->used ? scan(map, other->key, other->key_length, other->hash) : NULL;
}

size_t mapMemory(const struct map *map) {
    return (map->buckets != NULL) + (map->old != NULL);
}

/* Visits all entries with the key of `first`, which `visit` may remove. Returns the first entry of
 * the next key in its bucket. */
static struct mapEntry *visitKey(struct mapEntry *first,
                                 void (*visit)(struct mapEntry *entry, void *context),
                                 void *context) {
    struct mapEntry *next_key = first->next, *next;
    for (struct mapEntry *entry = first; entry; entry = next) {
        next = entry->younger;
        visit(entry, context);
    }
    return next_key;
}

/* If `visit` removes the last entry, the arrays are freed and the counts are 0: the loops end. */
void mapEach(struct map *map, void (*visit)(struct mapEntry *entry, void *context), void *context) {
    for (size_t i = map->moved; i < map->old_count; i++) {
        struct mapEntry *first = map->old[i];
        while (first) {
            first = visitKey(first, visit, context);
        }
    }
    for (size_t i = 0; i < map->bucket_count; i++) {
        struct mapEntry *first = map->buckets[i];
        while (first) {
            first = visitKey(first, visit, context);
        }
    }
}
