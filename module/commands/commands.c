/* See commands.h. The table at the end of the file has one row for each command; the arguments that
 * it documents are above. The pages in docs/commands/ have the same information, and a test
 * compares the two. */
#include "commands/commands.h"

#include <stdbool.h>
#include <stddef.h>

#define SINCE "0.1.0"

#define KEY_ARG \
    { .name = "key", .type = REDISMODULE_ARG_TYPE_KEY, .key_spec_index = 0 }
#define OWNER_ARG \
    { .name = "owner", .type = REDISMODULE_ARG_TYPE_STRING, .key_spec_index = -1 }
#define NUMBER_OPTION(word, unit)                                                   \
    {                                                                               \
        .name = (unit), .type = REDISMODULE_ARG_TYPE_INTEGER, .key_spec_index = -1, \
        .token = (word), .flags = REDISMODULE_CMD_ARG_OPTIONAL                      \
    }
#define LEASE_OPTION                                                               \
    {                                                                              \
        .name = "lease", .type = REDISMODULE_ARG_TYPE_ONEOF, .key_spec_index = -1, \
        .flags = REDISMODULE_CMD_ARG_OPTIONAL, .subargs = lease_args               \
    }

static RedisModuleCommandArg lease_args[] = {
    {.name = "milliseconds",
     .type = REDISMODULE_ARG_TYPE_INTEGER,
     .key_spec_index = -1,
     .token = "PX"},
    {.name = "seconds", .type = REDISMODULE_ARG_TYPE_INTEGER, .key_spec_index = -1, .token = "EX"},
    {.name = "session",
     .type = REDISMODULE_ARG_TYPE_PURE_TOKEN,
     .key_spec_index = -1,
     .token = "SESSION"},
    {0},
};
#define FENCED_OPTION                                                                    \
    {                                                                                    \
        .name = "fenced", .type = REDISMODULE_ARG_TYPE_PURE_TOKEN, .key_spec_index = -1, \
        .token = "FENCED", .flags = REDISMODULE_CMD_ARG_OPTIONAL                         \
    }
#define ONCE_OPTION                                                                    \
    {                                                                                  \
        .name = "once", .type = REDISMODULE_ARG_TYPE_PURE_TOKEN, .key_spec_index = -1, \
        .token = "ONCE", .flags = REDISMODULE_CMD_ARG_OPTIONAL                         \
    }
static RedisModuleCommandArg replicas_args[] = {
    {.name = "n", .type = REDISMODULE_ARG_TYPE_INTEGER, .key_spec_index = -1},
    {.name = "milliseconds", .type = REDISMODULE_ARG_TYPE_INTEGER, .key_spec_index = -1},
    {0},
};
#define REPLICAS_OPTION                                                                      \
    {                                                                                        \
        .name = "replicas", .type = REDISMODULE_ARG_TYPE_BLOCK, .key_spec_index = -1,        \
        .token = "REPLICAS", .flags = REDISMODULE_CMD_ARG_OPTIONAL, .subargs = replicas_args \
    }
static RedisModuleCommandArg acquire_args[] = {
    KEY_ARG,       OWNER_ARG,   LEASE_OPTION,    NUMBER_OPTION("BLOCK", "milliseconds"),
    FENCED_OPTION, ONCE_OPTION, REPLICAS_OPTION, {0}};
static RedisModuleCommandArg read_args[] = {
    KEY_ARG,     OWNER_ARG,       LEASE_OPTION, NUMBER_OPTION("BLOCK", "milliseconds"),
    ONCE_OPTION, REPLICAS_OPTION, {0}};
static RedisModuleCommandArg semaphore_args[] = {
    KEY_ARG,
    OWNER_ARG,
    {.name = "limit", .type = REDISMODULE_ARG_TYPE_INTEGER, .key_spec_index = -1},
    NUMBER_OPTION("PERMITS", "permits"),
    LEASE_OPTION,
    NUMBER_OPTION("BLOCK", "milliseconds"),
    ONCE_OPTION,
    REPLICAS_OPTION,
    {0}};
#define KEYS_ARGS                                                                      \
    {.name = "numkeys", .type = REDISMODULE_ARG_TYPE_INTEGER, .key_spec_index = -1}, { \
        .name = "key", .type = REDISMODULE_ARG_TYPE_KEY, .key_spec_index = 0,          \
        .flags = REDISMODULE_CMD_ARG_MULTIPLE                                          \
    }
