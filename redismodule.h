/* redismodule.h - the part of the Redis module API that this module uses.
 *
 * Names, values and signatures are the published interface of Redis 7.0, which later Redis and Valkey servers keep;
 * tools/check-header compares every one of them with the official header. The text is this project's own, so that
 * building needs nothing but this folder.
 *
 * What is here, from top to bottom:
 *
 *   1. opaque types and callbacks
 *   2. constants: calls, keys, contexts, notifications, configs, commands
 *   3. how a command is described (RedisModuleCommandInfo)
 *   4. server events and the data that comes with them
 *   5. the functions, one line each, in two lists
 *   6. the pointers to them, and RedisModule_Init, which fills them in
 *
 * To use one more function: add its line to REDISMODULE_API_REQUIRED if Redis 7.0 has it, else to
 * REDISMODULE_API_OPTIONAL, whose pointers may be NULL: test each before the call. Nothing else needs an edit.
 * A name that starts with REDISMODULE_ is the official one, except REDISMODULE_API_..., REDISMODULE_MAIN and the guard.
 *
 * Exactly one source file defines REDISMODULE_MAIN before it includes this header: it gets the pointers' definitions
 * and RedisModule_Init. */

#ifndef REDISMODULE_H
#define REDISMODULE_H

#include <stddef.h>
#include <stdint.h>

/* ============================== 1. Opaque types and callbacks ============================== */

typedef struct RedisModuleCtx RedisModuleCtx;
typedef struct RedisModuleCommand RedisModuleCommand;
typedef struct RedisModuleKey RedisModuleKey;
typedef struct RedisModuleString RedisModuleString;
typedef struct RedisModuleCallReply RedisModuleCallReply;
typedef struct RedisModuleBlockedClient RedisModuleBlockedClient;
typedef struct RedisModuleInfoCtx RedisModuleInfoCtx;
typedef struct RedisModuleServerInfoData RedisModuleServerInfoData;
typedef struct RedisModuleScanCursor RedisModuleScanCursor;

typedef long long mstime_t; /* milliseconds, since 1970 or of a span */
typedef long long ustime_t; /* microseconds; the official header has it since 7.2 */

typedef uint64_t RedisModuleTimerID;

