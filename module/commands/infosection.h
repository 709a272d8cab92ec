/* `INFO lock`. */
#ifndef LOCK_INFOSECTION_H
#define LOCK_INFOSECTION_H

#include "redismodule.h"

/* Returns REDISMODULE_OK or REDISMODULE_ERR. */
int infosectionRegister(RedisModuleCtx *ctx);

#endif