static RedisModuleCommandArg each_mode_args[] = {
    {.name = "read",
     .type = REDISMODULE_ARG_TYPE_PURE_TOKEN,
     .key_spec_index = -1,
     .token = "READ"},
    {.name = "write",
     .type = REDISMODULE_ARG_TYPE_PURE_TOKEN,
     .key_spec_index = -1,
     .token = "WRITE"},
    {0},
};
#define MODES_OPTION                                                              \
    {                                                                             \
        .name = "mode", .type = REDISMODULE_ARG_TYPE_ONEOF, .key_spec_index = -1, \
        .token = "MODES", .subargs = each_mode_args,                              \
        .flags = REDISMODULE_CMD_ARG_OPTIONAL | REDISMODULE_CMD_ARG_MULTIPLE      \
    }
static RedisModuleCommandArg macquire_args[] = {KEYS_ARGS,
                                                OWNER_ARG,
                                                MODES_OPTION,
                                                LEASE_OPTION,
                                                NUMBER_OPTION("BLOCK", "milliseconds"),
                                                ONCE_OPTION,
                                                REPLICAS_OPTION,
                                                {0}};
static RedisModuleCommandArg mrelease_args[] = {KEYS_ARGS, OWNER_ARG, MODES_OPTION, {0}};
static RedisModuleCommandArg mrenew_args[] = {
    KEYS_ARGS, OWNER_ARG, LEASE_OPTION, REPLICAS_OPTION, {0}};
static RedisModuleCommandArg guard_args[] = {
    KEY_ARG,
    OWNER_ARG,
    {.name = "command", .type = REDISMODULE_ARG_TYPE_STRING, .key_spec_index = -1},
    {.name = "arg",
     .type = REDISMODULE_ARG_TYPE_STRING,
     .key_spec_index = -1,
     .flags = REDISMODULE_CMD_ARG_OPTIONAL | REDISMODULE_CMD_ARG_MULTIPLE},
    {0}};
static RedisModuleCommandArg renew_args[] = {
    KEY_ARG, OWNER_ARG, LEASE_OPTION, REPLICAS_OPTION, {0}};
static RedisModuleCommandArg mode_args[] = {
    {.name = "read",
     .type = REDISMODULE_ARG_TYPE_PURE_TOKEN,
     .key_spec_index = -1,
     .token = "READ"},
    {.name = "write",
     .type = REDISMODULE_ARG_TYPE_PURE_TOKEN,
     .key_spec_index = -1,
     .token = "WRITE"},
    {.name = "permits",
     .type = REDISMODULE_ARG_TYPE_INTEGER,
     .key_spec_index = -1,
     .token = "PERMITS"},
    {0},
};
static RedisModuleCommandArg release_args[] = {KEY_ARG,
                                               OWNER_ARG,
                                               {.name = "mode",
                                                .type = REDISMODULE_ARG_TYPE_ONEOF,
                                                .key_spec_index = -1,
                                                .flags = REDISMODULE_CMD_ARG_OPTIONAL,
                                                .subargs = mode_args},
                                               {0}};
static RedisModuleCommandArg gives_up_args[] = {{.name = "release",
                                                 .type = REDISMODULE_ARG_TYPE_PURE_TOKEN,
                                                 .key_spec_index = -1,
                                                 .token = "RELEASE"},
                                                {.name = "mode",
                                                 .type = REDISMODULE_ARG_TYPE_ONEOF,
                                                 .key_spec_index = -1,
                                                 .flags = REDISMODULE_CMD_ARG_OPTIONAL,
                                                 .subargs = mode_args},
                                                {0}};
static RedisModuleCommandArg cancel_args[] = {KEY_ARG,
                                              OWNER_ARG,
                                              {.name = "gives-up",
                                               .type = REDISMODULE_ARG_TYPE_BLOCK,
                                               .key_spec_index = -1,
                                               .flags = REDISMODULE_CMD_ARG_OPTIONAL,
                                               .subargs = gives_up_args},
                                              {0}};
#define LIST_ARG \
    { .name = "list", .type = REDISMODULE_ARG_TYPE_KEY, .key_spec_index = 0 }