typedef int (*RedisModuleCmdFunc)(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
typedef void (*RedisModuleDisconnectFunc)(RedisModuleCtx *ctx, RedisModuleBlockedClient *bc);
typedef int (*RedisModuleNotificationFunc)(RedisModuleCtx *ctx, int type, const char *event, RedisModuleString *key);
typedef void (*RedisModuleTimerProc)(RedisModuleCtx *ctx, void *data);
typedef void (*RedisModuleEventLoopOneShotFunc)(void *user_data);
typedef void (*RedisModuleInfoFunc)(RedisModuleInfoCtx *ctx, int for_crash_report);
typedef void (*RedisModuleScanKeyCB)(RedisModuleKey *key, RedisModuleString *field, RedisModuleString *value, void *privdata);
typedef long long (*RedisModuleConfigGetNumericFunc)(const char *name, void *privdata);
typedef int (*RedisModuleConfigSetNumericFunc)(const char *name, long long val, void *privdata, RedisModuleString **err);
typedef int (*RedisModuleConfigGetBoolFunc)(const char *name, void *privdata);
typedef int (*RedisModuleConfigSetBoolFunc)(const char *name, int val, void *privdata, RedisModuleString **err);
typedef RedisModuleString *(*RedisModuleConfigGetStringFunc)(const char *name, void *privdata);
typedef int (*RedisModuleConfigSetStringFunc)(const char *name, RedisModuleString *val, void *privdata, RedisModuleString **err);
typedef int (*RedisModuleConfigApplyFunc)(RedisModuleCtx *ctx, void *privdata, RedisModuleString **err);

/* Since 7.2, for AddPostNotificationJob. */
typedef void (*RedisModulePostNotificationJobFunc)(RedisModuleCtx *ctx, void *pd);

/* ============================== 2. Constants ============================== */

/* What most functions return. */
#define REDISMODULE_OK 0
#define REDISMODULE_ERR 1

/* The only version of the API so far: the last argument of RedisModule_Init. */
#define REDISMODULE_APIVER_1 1

/* Levels for Log: strings, not numbers. */
#define REDISMODULE_LOGLEVEL_DEBUG "debug"
#define REDISMODULE_LOGLEVEL_VERBOSE "verbose"
#define REDISMODULE_LOGLEVEL_NOTICE "notice"
#define REDISMODULE_LOGLEVEL_WARNING "warning"

/* What this module tells the server about itself: bits for SetModuleOptions. */
#define REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED (1 << 1) /* closing a key does not abort WATCH: SignalModifiedKey does */
#define REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD (1 << 2)     /* copes with being called while a replica loads aside */

/* Not official, hence another prefix. Valkey 9 refuses CLUSTER MIGRATESLOTS while a module is loaded that has not set
 * this bit; servers before it ignore bits that they do not know. */
#define VALKEY9_OPTION_HANDLE_ATOMIC_SLOT_MIGRATION (1 << 5)

/* ---- Replies ---- */

/* For a reply whose length is set afterwards, with ReplySetArrayLength or ReplySetMapLength. */
#define REDISMODULE_NODE_ID_LEN 40 /* characters of a cluster node id, no zero at the end */
#define REDISMODULE_POSTPONED_LEN -1

/* The error that every command of the server answers when a key holds another type. */
#define REDISMODULE_ERRORMSG_WRONGTYPE "WRONGTYPE Operation against a key holding the wrong kind of value"

/* What CallReplyType returns. */
#define REDISMODULE_REPLY_UNKNOWN -1
#define REDISMODULE_REPLY_STRING 0
#define REDISMODULE_REPLY_ERROR 1
#define REDISMODULE_REPLY_INTEGER 2
#define REDISMODULE_REPLY_ARRAY 3
#define REDISMODULE_REPLY_NULL 4
#define REDISMODULE_REPLY_MAP 5
#define REDISMODULE_REPLY_SET 6
#define REDISMODULE_REPLY_BOOL 7
#define REDISMODULE_REPLY_DOUBLE 8
#define REDISMODULE_REPLY_BIG_NUMBER 9
#define REDISMODULE_REPLY_VERBATIM_STRING 10
#define REDISMODULE_REPLY_ATTRIBUTE 11

/* ---- Keys ---- */

/* Modes for OpenKey. */
#define REDISMODULE_READ (1 << 0)
#define REDISMODULE_WRITE (1 << 1)
#define REDISMODULE_OPEN_KEY_NOTOUCH (1 << 16) /* looking does not count as use for LRU and LFU */

/* What KeyType returns; EMPTY for a NULL key as well. */
#define REDISMODULE_KEYTYPE_EMPTY 0
#define REDISMODULE_KEYTYPE_STRING 1
#define REDISMODULE_KEYTYPE_LIST 2
#define REDISMODULE_KEYTYPE_HASH 3
#define REDISMODULE_KEYTYPE_SET 4
#define REDISMODULE_KEYTYPE_ZSET 5
#define REDISMODULE_KEYTYPE_MODULE 6
#define REDISMODULE_KEYTYPE_STREAM 7

/* A key without a time to live: returned by GetExpire and GetAbsExpire, understood by SetAbsExpire. */
#define REDISMODULE_NO_EXPIRE -1

/* Flags for HashGet and HashSet, and the value that makes HashSet delete the field. */
#define REDISMODULE_HASH_NONE 0
#define REDISMODULE_HASH_NX (1 << 0)
#define REDISMODULE_HASH_XX (1 << 1)
#define REDISMODULE_HASH_CFIELDS (1 << 2)   /* field names come as const char * instead of RedisModuleString * */
#define REDISMODULE_HASH_EXISTS (1 << 3)    /* HashGet: ask for int *, is it there */
#define REDISMODULE_HASH_COUNT_ALL (1 << 4) /* HashSet: the result counts new fields too, not only changed ones */
#define REDISMODULE_HASH_DELETE ((RedisModuleString *)(uintptr_t)1)

/* Flags for ZsetAdd. It takes XX to LT in *flagsptr, and leaves ADDED, UPDATED or NOP there. */
#define REDISMODULE_ZADD_XX (1 << 0)
#define REDISMODULE_ZADD_NX (1 << 1)
#define REDISMODULE_ZADD_ADDED (1 << 2)
#define REDISMODULE_ZADD_UPDATED (1 << 3)
#define REDISMODULE_ZADD_NOP (1 << 4)
#define REDISMODULE_ZADD_GT (1 << 5)
#define REDISMODULE_ZADD_LT (1 << 6)

/* The open ends of a score range. */
#define REDISMODULE_POSITIVE_INFINITE (1.0 / 0.0)
#define REDISMODULE_NEGATIVE_INFINITE (-1.0 / 0.0)

/* ---- What GetContextFlags tells ---- */

#define REDISMODULE_CTX_FLAGS_LUA (1 << 0)        /* called from a script or function */
#define REDISMODULE_CTX_FLAGS_MULTI (1 << 1)      /* inside MULTI/EXEC */
#define REDISMODULE_CTX_FLAGS_MASTER (1 << 2)
#define REDISMODULE_CTX_FLAGS_SLAVE (1 << 3)
#define REDISMODULE_CTX_FLAGS_READONLY (1 << 4)
#define REDISMODULE_CTX_FLAGS_CLUSTER (1 << 5)    /* cluster mode is on */
#define REDISMODULE_CTX_FLAGS_AOF (1 << 6)
#define REDISMODULE_CTX_FLAGS_RDB (1 << 7)
#define REDISMODULE_CTX_FLAGS_MAXMEMORY (1 << 8)  /* a limit is set */
#define REDISMODULE_CTX_FLAGS_EVICT (1 << 9)      /* and the policy may delete keys */
#define REDISMODULE_CTX_FLAGS_OOM (1 << 10)       /* above the limit */
#define REDISMODULE_CTX_FLAGS_OOM_WARNING (1 << 11)
#define REDISMODULE_CTX_FLAGS_REPLICATED (1 << 12) /* the command came from this replica's master */
#define REDISMODULE_CTX_FLAGS_LOADING (1 << 13)
#define REDISMODULE_CTX_FLAGS_REPLICA_IS_STALE (1 << 14)
#define REDISMODULE_CTX_FLAGS_REPLICA_IS_CONNECTING (1 << 15)
#define REDISMODULE_CTX_FLAGS_REPLICA_IS_TRANSFERRING (1 << 16)
#define REDISMODULE_CTX_FLAGS_REPLICA_IS_ONLINE (1 << 17)
#define REDISMODULE_CTX_FLAGS_ACTIVE_CHILD (1 << 18) /* a child process saves or rewrites */
#define REDISMODULE_CTX_FLAGS_MULTI_DIRTY (1 << 19)  /* the next EXEC will fail: a watched key changed */
#define REDISMODULE_CTX_FLAGS_IS_CHILD (1 << 20)     /* this process is such a child */
#define REDISMODULE_CTX_FLAGS_DENY_BLOCKING (1 << 21) /* BlockClient would answer an error and leak */
#define REDISMODULE_CTX_FLAGS_RESP3 (1 << 22)
#define REDISMODULE_CTX_FLAGS_ASYNC_LOADING (1 << 23)

/* ---- Keyspace notifications: classes for SubscribeToKeyspaceEvents and NotifyKeyspaceEvent ---- */

#define REDISMODULE_NOTIFY_KEYSPACE (1 << 0)
#define REDISMODULE_NOTIFY_KEYEVENT (1 << 1)
#define REDISMODULE_NOTIFY_GENERIC (1 << 2)   /* del, expire, rename_from, rename_to, ... */
#define REDISMODULE_NOTIFY_STRING (1 << 3)
#define REDISMODULE_NOTIFY_LIST (1 << 4)
#define REDISMODULE_NOTIFY_SET (1 << 5)
#define REDISMODULE_NOTIFY_HASH (1 << 6)
#define REDISMODULE_NOTIFY_ZSET (1 << 7)
#define REDISMODULE_NOTIFY_EXPIRED (1 << 8)
#define REDISMODULE_NOTIFY_EVICTED (1 << 9)
#define REDISMODULE_NOTIFY_STREAM (1 << 10)
#define REDISMODULE_NOTIFY_KEY_MISS (1 << 11)
#define REDISMODULE_NOTIFY_LOADED (1 << 12)   /* one for each key read from a snapshot */
#define REDISMODULE_NOTIFY_MODULE (1 << 13)   /* what modules announce themselves */
#define REDISMODULE_NOTIFY_NEW (1 << 14)

/* ---- Configs: flags for RegisterNumericConfig, RegisterBoolConfig, RegisterStringConfig ---- */

#define REDISMODULE_CONFIG_DEFAULT 0
#define REDISMODULE_CONFIG_IMMUTABLE (1ULL << 0)    /* only in the configuration file or at load */
#define REDISMODULE_CONFIG_SENSITIVE (1ULL << 1)    /* its value is kept out of logs */
#define REDISMODULE_CONFIG_HIDDEN (1ULL << 4)       /* CONFIG GET with a pattern passes over it */
#define REDISMODULE_CONFIG_PROTECTED (1ULL << 5)    /* needs enable-protected-configs */
#define REDISMODULE_CONFIG_DENY_LOADING (1ULL << 6) /* no change while loading */
#define REDISMODULE_CONFIG_MEMORY (1ULL << 7)       /* takes units: 1mb */

/* ============================== 3. How a command is described ============================== */

/* These structures go from the module to the server, and have grown since 7.0. SetCommandInfo receives their sizes
 * (RedisModule_CurrentCommandInfoVersion), so a newer server reads the ones of 7.0 as well. Arrays of them end with
 * an element that is all zero. */

typedef enum {
    REDISMODULE_ARG_TYPE_STRING,
    REDISMODULE_ARG_TYPE_INTEGER,
    REDISMODULE_ARG_TYPE_DOUBLE,
    REDISMODULE_ARG_TYPE_KEY,
    REDISMODULE_ARG_TYPE_PATTERN,
    REDISMODULE_ARG_TYPE_UNIX_TIME,
    REDISMODULE_ARG_TYPE_PURE_TOKEN, /* a word that stands for itself, with nothing behind it */
    REDISMODULE_ARG_TYPE_ONEOF,      /* one of subargs */
    REDISMODULE_ARG_TYPE_BLOCK       /* all of subargs, in this order */
} RedisModuleCommandArgType;

/* Flags of an argument. */
#define REDISMODULE_CMD_ARG_NONE (0)
#define REDISMODULE_CMD_ARG_OPTIONAL (1 << 0)
#define REDISMODULE_CMD_ARG_MULTIPLE (1 << 1)
#define REDISMODULE_CMD_ARG_MULTIPLE_TOKEN (1 << 2) /* repeated together with its token */

/* Where a key spec starts to look. */
typedef enum {
    REDISMODULE_KSPEC_BS_INVALID = 0, /* the end of the array */
    REDISMODULE_KSPEC_BS_UNKNOWN,
    REDISMODULE_KSPEC_BS_INDEX,
    REDISMODULE_KSPEC_BS_KEYWORD
} RedisModuleKeySpecBeginSearchType;

/* How it goes on from there. OMITTED means: that one argument. */
typedef enum {
    REDISMODULE_KSPEC_FK_OMITTED = 0,
    REDISMODULE_KSPEC_FK_UNKNOWN,
    REDISMODULE_KSPEC_FK_RANGE,
    REDISMODULE_KSPEC_FK_KEYNUM
} RedisModuleKeySpecFindKeysType;

/* Flags of a key spec. Exactly one of RO, RW, OW, RM says what happens to the key; of ACCESS to DELETE any number
 * says what happens to the user's data in it. */
#define REDISMODULE_CMD_KEY_RO (1ULL << 0)
#define REDISMODULE_CMD_KEY_RW (1ULL << 1)
#define REDISMODULE_CMD_KEY_OW (1ULL << 2)
#define REDISMODULE_CMD_KEY_RM (1ULL << 3)
#define REDISMODULE_CMD_KEY_ACCESS (1ULL << 4)
#define REDISMODULE_CMD_KEY_UPDATE (1ULL << 5)
#define REDISMODULE_CMD_KEY_INSERT (1ULL << 6)
#define REDISMODULE_CMD_KEY_DELETE (1ULL << 7)
#define REDISMODULE_CMD_KEY_NOT_KEY (1ULL << 8)
#define REDISMODULE_CMD_KEY_INCOMPLETE (1ULL << 9)
#define REDISMODULE_CMD_KEY_VARIABLE_FLAGS (1ULL << 10)

typedef struct RedisModuleCommandArg {
    const char *name;
    RedisModuleCommandArgType type;
    int key_spec_index; /* of a KEY: its place in key_specs; of all others -1 */
    const char *token;
    const char *summary;
    const char *since;
    int flags; /* REDISMODULE_CMD_ARG_... */
    const char *deprecated_since;
    struct RedisModuleCommandArg *subargs;
#ifndef REDISMODULE_API_OF_7_0  /* defined by tools/check-header only */
    const char *display_text; /* since 7.2, which reads it whatever sizeof_arg says; 7.0 passes over it */
#endif
} RedisModuleCommandArg;

typedef struct {
    const char *since;
    const char *changes;
} RedisModuleCommandHistoryEntry;

typedef struct {
    const char *notes;
    uint64_t flags; /* REDISMODULE_CMD_KEY_... */
    RedisModuleKeySpecBeginSearchType begin_search_type;
    union {
        struct {
            int pos; /* this argument, the command's name being 0 */
        } index;
        struct {
            const char *keyword; /* the argument behind this word */
            int startfrom;       /* where to start looking for it; below 0: from the end, backwards */
        } keyword;
    } bs;
    RedisModuleKeySpecFindKeysType find_keys_type;
    union {
        struct {
            int lastkey; /* counted from the first key; below 0: from the end of the line */
            int keystep; /* arguments from one key to the next */
            int limit;   /* with lastkey -1: stop after 1/limit of what is left; 0 and 1: all */
        } range;
        struct {
            int keynumidx; /* where the number of keys stands, counted from where the search began */
            int firstkey;  /* the position of the first key, counted in the same way */
            int keystep;
        } keynum;
    } fk;
} RedisModuleCommandKeySpec;

typedef struct {
    int version;
    size_t sizeof_historyentry;
    size_t sizeof_keyspec;
    size_t sizeof_arg;
} RedisModuleCommandInfoVersion;

static const RedisModuleCommandInfoVersion RedisModule_CurrentCommandInfoVersion = {
    .version = 1,
    .sizeof_historyentry = sizeof(RedisModuleCommandHistoryEntry),
    .sizeof_keyspec = sizeof(RedisModuleCommandKeySpec),
    .sizeof_arg = sizeof(RedisModuleCommandArg),
};

#define REDISMODULE_COMMAND_INFO_VERSION (&RedisModule_CurrentCommandInfoVersion)

typedef struct {
    const RedisModuleCommandInfoVersion *version; /* REDISMODULE_COMMAND_INFO_VERSION */
    const char *summary;
    const char *complexity;
    const char *since; /* the module's version that brought the command */
    RedisModuleCommandHistoryEntry *history;
    const char *tips; /* words for clients and proxies, with spaces between */
    int arity;        /* with the name; -N: N or more */
    RedisModuleCommandKeySpec *key_specs;
    RedisModuleCommandArg *args;
} RedisModuleCommandInfo;

/* ============================== 4. Server events ============================== */

typedef struct RedisModuleEvent {
    uint64_t id;
    uint64_t dataver; /* which version of the data the callback understands */
} RedisModuleEvent;

typedef void (*RedisModuleEventCallback)(RedisModuleCtx *ctx, RedisModuleEvent eid, uint64_t subevent, void *data);

#define REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED 0
#define REDISMODULE_EVENT_PERSISTENCE 1
#define REDISMODULE_EVENT_FLUSHDB 2
#define REDISMODULE_EVENT_LOADING 3
#define REDISMODULE_EVENT_CLIENT_CHANGE 4
#define REDISMODULE_EVENT_SHUTDOWN 5
#define REDISMODULE_EVENT_REPLICA_CHANGE 6
#define REDISMODULE_EVENT_CRON_LOOP 8
#define REDISMODULE_EVENT_SWAPDB 11
#define REDISMODULE_EVENT_FORK_CHILD 13
#define REDISMODULE_EVENT_EVENTLOOP 15
#define REDISMODULE_EVENT_CONFIG 16

/* The values for SubscribeToServerEvent. In the callback, data points to a RedisModuleReplicationInfo, FlushInfo,
 * ClientInfo, SwapDbInfo, CronLoop or ConfigChange for the event of that name; the others have NULL, or what the module does not read. */
static const RedisModuleEvent RedisModuleEvent_ReplicationRoleChanged = {REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, 1};
static const RedisModuleEvent RedisModuleEvent_Persistence = {REDISMODULE_EVENT_PERSISTENCE, 1};
static const RedisModuleEvent RedisModuleEvent_FlushDB = {REDISMODULE_EVENT_FLUSHDB, 1};
static const RedisModuleEvent RedisModuleEvent_Loading = {REDISMODULE_EVENT_LOADING, 1};
static const RedisModuleEvent RedisModuleEvent_ClientChange = {REDISMODULE_EVENT_CLIENT_CHANGE, 1};
static const RedisModuleEvent RedisModuleEvent_Shutdown = {REDISMODULE_EVENT_SHUTDOWN, 1};
static const RedisModuleEvent RedisModuleEvent_ReplicaChange = {REDISMODULE_EVENT_REPLICA_CHANGE, 1};
static const RedisModuleEvent RedisModuleEvent_CronLoop = {REDISMODULE_EVENT_CRON_LOOP, 1};
static const RedisModuleEvent RedisModuleEvent_SwapDB = {REDISMODULE_EVENT_SWAPDB, 1};
static const RedisModuleEvent RedisModuleEvent_ForkChild = {REDISMODULE_EVENT_FORK_CHILD, 1};
static const RedisModuleEvent RedisModuleEvent_EventLoop = {REDISMODULE_EVENT_EVENTLOOP, 1};
static const RedisModuleEvent RedisModuleEvent_Config = {REDISMODULE_EVENT_CONFIG, 1};

/* What the callback gets as subevent. Shutdown and SwapDB have none. */
#define REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER 0 /* really without SUBEVENT in its name */
#define REDISMODULE_EVENT_REPLROLECHANGED_NOW_REPLICA 1

#define REDISMODULE_SUBEVENT_PERSISTENCE_RDB_START 0
#define REDISMODULE_SUBEVENT_PERSISTENCE_AOF_START 1
#define REDISMODULE_SUBEVENT_PERSISTENCE_SYNC_RDB_START 2
#define REDISMODULE_SUBEVENT_PERSISTENCE_ENDED 3
#define REDISMODULE_SUBEVENT_PERSISTENCE_FAILED 4
#define REDISMODULE_SUBEVENT_PERSISTENCE_SYNC_AOF_START 5

#define REDISMODULE_SUBEVENT_FLUSHDB_START 0
#define REDISMODULE_SUBEVENT_FLUSHDB_END 1

#define REDISMODULE_SUBEVENT_LOADING_RDB_START 0
#define REDISMODULE_SUBEVENT_LOADING_AOF_START 1
#define REDISMODULE_SUBEVENT_LOADING_REPL_START 2
#define REDISMODULE_SUBEVENT_LOADING_ENDED 3
#define REDISMODULE_SUBEVENT_LOADING_FAILED 4

#define REDISMODULE_SUBEVENT_CLIENT_CHANGE_CONNECTED 0
#define REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED 1

#define REDISMODULE_SUBEVENT_REPLICA_CHANGE_ONLINE 0
#define REDISMODULE_SUBEVENT_REPLICA_CHANGE_OFFLINE 1

#define REDISMODULE_SUBEVENT_EVENTLOOP_BEFORE_SLEEP 0
#define REDISMODULE_SUBEVENT_EVENTLOOP_AFTER_SLEEP 1

#define REDISMODULE_SUBEVENT_FORK_CHILD_BORN 0
#define REDISMODULE_SUBEVENT_FORK_CHILD_DIED 1

#define REDISMODULE_SUBEVENT_CONFIG_CHANGE 0

/* The data of the events. The server fills version in; only GetClientInfoById wants it set by the caller:
 * RedisModuleClientInfo info = {.version = REDISMODULE_CLIENTINFO_VERSION}; */
#define REDISMODULE_CLIENTINFO_VERSION 1
#define REDISMODULE_REPLICATIONINFO_VERSION 1
#define REDISMODULE_FLUSHINFO_VERSION 1
#define REDISMODULE_CONFIGCHANGE_VERSION 1
#define REDISMODULE_SWAPDBINFO_VERSION 1

#define REDISMODULE_CLIENTINFO_FLAG_SSL (1 << 0)
#define REDISMODULE_CLIENTINFO_FLAG_PUBSUB (1 << 1)
#define REDISMODULE_CLIENTINFO_FLAG_BLOCKED (1 << 2)
#define REDISMODULE_CLIENTINFO_FLAG_TRACKING (1 << 3)
#define REDISMODULE_CLIENTINFO_FLAG_UNIXSOCKET (1 << 4)
#define REDISMODULE_CLIENTINFO_FLAG_MULTI (1 << 5)

typedef struct RedisModuleClientInfo {
    uint64_t version;
    uint64_t flags; /* REDISMODULE_CLIENTINFO_FLAG_... */
    uint64_t id;
    char addr[46];
    uint16_t port;
    uint16_t db; /* the selected one */
} RedisModuleClientInfoV1;

typedef struct RedisModuleReplicationInfo {
    uint64_t version;
    int master; /* 1: this server is now the master */
    char *masterhost;
    int masterport;
    char *replid1;
    char *replid2;
    uint64_t repl1_offset;
    uint64_t repl2_offset;
} RedisModuleReplicationInfoV1;

typedef struct RedisModuleFlushInfo {
    uint64_t version;
    int32_t sync;  /* 0: memory is given back by another thread */
    int32_t dbnum; /* -1: all databases */
} RedisModuleFlushInfoV1;

typedef struct RedisModuleConfigChange {
    uint64_t version;
    uint32_t num_changes;
    const char **config_names; /* num_changes of them */
} RedisModuleConfigChangeV1;

typedef struct RedisModuleSwapDbInfo {
    uint64_t version;
    int32_t dbnum_first;
    int32_t dbnum_second;
} RedisModuleSwapDbInfoV1;

/* Without a version: the newest one that this header knows. */
typedef RedisModuleClientInfoV1 RedisModuleClientInfo;
typedef RedisModuleReplicationInfoV1 RedisModuleReplicationInfo;
typedef struct RedisModuleCronLoopInfo {
    uint64_t version;
    int32_t hz;
} RedisModuleCronLoopV1;

typedef RedisModuleFlushInfoV1 RedisModuleFlushInfo;
typedef RedisModuleCronLoopV1 RedisModuleCronLoop;
typedef RedisModuleConfigChangeV1 RedisModuleConfigChange;
typedef RedisModuleSwapDbInfoV1 RedisModuleSwapDbInfo;

/* ============================== 5. The functions ============================== */

/* A format or an ending NULL that is wrong crashes the server, so let the compiler look at each. */
#define REDISMODULE_API_PRINTF(text, values) __attribute__((format(printf, text, values)))
#define REDISMODULE_API_ENDS_WITH_NULL __attribute__((sentinel))

/* What Redis 7.0 has, and every later server: X(what it returns, its name, its parameters). */
#define REDISMODULE_API_REQUIRED(X) \
    /* The module itself and its commands. */ \
    X(void, SetModuleAttribs, (RedisModuleCtx *ctx, const char *name, int ver, int apiver)) \
    X(int, IsModuleNameBusy, (const char *name)) \
    X(void, SetModuleOptions, (RedisModuleCtx *ctx, int options)) \
    X(int, CreateCommand, (RedisModuleCtx *ctx, const char *name, RedisModuleCmdFunc cmdfunc, const char *strflags, \
                           int firstkey, int lastkey, int keystep)) \
    X(RedisModuleCommand *, GetCommand, (RedisModuleCtx *ctx, const char *name)) \
    X(int, SetCommandInfo, (RedisModuleCommand *command, const RedisModuleCommandInfo *info)) \
    X(int, IsKeysPositionRequest, (RedisModuleCtx *ctx)) \
    X(void, KeyAtPos, (RedisModuleCtx *ctx, int pos)) \
    X(int *, GetCommandKeysWithFlags, (RedisModuleCtx *ctx, RedisModuleString **argv, int argc, int *num_keys, int **out_flags)) \
    X(void, KeyAtPosWithFlags, (RedisModuleCtx *ctx, int pos, int flags)) \
    \
    /* Memory that the server counts as its own. Alloc and Calloc never return NULL: the server gives up instead. */ \
    X(void *, Alloc, (size_t bytes)) \
    X(void *, Calloc, (size_t nmemb, size_t size)) \
    X(void *, Realloc, (void *ptr, size_t bytes)) \
    X(void, Free, (void *ptr)) \
    X(void, AutoMemory, (RedisModuleCtx *ctx)) \
    X(void *, PoolAlloc, (RedisModuleCtx *ctx, size_t bytes)) \
    \
    /* Replies. */ \
    X(int, WrongArity, (RedisModuleCtx *ctx)) \
    X(int, ReplyWithLongLong, (RedisModuleCtx *ctx, long long ll)) \
    X(int, ReplyWithError, (RedisModuleCtx *ctx, const char *err)) \
    X(int, ReplyWithSimpleString, (RedisModuleCtx *ctx, const char *msg)) \
    X(int, ReplyWithNull, (RedisModuleCtx *ctx)) \
    X(int, ReplyWithArray, (RedisModuleCtx *ctx, long len)) \
    X(int, ReplyWithMap, (RedisModuleCtx *ctx, long len)) \
    X(void, ReplySetArrayLength, (RedisModuleCtx *ctx, long len)) \
    X(void, ReplySetMapLength, (RedisModuleCtx *ctx, long len)) \
    X(int, ReplyWithStringBuffer, (RedisModuleCtx *ctx, const char *buf, size_t len)) \
    X(int, ReplyWithString, (RedisModuleCtx *ctx, RedisModuleString *str)) \
    X(int, ReplyWithCString, (RedisModuleCtx *ctx, const char *buf)) \
    X(int, ReplyWithCallReply, (RedisModuleCtx *ctx, RedisModuleCallReply *reply)) \
    \
    /* Strings. ctx may be NULL: then only FreeString frees. */ \
    X(const char *, GetMyClusterID, (void)) \
    X(int, StringAppendBuffer, (RedisModuleCtx *ctx, RedisModuleString *str, const char *buf, size_t len)) \
    X(const char *, StringPtrLen, (const RedisModuleString *str, size_t *len)) \
    X(int, StringToLongLong, (const RedisModuleString *str, long long *ll)) \
    X(int, StringCompare, (RedisModuleString *a, RedisModuleString *b)) \
    X(RedisModuleString *, CreateString, (RedisModuleCtx *ctx, const char *ptr, size_t len)) \
    X(RedisModuleString *, CreateStringFromLongLong, (RedisModuleCtx *ctx, long long ll)) \
    X(RedisModuleString *, CreateStringFromString, (RedisModuleCtx *ctx, const RedisModuleString *str)) \
    X(RedisModuleString *, CreateStringPrintf, (RedisModuleCtx *ctx, const char *fmt, ...) REDISMODULE_API_PRINTF(2, 3)) \
    X(void, FreeString, (RedisModuleCtx *ctx, RedisModuleString *str)) \
    X(void, RetainString, (RedisModuleCtx *ctx, RedisModuleString *str)) \
    X(RedisModuleString *, HoldString, (RedisModuleCtx *ctx, RedisModuleString *str)) \
    \
    /* Keys of any type. OpenKey for reading returns NULL for a key that is not there. */ \
    X(int, GetSelectedDb, (RedisModuleCtx *ctx)) \
    X(int, SelectDb, (RedisModuleCtx *ctx, int newid)) \
    X(int, KeyExists, (RedisModuleCtx *ctx, RedisModuleString *keyname)) \
    X(RedisModuleKey *, OpenKey, (RedisModuleCtx *ctx, RedisModuleString *keyname, int mode)) \
    X(void, CloseKey, (RedisModuleKey *kp)) \
    X(int, KeyType, (RedisModuleKey *kp)) \
    X(size_t, ValueLength, (RedisModuleKey *kp)) \
    X(int, DeleteKey, (RedisModuleKey *key)) \
    X(int, UnlinkKey, (RedisModuleKey *key)) \
    X(mstime_t, GetExpire, (RedisModuleKey *key)) \
    X(mstime_t, GetAbsExpire, (RedisModuleKey *key)) \
    X(int, SetAbsExpire, (RedisModuleKey *key, mstime_t expire)) \
    X(int, StringSet, (RedisModuleKey *key, RedisModuleString *str)) \
    X(char *, StringDMA, (RedisModuleKey *key, size_t *len, int mode)) \
    X(int, SignalModifiedKey, (RedisModuleCtx *ctx, RedisModuleString *keyname)) \
    X(RedisModuleScanCursor *, ScanCursorCreate, (void)) \
    X(void, ScanCursorDestroy, (RedisModuleScanCursor *cursor)) \
    X(unsigned long long, DbSize, (RedisModuleCtx *ctx)) \
    X(int, ScanKey, (RedisModuleKey *key, RedisModuleScanCursor *cursor, RedisModuleScanKeyCB fn, void *privdata)) \
    \
    /* Hashes. */ \
    X(int, HashGet, (RedisModuleKey *key, int flags, ...) REDISMODULE_API_ENDS_WITH_NULL) \
    X(int, HashSet, (RedisModuleKey *key, int flags, ...) REDISMODULE_API_ENDS_WITH_NULL) \
    \
    /* Sorted sets. */ \
    X(int, ZsetAdd, (RedisModuleKey *key, double score, RedisModuleString *ele, int *flagsptr)) \
    X(int, ZsetRem, (RedisModuleKey *key, RedisModuleString *ele, int *deleted)) \
    X(int, ZsetScore, (RedisModuleKey *key, RedisModuleString *ele, double *score)) \
    X(int, ZsetFirstInScoreRange, (RedisModuleKey *key, double min, double max, int minex, int maxex)) \
    X(int, ZsetLastInScoreRange, (RedisModuleKey *key, double min, double max, int minex, int maxex)) \
    X(RedisModuleString *, ZsetRangeCurrentElement, (RedisModuleKey *key, double *score)) \
    X(int, ZsetRangeNext, (RedisModuleKey *key)) \
    X(int, ZsetRangePrev, (RedisModuleKey *key)) \
    X(int, ZsetRangeEndReached, (RedisModuleKey *key)) \
    X(void, ZsetRangeStop, (RedisModuleKey *key)) \
    \
    /* Calling commands, and what replicas and the AOF get. fmt: one letter an argument, not as in printf. */ \
    X(RedisModuleCallReply *, Call, (RedisModuleCtx *ctx, const char *cmdname, const char *fmt, ...)) \
    X(int, CallReplyType, (RedisModuleCallReply *reply)) \
    X(const char *, CallReplyStringPtr, (RedisModuleCallReply *reply, size_t *len)) \
    X(size_t, CallReplyLength, (RedisModuleCallReply *reply)) \
    X(RedisModuleCallReply *, CallReplyArrayElement, (RedisModuleCallReply *reply, size_t idx)) \
    X(long long, CallReplyInteger, (RedisModuleCallReply *reply)) \
    X(const char *, CallReplyProto, (RedisModuleCallReply *reply, size_t *len)) \
    X(RedisModuleString *, CreateStringFromCallReply, (RedisModuleCallReply *reply)) \
    X(void, FreeCallReply, (RedisModuleCallReply *reply)) \
    X(int, ReplicateVerbatim, (RedisModuleCtx *ctx)) \
    X(int, Replicate, (RedisModuleCtx *ctx, const char *cmdname, const char *fmt, ...)) \
    X(int, GetContextFlags, (RedisModuleCtx *ctx)) \
    X(int, AvoidReplicaTraffic, (void)) \
    \
    /* Blocked clients. */ \
    X(RedisModuleBlockedClient *, BlockClient, (RedisModuleCtx *ctx, RedisModuleCmdFunc reply_callback, \
                                                RedisModuleCmdFunc timeout_callback, void (*free_privdata)(RedisModuleCtx *, void *), \
                                                long long timeout_ms)) \
    X(int, UnblockClient, (RedisModuleBlockedClient *bc, void *privdata)) \
    X(int, AbortBlock, (RedisModuleBlockedClient *bc)) \
    X(void, SetDisconnectCallback, (RedisModuleBlockedClient *bc, RedisModuleDisconnectFunc callback)) \
    X(void *, GetBlockedClientPrivateData, (RedisModuleCtx *ctx)) \
    X(RedisModuleBlockedClient *, GetBlockedClientHandle, (RedisModuleCtx *ctx)) \
    X(RedisModuleCtx *, GetThreadSafeContext, (RedisModuleBlockedClient *bc)) \
    X(RedisModuleCtx *, GetDetachedThreadSafeContext, (RedisModuleCtx *ctx)) \
    X(void, FreeThreadSafeContext, (RedisModuleCtx *ctx)) \
    \
    /* Clients. */ \
    X(unsigned long long, GetClientId, (RedisModuleCtx *ctx)) \
    X(int, GetClientInfoById, (void *ci, uint64_t id)) \
    X(RedisModuleString *, GetClientUserNameById, (RedisModuleCtx *ctx, uint64_t id)) \
    X(RedisModuleString *, GetCurrentUserName, (RedisModuleCtx *ctx)) \
    \
    /* Time. Milliseconds is the wall clock. */ \
    X(long long, Milliseconds, (void)) \
    X(uint64_t, MonotonicMicroseconds, (void)) \
    X(RedisModuleTimerID, CreateTimer, (RedisModuleCtx *ctx, mstime_t period, RedisModuleTimerProc callback, void *data)) \
    X(int, StopTimer, (RedisModuleCtx *ctx, RedisModuleTimerID id, void **data)) \
    X(int, GetTimerInfo, (RedisModuleCtx *ctx, RedisModuleTimerID id, uint64_t *remaining, void **data)) \
    X(int, EventLoopAddOneShot, (RedisModuleEventLoopOneShotFunc func, void *user_data)) \
    \
    /* News from the server, and to others. */ \
    X(int, SubscribeToKeyspaceEvents, (RedisModuleCtx *ctx, int types, RedisModuleNotificationFunc cb)) \
    X(int, NotifyKeyspaceEvent, (RedisModuleCtx *ctx, int type, const char *event, RedisModuleString *key)) \
    X(int, SubscribeToServerEvent, (RedisModuleCtx *ctx, RedisModuleEvent event, RedisModuleEventCallback callback)) \
    X(int, PublishMessage, (RedisModuleCtx *ctx, RedisModuleString *channel, RedisModuleString *message)) \
    X(int, PublishMessageShard, (RedisModuleCtx *ctx, RedisModuleString *channel, RedisModuleString *message)) \
    X(void, Log, (RedisModuleCtx *ctx, const char *level, const char *fmt, ...) REDISMODULE_API_PRINTF(3, 4)) \
    X(void, _Assert, (const char *estr, const char *file, int line)) /* called by RedisModule_Assert */ \
    \
    /* Configs. */ \
    X(int, RegisterNumericConfig, (RedisModuleCtx *ctx, const char *name, long long default_val, unsigned int flags, \
                                 long long min, long long max, RedisModuleConfigGetNumericFunc getfn, \
                                 RedisModuleConfigSetNumericFunc setfn, RedisModuleConfigApplyFunc applyfn, void *privdata)) \
    X(int, RegisterBoolConfig, (RedisModuleCtx *ctx, const char *name, int default_val, unsigned int flags, \
                              RedisModuleConfigGetBoolFunc getfn, RedisModuleConfigSetBoolFunc setfn, \
                              RedisModuleConfigApplyFunc applyfn, void *privdata)) \
    X(int, RegisterStringConfig, (RedisModuleCtx *ctx, const char *name, const char *default_val, unsigned int flags, \
                                RedisModuleConfigGetStringFunc getfn, RedisModuleConfigSetStringFunc setfn, \
                                RedisModuleConfigApplyFunc applyfn, void *privdata)) \
    X(int, LoadConfigs, (RedisModuleCtx *ctx)) \
    \
    /* INFO: the module's part of it, and reading the server's. */ \
    X(int, RegisterInfoFunc, (RedisModuleCtx *ctx, RedisModuleInfoFunc cb)) \
    X(int, InfoAddSection, (RedisModuleInfoCtx *ctx, const char *name)) \
    X(int, InfoAddFieldLongLong, (RedisModuleInfoCtx *ctx, const char *field, long long value)) \
    X(int, InfoAddFieldULongLong, (RedisModuleInfoCtx *ctx, const char *field, unsigned long long value)) \
    X(int, InfoAddFieldDouble, (RedisModuleInfoCtx *ctx, const char *field, double value)) \
    X(int, InfoAddFieldCString, (RedisModuleInfoCtx *ctx, const char *field, const char *value)) \
    X(int, GetServerVersion, (void)) \
    X(RedisModuleServerInfoData *, GetServerInfo, (RedisModuleCtx *ctx, const char *section)) \
    X(void, FreeServerInfo, (RedisModuleCtx *ctx, RedisModuleServerInfoData *data)) \
    X(long long, ServerInfoGetFieldSigned, (RedisModuleServerInfoData *data, const char *field, int *out_err)) \
    X(const char *, ServerInfoGetFieldC, (RedisModuleServerInfoData *data, const char *field)) \
    \
    X(void, GetRandomBytes, (unsigned char *dst, size_t len))

/* OPTIONAL: what Redis 7.0 lacks. After RedisModule_Init the pointer is NULL on a server that does not have it. */
#define REDISMODULE_API_OPTIONAL(X) \
    /* Since Redis 7.2. */ \
    X(int, ReplyWithErrorFormat, (RedisModuleCtx *ctx, const char *fmt, ...) REDISMODULE_API_PRINTF(2, 3)) \
    X(ustime_t, CachedMicroseconds, (void)) \
    X(int, SetCommandACLCategories, (RedisModuleCommand *command, const char *ctgrsflags)) \
    X(int, AddPostNotificationJob, (RedisModuleCtx *ctx, RedisModulePostNotificationJobFunc callback, void *pd, void (*free_pd)(void *))) \
    X(void, BlockClientSetPrivateData, (RedisModuleBlockedClient *blocked_client, void *private_data)) \
    X(void *, BlockClientGetPrivateData, (RedisModuleBlockedClient *blocked_client)) \
    \
    /* Since Redis 7.4. */ \
    X(int, AddACLCategory, (RedisModuleCtx *ctx, const char *name)) \
    X(unsigned int, ClusterKeySlot, (RedisModuleString *key)) \
    \
    /* Since Redis 8.0. */ \
    X(mstime_t, HashFieldMinExpire, (RedisModuleKey *key))

/* ============================== 6. The pointers, and RedisModule_Init ============================== */

/* Hidden, or two modules in one server could share a pointer, and each call would go through the global offset table. */
#define REDISMODULE_API_HIDDEN __attribute__((visibility("hidden")))
#define REDISMODULE_API_EXPORTED __attribute__((visibility("default")))

#define REDISMODULE_API_DECLARE(type, name, parameters) extern REDISMODULE_API_HIDDEN type(*RedisModule_##name) parameters;
REDISMODULE_API_REQUIRED(REDISMODULE_API_DECLARE)
REDISMODULE_API_OPTIONAL(REDISMODULE_API_DECLARE)
#undef REDISMODULE_API_DECLARE

/* Gives the server up, with a crash report, if what cannot be is so. What is asked is always evaluated. */
#define RedisModule_Assert(truth) ((truth) ? (void)0 : RedisModule__Assert(#truth, __FILE__, __LINE__))

/* The one name that the server must find in the module. The server checks nothing of it but that it is there. */
REDISMODULE_API_EXPORTED int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

#ifdef REDISMODULE_MAIN

#define REDISMODULE_API_DEFINE(type, name, parameters) type(*RedisModule_##name) parameters;
REDISMODULE_API_REQUIRED(REDISMODULE_API_DEFINE)
REDISMODULE_API_OPTIONAL(REDISMODULE_API_DEFINE)
#undef REDISMODULE_API_DEFINE

/* Fills the pointers in and registers the module under this name. The first thing that RedisModule_OnLoad calls: no
 * other function works before. Returns REDISMODULE_ERR, having registered nothing, if the server lacks a function of
 * REDISMODULE_API_REQUIRED or has a module of this name; RedisModule_OnLoad returns REDISMODULE_ERR then. */
static int RedisModule_Init(RedisModuleCtx *ctx, const char *name, int ver, int apiver) {
    /* A context starts with the address of the function that finds all others. Read as what it is, because ISO C
     * has no conversion from void * to a function's address. It writes through its second argument only when it
     * knows the name. */
    int (*get_api)(const char *function, void *pointer) = *(int (**)(const char *, void *))ctx;

#define REDISMODULE_API_ASK(type, function, parameters) \
    if (get_api("RedisModule_" #function, &RedisModule_##function) != REDISMODULE_OK) return REDISMODULE_ERR;
    REDISMODULE_API_REQUIRED(REDISMODULE_API_ASK)
#undef REDISMODULE_API_ASK

#define REDISMODULE_API_TRY(type, function, parameters) (void)get_api("RedisModule_" #function, &RedisModule_##function);
    REDISMODULE_API_OPTIONAL(REDISMODULE_API_TRY)
#undef REDISMODULE_API_TRY

    if (RedisModule_IsModuleNameBusy(name)) return REDISMODULE_ERR;
    RedisModule_SetModuleAttribs(ctx, name, ver, apiver);
    return REDISMODULE_OK;
}

#endif /* REDISMODULE_MAIN */
#endif /* REDISMODULE_H */
