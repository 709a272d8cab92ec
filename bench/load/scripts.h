/* The Lua scripts that the module is compared with. */

#ifndef BENCH_LOAD_SCRIPTS_H
#define BENCH_LOAD_SCRIPTS_H

#include <hiredis/hiredis.h>

/* Loads the script of that name into the server and writes its hash for EVALSHA. */
void scriptsLoad(redisContext *connection, const char *name, char *sha, size_t size);

#endif
