/* See requests.h. */
#include "hold/requests.h"

/* The longest time for acknowledgements. */
#define REPLICAS_MS 1000

static void begin(struct words *words, const char *command, const struct wish *wish) {
    *words = (struct words){0};
    wordsAdd(words, command);
    wordsAdd(words, wish->key);
    wordsAdd(words, wish->owner);
}

static void addLease(struct words *words, int64_t lease_ms) {
    if (lease_ms == 0) {
        wordsAdd(words, "SESSION");
    } else {
        wordsAdd(words, "PX");
        wordsAddNumber(words, lease_ms);
    }
}

static void addReplicas(struct words *words, const struct wish *wish) {
    if (wish->replicas > 0) {
        int64_t third = wish->lease_ms / 3;
        wordsAdd(words, "REPLICAS");
        wordsAddNumber(words, wish->replicas);
        wordsAddNumber(words, third > 0 && third < REPLICAS_MS ? third : REPLICAS_MS);
    }
}

bool requestIsFenced(const struct wish *wish) {
    return wish->kind == WISH_PLAIN || wish->kind == WISH_FAIR;
}

void requestAcquire(struct words *words, const struct wish *wish, int64_t lease_ms,
                    int64_t block_ms) {
    static const char *const commands[] = {[WISH_PLAIN] = "LOCK.ACQUIRE",
                                           [WISH_FAIR] = "LOCK.FAIR",
                                           [WISH_SHARED] = "LOCK.RWREAD",
                                           [WISH_SEMAPHORE] = "LOCK.SEMAPHORE"};
    begin(words, commands[wish->kind], wish);
    if (wish->kind == WISH_SEMAPHORE) {
        wordsAddNumber(words, wish->limit);
    }
    addLease(words, lease_ms);
    if (block_ms != 0) {
        wordsAdd(words, "BLOCK");
        wordsAddNumber(words, block_ms > 0 ? block_ms : 0);
    }
    if (requestIsFenced(wish)) {
        wordsAdd(words, "FENCED");
    }
    /* The request is sent again if the reply was lost. ONCE is not used if other clients may use
     * the same owner name: an existing hold may then be theirs. */
    if (wish->is_own_owner) {
        wordsAdd(words, "ONCE");
    }
    addReplicas(words, wish);
}

void requestRenew(struct words *words, const struct wish *wish, int64_t lease_ms) {
    begin(words, "LOCK.RENEW", wish);
    addLease(words, lease_ms);
    addReplicas(words, wish);
}

void requestRelease(struct words *words, const struct wish *wish, int64_t keep_ms) {
    if (keep_ms > 0) {
        begin(words, "LOCK.RENEW", wish);
        addLease(words, keep_ms);
        return;
    }
    begin(words, "LOCK.RELEASE", wish);
    if (wish->kind == WISH_SHARED) {
        wordsAdd(words, "READ");
    }
}

void requestCancel(struct words *words, const struct wish *wish) {
    begin(words, "LOCK.CANCEL", wish);
}

void requestWatch(struct words *words, const struct wish *wish) {
    begin(words, "LOCK.WATCH", wish);
    wordsAdd(words, "BLOCK");
    wordsAdd(words, "0");
}

void requestInfo(struct words *words, const struct wish *wish) {
    *words = (struct words){0};
    wordsAdd(words, "LOCK.INFO");
    wordsAdd(words, wish->key);
    wordsAdd(words, "COUNT");
    wordsAdd(words, "0");
}