static RedisModuleCommandArg delay_push_args[] = {
    LIST_ARG,
    {.name = "id", .type = REDISMODULE_ARG_TYPE_STRING, .key_spec_index = -1},
    {.name = "milliseconds", .type = REDISMODULE_ARG_TYPE_INTEGER, .key_spec_index = -1},
    {.name = "value", .type = REDISMODULE_ARG_TYPE_STRING, .key_spec_index = -1},
    {0}};
static RedisModuleCommandArg delay_cancel_args[] = {LIST_ARG,
                                                    {.name = "id",
                                                     .type = REDISMODULE_ARG_TYPE_STRING,
                                                     .key_spec_index = -1,
                                                     .flags = REDISMODULE_CMD_ARG_MULTIPLE},
                                                    {0}};
static RedisModuleCommandArg delay_list_args[] = {LIST_ARG, NUMBER_OPTION("COUNT", "count"), {0}};
static RedisModuleCommandArg watch_args[] = {KEY_ARG,
                                             OWNER_ARG,
                                             {.name = "wanted",
                                              .type = REDISMODULE_ARG_TYPE_PURE_TOKEN,
                                              .key_spec_index = -1,
                                              .token = "WANTED",
                                              .flags = REDISMODULE_CMD_ARG_OPTIONAL},
                                             NUMBER_OPTION("BLOCK", "milliseconds"),
                                             {0}};
static RedisModuleCommandArg expiry_args[] = {
    {.name = "milliseconds",
     .type = REDISMODULE_ARG_TYPE_INTEGER,
     .key_spec_index = -1,
     .token = "PX"},
    {.name = "seconds", .type = REDISMODULE_ARG_TYPE_INTEGER, .key_spec_index = -1, .token = "EX"},
    {0},
};
static RedisModuleCommandArg latch_set_args[] = {
    KEY_ARG,
    {.name = "count", .type = REDISMODULE_ARG_TYPE_INTEGER, .key_spec_index = -1},
    {.name = "expiry",
     .type = REDISMODULE_ARG_TYPE_ONEOF,
     .key_spec_index = -1,
     .flags = REDISMODULE_CMD_ARG_OPTIONAL,
     .subargs = expiry_args},
    {0}};
static RedisModuleCommandArg latch_down_args[] = {KEY_ARG,
                                                  {.name = "by",
                                                   .type = REDISMODULE_ARG_TYPE_INTEGER,
                                                   .key_spec_index = -1,
                                                   .flags = REDISMODULE_CMD_ARG_OPTIONAL},
                                                  {0}};
static RedisModuleCommandArg latch_wait_args[] = {
    KEY_ARG, NUMBER_OPTION("BLOCK", "milliseconds"), {0}};
static RedisModuleCommandArg key_args[] = {KEY_ARG, {0}};
static RedisModuleCommandArg top_args[] = {NUMBER_OPTION("COUNT", "count"),
                                           {.name = "reset",
                                            .type = REDISMODULE_ARG_TYPE_PURE_TOKEN,
                                            .key_spec_index = -1,
                                            .token = "RESET",
                                            .flags = REDISMODULE_CMD_ARG_OPTIONAL},
                                           {0}};
static RedisModuleCommandArg info_args[] = {KEY_ARG, NUMBER_OPTION("COUNT", "count"), {0}};

/* The first argument, and nothing else, is a key. */
#define FIRST_ARG_IS_KEY(key_flags)                       \
    {                                                     \
        {.flags = (key_flags),                            \
         .begin_search_type = REDISMODULE_KSPEC_BS_INDEX, \
         .bs.index.pos = 1,                               \
         .find_keys_type = REDISMODULE_KSPEC_FK_RANGE,    \
         .fk.range = {0, 1, 0}},                          \
            {0},                                          \
    }

/* The first argument is the number of keys that follow. Clients that do not use this spec, but the
 * range that COMMAND INFO computes from all range specs, route by the second spec: it is not an
 * additional key (for ACL and COMMAND GETKEYS), but only shows where the first one is. */
