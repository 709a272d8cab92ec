/* See tally.h. */
#include "keys/tally.h"

#include "core/hashmap.h"
#include "core/list.h"
#include "core/mem.h"

struct tally {
    struct mapEntry by_name;
    struct link in_recent;
    RedisModuleString *name;
    int db;
    size_t fields;
    bool of_permits;
    int64_t until_ms;
    struct tallySum sum;
};

static struct {
    struct map by_name; /* of all databases */
    struct list recent; /* in order of last use */
    void (*watch)(RedisModuleCtx *ctx);
} tallies;

size_t tally_count;

void tallyConnect(void (*watch)(RedisModuleCtx *ctx)) {
    tallies.watch = watch;
}

size_t tallyCount(void) {
    return tallies.by_name.used;
}

static struct tally *tallyOfEntry(struct mapEntry *entry) {
    return LIST_ELEMENT_OR_NULL(entry, struct tally, by_name);
}

static struct tally *tallyFindByName(int db, RedisModuleString *name) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(name, &length);
    struct tally *tally = tallyOfEntry(mapFind(&tallies.by_name, bytes, length));
    while (tally && tally->db != db) {
        tally = tallyOfEntry(mapFindNext(&tally->by_name));
    }
    return tally;
}

static void tallyDrop(struct tally *tally) {
    mapRemove(&tallies.by_name, &tally->by_name);
    tally_count = tallies.by_name.used;
    listRemove(&tallies.recent, &tally->in_recent);
    RedisModule_FreeString(NULL, tally->name);
    memFree(tally);
}

static void use(struct tally *tally) {
    listRemove(&tallies.recent, &tally->in_recent);
    listAddLast(&tallies.recent, &tally->in_recent);
}

/* The sum of this hash. If the hash does not have this many fields, or is of another kind, the sum
 * is forgotten, and NULL is returned: the hash was changed without an event, by another module or
 * while its slot was on another node. */
static struct tally *findOf(const struct tallyHash *hash, size_t fields) {
    struct tally *tally = tallyFindByName(RedisModule_GetSelectedDb(hash->ctx), hash->name);
    if (tally && (tally->fields != fields || tally->of_permits != hash->of_permits)) {
        tallyDrop(tally);
        tally = NULL;
    }
    return tally;
}

bool tallyFind(const struct tallyHash *hash, int64_t now_ms, struct tallySum *sum) {
    struct tally *tally = findOf(hash, hash->fields);
    if (tally && now_ms >= tally->until_ms) {
        tallyDrop(tally);
        tally = NULL;
    }
    if (tally) {
        use(tally);
        *sum = tally->sum;
    }
    return tally;
}

static struct tally *tallyMake(int db, RedisModuleString *name) {
    if (tallies.by_name.used == TALLY_MOST) {
        tallyDrop(LIST_ELEMENT(tallies.recent.first, struct tally, in_recent));
    }
    struct tally *tally = memAlloc(sizeof(*tally));
    size_t length;
    tally->db = db;
    /* A copy: the caller's string may be part of a client's query buffer. */
    tally->name = RedisModule_CreateStringFromString(NULL, name);
    const char *bytes = RedisModule_StringPtrLen(tally->name, &length);
    mapAdd(&tallies.by_name, &tally->by_name, bytes, length);
    tally_count = tallies.by_name.used;
    listAddLast(&tallies.recent, &tally->in_recent);
    return tally;
}

void tallyKeep(const struct tallyHash *hash, const struct tallySum *sum, int64_t until_ms) {
    tallies.watch(hash->ctx);
    int db = RedisModule_GetSelectedDb(hash->ctx);
    struct tally *tally = tallyFindByName(db, hash->name);
    if (!tally) {
        tally = tallyMake(db, hash->name);
    }
    tally->fields = hash->fields;
    tally->of_permits = hash->of_permits;
    tally->until_ms = until_ms;
    tally->sum = *sum;
}

void tallyChange(const struct tallyHash *hash, const struct tallySum *change) {
    int64_t more = change->owners + change->writers + change->foreign;
    struct tally *tally = findOf(hash, (size_t)((int64_t)hash->fields - more));
    if (tally) {
        tally->fields = hash->fields;
        tally->sum.owners += change->owners;
        tally->sum.permits += change->permits;
        tally->sum.writers += change->writers;
        tally->sum.foreign += change->foreign;
    }
}

void tallyForgetSum(int db, RedisModuleString *name) {
    struct tally *tally = tallyFindByName(db, name);
    if (tally) {
        tallyDrop(tally);
    }
}

void tallyForgetAll(void) {
    while (tallies.recent.first) {
        tallyDrop(LIST_ELEMENT(tallies.recent.first, struct tally, in_recent));
    }
}
