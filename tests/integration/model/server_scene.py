"""Differences between servers, and whether the module is loaded."""


def module_sends_no_commands(server):
    return server.is_valkey or server.version >= (7, 2)


def is_loaded(client):
    # It need not be the only module: some servers have modules of their own.
    return "lock" in [module["name"] for module in client.module_list()]