#define FIRST_ARG_IS_NUMKEYS(key_flags)                                     \
    {                                                                       \
        {.flags = (key_flags),                                              \
         .begin_search_type = REDISMODULE_KSPEC_BS_INDEX,                   \
         .bs.index.pos = 1,                                                 \
         .find_keys_type = REDISMODULE_KSPEC_FK_KEYNUM,                     \
         .fk.keynum = {0, 1, 1}},                                           \
            {.flags = REDISMODULE_CMD_KEY_RO | REDISMODULE_CMD_KEY_NOT_KEY, \
             .begin_search_type = REDISMODULE_KSPEC_BS_INDEX,               \
             .bs.index.pos = 2,                                             \
             .find_keys_type = REDISMODULE_KSPEC_FK_RANGE,                  \
             .fk.range = {0, 1, 0}},                                        \
            {0},                                                            \
    }

static RedisModuleCommandKeySpec acquires_keys[] = FIRST_ARG_IS_NUMKEYS(
    REDISMODULE_CMD_KEY_RW | REDISMODULE_CMD_KEY_ACCESS | REDISMODULE_CMD_KEY_UPDATE);
static RedisModuleCommandKeySpec frees_keys[] = FIRST_ARG_IS_NUMKEYS(
    REDISMODULE_CMD_KEY_RW | REDISMODULE_CMD_KEY_ACCESS | REDISMODULE_CMD_KEY_DELETE);
static RedisModuleCommandKeySpec acquires_key[] = FIRST_ARG_IS_KEY(
    REDISMODULE_CMD_KEY_RW | REDISMODULE_CMD_KEY_ACCESS | REDISMODULE_CMD_KEY_UPDATE);
static RedisModuleCommandKeySpec frees_key[] = FIRST_ARG_IS_KEY(
    REDISMODULE_CMD_KEY_RW | REDISMODULE_CMD_KEY_ACCESS | REDISMODULE_CMD_KEY_DELETE);
static RedisModuleCommandKeySpec reads_key[] =
    FIRST_ARG_IS_KEY(REDISMODULE_CMD_KEY_RO | REDISMODULE_CMD_KEY_ACCESS);

#define ACQUIRES "write deny-oom fast blocking"
#define WRITES "write fast"

struct commandRow {
    const char *name;
    RedisModuleCmdFunc handler;
    const char *flags;
    const char *acl_categories; /* for servers that let a module set them */
    int arity;
    const char *complexity;
    const char *summary;
    RedisModuleCommandKeySpec *key_specs;
    RedisModuleCommandArg *args;
};

