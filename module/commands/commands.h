/* The command table: every LOCK.* command with its flags, key spec and documentation. */
#ifndef LOCK_COMMANDS_H
#define LOCK_COMMANDS_H

#include "redismodule.h"

/* Registers them all. Returns REDISMODULE_OK or REDISMODULE_ERR. */
int commandsRegister(RedisModuleCtx *ctx);

#endif
