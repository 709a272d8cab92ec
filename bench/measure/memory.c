/* Memory: what the server counts for a held lock that has no waiters, against a string key with a
 * TTL; key and owner have the same length. */

#include "base/table.h"
#include "load/requests.h"
#include "machine/probe.h"
#include "measure/measure.h"

enum {
    LOCKS = 100000,
    QUICK_LOCKS = 10000,
};

static const Step take_lock[] = {{"LOCK.ACQUIRE {key} {owner} PX 3600000", "1"}, STEPS_END};
static const Step set_string[] = {{"SET {key} {owner} PX 3600000", "OK"}, STEPS_END};

/* The bytes of each of `count` keys that `steps` make, on a server of its own. */
static double bytesEach(const Options *options, bool module, const Step *steps, unsigned count) {
    const ServerOptions wanted = {.module = module};
    const Conditions conditions = {.depth = 100};
    const Requests requests = {.steps = steps, .keys = count};
    Server *server = serverStart(options, &wanted);
    void *session = requestsKind.open(server, &requests, &conditions);
    uint64_t before = probeMemory(server);
    requestsKind.run(session, count);
    uint64_t after = probeMemory(server);
    requestsKind.close(session);
    serverStop(server);
    return ((double)after - (double)before) / count;
}

void memoryMeasure(const Options *options) {
    unsigned count = options->quick ? QUICK_LOCKS : LOCKS;
    Series locks = {0};
    Series strings = {0};
    Row row = {.label = "memory each: lock / string with a TTL", .unit = UNIT_BYTES};
    tableHead("memory", "used_memory of held locks, key included");
    for (unsigned round = 0; round < options->rounds; round++) {
        seriesAdd(&locks, bytesEach(options, true, take_lock, count));
        seriesAdd(&strings, bytesEach(options, false, set_string, count));
    }
    tableSeries(row, &locks, &strings);
    seriesFree(&locks);
    seriesFree(&strings);
}
