/* The command table, and the handlers in it: one for each command. */
#ifndef LOCK_COMMANDS_H
#define LOCK_COMMANDS_H

#include "redismodule.h"

/* Registers all commands, with flags, key specs and documentation. Returns REDISMODULE_OK or
 * REDISMODULE_ERR. */
int commandsRegister(RedisModuleCtx *ctx);

/* Registers the section of `INFO lock`, which cmd_info.c writes. Returns REDISMODULE_OK or
 * REDISMODULE_ERR. */
int infoRegister(RedisModuleCtx *ctx);

/* cmd_lock.c */
int acquireCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int fairCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int readCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int writeCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int macquireCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int semaphoreCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int renewCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int releaseCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int mreleaseCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int mrenewCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int forceCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int cancelCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* cmd_delay.c */
int delayPushCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int delayCancelCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int delayListCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* cmd_latch.c */
int latchSetCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int latchDownCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int latchWaitCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* cmd_watch.c */
int watchCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* cmd_guard.c */
int guardCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* cmd_top.c */
int topCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* cmd_info.c */
int infoCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

#endif
