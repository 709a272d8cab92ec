/* The command handlers, for the command table. Each stands in the cmd_*.c file of its family, which
 * opens it with its usage line. */
#ifndef LOCK_HANDLERS_H
#define LOCK_HANDLERS_H

#include "redismodule.h"

int acquireCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int fairCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int readCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int writeCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int releaseCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int renewCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int cancelCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int forceCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int macquireCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int mreleaseCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int guardCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int infoCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

#endif
