/* An intrusive hash map from byte strings to entries.
 *
 *   struct position { ...; struct mapEntry by_owner; ... };
 *
 * The entry lives inside the caller's struct; the map owns its bucket arrays only. The key's bytes
 * are not copied: the entry points at them, and they must stay where they are while it is in the
 * map. Several entries may have equal keys; they are found one after the other, in the order in which
 * they were added, unless by mapAddBefore.
 *
 * Keys and owners are chosen by clients, who must not be able to pick ones that collide: so the
 * hash is SipHash-1-3 with a secret seed, as in the server's own tables.
 */
#ifndef LOCK_HASHMAP_H
#define LOCK_HASHMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapEntry {
    struct mapEntry *next; /* in its bucket; of the first of its key only */
    const char *key;
    size_t key_length;
    uint64_t hash;
    struct mapEntry *older, *younger; /* of the same key */
    struct mapEntry *youngest;        /* of the same key; of the first only */
};

/* All zero is an empty map. */
struct map {
    struct mapEntry **buckets;
    size_t bucket_count; /* a power of two, or 0 while nothing was added */
    size_t used;
    struct mapEntry **old; /* while the map gets another size, else NULL: its array before */
    size_t old_count;
    size_t moved; /* of `old`: these are in `buckets` already */
};

/* Sets the seed of every map in the process: 128 secret bits. Call it once, before the first map is
 * used. */
void mapSeed(const uint64_t seed[2]);

/* The hash of some bytes by this seed, for who keeps no map. */
uint64_t mapHash(const char *bytes, size_t length);

/* Adds `entry` under the key's bytes. The bytes stay the caller's. */
void mapAdd(struct map *map, struct mapEntry *entry, const char *key, size_t key_length);

/* Likewise, under the key of `other`, which is in another map: saves the hashing. */
void mapAddLike(struct map *map, struct mapEntry *entry, const struct mapEntry *other);

/* Adds `entry` under the key's bytes, which are equal to the key of `other`, and next to that: mapFind
 * and mapFindNext come to `entry` just before `other`. */
void mapAddBefore(struct map *map, struct mapEntry *entry, const char *key, struct mapEntry *other);

/* Whether no other entry of its map has the key of this one. */
bool mapIsAlone(const struct mapEntry *entry);

/* Takes `entry`, which must be in the map, out of it. An emptied map frees its bucket arrays. */
void mapRemove(struct map *map, struct mapEntry *entry);

/* The first entry with this key, or NULL. */
struct mapEntry *mapFind(const struct map *map, const char *key, size_t key_length);

/* Likewise, with the key of `other`, which is in another map: saves the hashing. */
struct mapEntry *mapFindLike(const struct map *map, const struct mapEntry *other);

/* The next entry with the key of `entry`, or NULL after the last of them. */
struct mapEntry *mapFindNext(const struct mapEntry *entry);

/* How many allocations the map owns. */
size_t mapMemory(const struct map *map);

/* Calls `visit` once for each entry. `visit` may remove the entry that it is given, and no other;
 * it may add none. */
void mapEach(struct map *map, void (*visit)(struct mapEntry *entry, void *context), void *context);

#endif
