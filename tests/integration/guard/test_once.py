"""LOCK.GUARD runs its command once, whatever value of errno the command leaves behind."""

import subprocess
from pathlib import Path

import pytest
from redis.exceptions import ResponseError

from model.guard_scene import guard, hold

TOP = Path(__file__).parents[3]

# A command that may block, that scripts may call, and that leaves in errno the value by which the server reports to a
# module that a command is not allowed in scripts.
MODULE = r"""
#define REDISMODULE_MAIN
#include "redismodule.h"

#include <errno.h>

static int odd(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    RedisModule_FreeCallReply(RedisModule_Call(ctx, "INCR", "!s", argv[1]));
    if (argc > 2) {
        RedisModule_ReplyWithError(ctx, RedisModule_StringPtrLen(argv[2], NULL));
    } else {
        RedisModule_ReplyWithSimpleString(ctx, "OK");
    }
    errno = ESPIPE;
    return REDISMODULE_OK;
}

int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    (void)argv, (void)argc;
    if (RedisModule_Init(ctx, "odd", 1, REDISMODULE_APIVER_1) == REDISMODULE_ERR) return REDISMODULE_ERR;
    return RedisModule_CreateCommand(ctx, "odd.incr", odd, "write blocking", 1, 1, 1);
}
"""


@pytest.fixture(scope="module")
def odd_module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd")
    (folder / "odd.c").write_text(MODULE)
    command = ["cc", "-O1", f"-I{TOP}", "-shared", "-fPIC", "-o", folder / "odd.so", folder / "odd.c"]
    subprocess.run(command, check=True)
    return folder / "odd.so"


@pytest.mark.parametrize("inner", [(), ("ERR something else",), ("ERR command 'x' is not allowed",)])
def test_command_that_leaves_the_errno_of_a_refusal_runs_once(make_server, odd_module, inner):
    server = make_server()
    server.control.module_load(str(odd_module))
    hold(server)
    client = server.client()
    if inner:
        with pytest.raises(ResponseError, match=f"^{inner[0]}$"):
            guard(client, "ODD.INCR", "n", *inner)
    else:
        assert guard(client, "ODD.INCR", "n") == "OK"
    assert client.get("n") == "1"