static const struct commandRow command_rows[] = {
    {"lock.acquire", acquireCommand, ACQUIRES, "write fast blocking", -3, "O(1)",
     "Acquires a lock, or waits for it.", acquires_key, acquire_args},
    {"lock.fair", fairCommand, ACQUIRES, "write fast blocking", -3,
     "O(log N), N being the number of waiters",
     "Acquires a lock, first come first served, or waits for it.", acquires_key, acquire_args},
    {"lock.rwread", readCommand, ACQUIRES, "write fast blocking", -3,
     "O(log N), N being the number of holders",
     "Acquires a read-write lock to read, shared with others, or waits for it.", acquires_key,
     read_args},
    {"lock.rwwrite", writeCommand, ACQUIRES, "write fast blocking", -3,
     "O(log N), N being the number of holders",
     "Acquires a read-write lock to write, exclusively, or waits for it.", acquires_key,
     acquire_args},
    {"lock.semaphore", semaphoreCommand, ACQUIRES, "write fast blocking", -4,
     "O(log N), N being the number of holders; "
     "O(D log N) if it needs the permits of D owners whose leases have expired",
     "Acquires permits of a semaphore, or waits for them, first come first served.", acquires_key,
     semaphore_args},
    {"lock.release", releaseCommand, WRITES, "write fast", -3,
     "O(log N) for each hold released or granted, N being the number of holders and waiters",
     "Releases one hold of a lock, or permits, and hands off what is free to the next waiters.",
     frees_key, release_args},
    {"lock.renew", renewCommand, "write fast blocking", "write fast blocking", -3,
     "O(log N), N being the number of holders", "Gives a held lock a new lease from now.",
     acquires_key, renew_args},
    {"lock.cancel", cancelCommand, WRITES, "write fast", -3,
     "O(log N) for each wait ended or hold granted, N being the number of holders and waiters",
     "Ends an owner's wait for a lock, or releases the hold that the wait has acquired.", frees_key,
     cancel_args},
    {"lock.force", forceCommand, WRITES, "write fast dangerous", 2,
     "O(log N), N being the number of waiters",
     "Frees a lock, whoever holds it, and hands it off to the next waiter.", frees_key, key_args},
    {"lock.macquire", macquireCommand, "write deny-oom blocking", "write slow blocking", -4,
     "O(K*log(N)), K being the number of keys and N the number of waiters",
     "Acquires several locks, all or none, or waits for them.", acquires_keys, macquire_args},
    {"lock.mrelease", mreleaseCommand, "write", "write slow", -4,
     "O(log N) for each hold released or granted, N being the number of holders and waiters",
     "Releases one hold of each of several locks.", frees_keys, mrelease_args},
    {"lock.mrenew", mrenewCommand, "write blocking", "write slow blocking", -4,
     "O(K*log(N)), K being the number of keys and N the number of holders",
     "Gives several held locks a new lease from now, all or none.", acquires_keys, mrenew_args},
    {"lock.guard", guardCommand, "write", "write", -4, "That of the command",
     "Runs a command if the owner holds the lock at that moment.", reads_key, guard_args},
    {"lock.info", infoCommand, "readonly", "read slow", -2,
     "O(H+N), H being the number of holders and N the number of waiters shown",
     "Shows who holds a lock and who waits for it.", reads_key, info_args},
    {"lock.top", topCommand, "admin allow-loading allow-stale", "admin slow dangerous", -1, "O(1)",
     "Shows the locks that clients have waited for the most.", NULL, top_args},
    {"lock.watch", watchCommand, "readonly fast blocking", "read fast blocking", -3,
     "O(log N), N being the number of holders and watches of the lock",
     "Notifies an owner that it has lost a lock, or that another owner waits for it.", reads_key,
     watch_args},
    {"latch.set", latchSetCommand, "write deny-oom fast", "write fast", -3, "O(1)",
     "Sets the number that a latch counts down from.", acquires_key, latch_set_args},
    {"latch.down", latchDownCommand, WRITES, "write fast", -2, "O(1)",
     "Counts a latch down; at 0 it opens for all waiting clients.", frees_key, latch_down_args},
    {"latch.wait", latchWaitCommand, "readonly fast blocking", "read fast blocking", -2, "O(1)",
     "Waits until a latch is open.", reads_key, latch_wait_args},
    {"delay.push", delayPushCommand, "write deny-oom fast", "write fast", 5,
     "O(log N), N being the number of pending elements",
     "Schedules a value that the server pushes to a list after a delay.", acquires_key,
     delay_push_args},
    {"delay.cancel", delayCancelCommand, WRITES, "write fast", -3,
     "O(log N) for each id, N being the number of pending elements",
     "Removes pending elements of a delayed queue.", frees_key, delay_cancel_args},
    {"delay.list", delayListCommand, "readonly", "read slow", -2,
     "O(log N + C), N being the number of pending elements and C of those shown",
     "Shows the pending elements of a delayed queue.", reads_key, delay_list_args},
};

static int registerRow(RedisModuleCtx *ctx, const struct commandRow *row) {
    /* A command with numkeys has no fixed range: its key spec describes the keys. */
    bool in_range = row->key_specs && row->key_specs->find_keys_type == REDISMODULE_KSPEC_FK_RANGE;
    if (RedisModule_CreateCommand(ctx, row->name, row->handler, row->flags, in_range, in_range,
                                  in_range) != REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    RedisModuleCommand *command = RedisModule_GetCommand(ctx, row->name);
    const RedisModuleCommandInfo info = {
        .version = REDISMODULE_COMMAND_INFO_VERSION,
        .summary = row->summary,
        .complexity = row->complexity,
        .since = SINCE,
        .arity = row->arity,
        .key_specs = row->key_specs,
        .args = row->args,
    };
    if (RedisModule_SetCommandInfo(command, &info) != REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    if (RedisModule_SetCommandACLCategories) {
        return RedisModule_SetCommandACLCategories(command, row->acl_categories);
    }
    return REDISMODULE_OK;
}

int commandsRegister(RedisModuleCtx *ctx) {
    for (size_t i = 0; i < sizeof(command_rows) / sizeof(command_rows[0]); i++) {
        if (registerRow(ctx, &command_rows[i]) != REDISMODULE_OK) {
            return REDISMODULE_ERR;
        }
    }
    return REDISMODULE_OK;
}
