/* An intrusive hash map from byte strings to entries.
 *
 *   struct position { ...; struct mapEntry by_owner; ... };
 *
 * The entry is part of the caller's struct. The map owns only its bucket arrays. The bytes of the
 * key are not copied. The entry points to them, so they must not move while the entry is in the
 * map. Several entries may have equal keys. They are found one after the other, in the order in
 * which they were added, except for entries added by mapAddBefore.
 *
 * Keys and owners are chosen by clients, which must not be able to choose names with equal hashes.
 * So the hash is SipHash-1-3 with a secret seed, as in the server's own tables.
 */
#ifndef LOCK_HASHMAP_H
#define LOCK_HASHMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapEntry {
    struct mapEntry *next; /* the next one in the bucket; only in the first entry of each key */
    const char *key;
    size_t key_length;
    uint64_t hash;
    struct mapEntry *older, *younger; /* entries with the same key */
    struct mapEntry *youngest;        /* with the same key; only in the first entry of each key */
};

/* An empty map is all zero. */
struct map {
    struct mapEntry **buckets;
    size_t bucket_count; /* a power of two, or 0 while the map is empty */
    size_t used;
    struct mapEntry **old; /* the previous array while the map is resized, otherwise NULL */
    size_t old_count;
    size_t moved; /* number of buckets of `old` that have been moved to `buckets` */
};

/* Sets the seed of all maps of the process: 128 secret bits. To be called once, before the first
 * map is used. */
void mapSeed(const uint64_t seed[2]);

/* The hash of these bytes with the seed of mapSeed, for a caller that has no map. */
uint64_t mapHash(const char *bytes, size_t length);

/* Adds an entry whose `key`, `key_length` and `hash` are set, and everything else is zero. */
void mapAddHashed(struct map *map, struct mapEntry *entry);

/* Adds `entry` under the key's bytes, which still belong to the caller. */
static inline void mapAdd(struct map *map, struct mapEntry *entry, const char *key,
                          size_t key_length) {
    *entry =
        (struct mapEntry){.key = key, .key_length = key_length, .hash = mapHash(key, key_length)};
    mapAddHashed(map, entry);
}

/* As mapAdd, with the key of `other`, which is in another map. This saves the computation of the
 * hash. */
static inline void mapAddLike(struct map *map, struct mapEntry *entry,
                              const struct mapEntry *other) {
    *entry =
        (struct mapEntry){.key = other->key, .key_length = other->key_length, .hash = other->hash};
    mapAddHashed(map, entry);
}

/* Adds `entry` under the key's bytes, which must be equal to the key of `other`, directly before
 * `other`. mapFind and mapFindNext return `entry` just before `other`. */
void mapAddBefore(struct map *map, struct mapEntry *entry, const char *key, struct mapEntry *other);

/* Whether no other entry of its map has the same key. */
static inline bool mapIsAlone(const struct mapEntry *entry) {
    return !entry->older && !entry->younger;
}

/* Removes `entry`, which must be in the map. A map that becomes empty frees its bucket arrays. */
void mapRemove(struct map *map, struct mapEntry *entry);

/* The first entry with this key, or NULL. */
struct mapEntry *mapFind(const struct map *map, const char *key, size_t key_length);

/* As mapFind, with the key of `other`, which is in another map. This saves the computation of the
 * hash. */
struct mapEntry *mapFindLike(const struct map *map, const struct mapEntry *other);

/* The next entry with the key of `entry`, or NULL after the last of them. */
static inline struct mapEntry *mapFindNext(const struct mapEntry *entry) {
    return entry->younger;
}

/* How many memory allocations the map owns. */
size_t mapMemory(const struct map *map);

/* Calls `visit` once for each entry. `visit` may remove the entry that is passed to it. It must not
 * remove other entries, and must not add entries. */
void mapEach(struct map *map, void (*visit)(struct mapEntry *entry, void *context), void *context);

#endif
