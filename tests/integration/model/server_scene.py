"""What servers differ in, and whether the module is loaded."""


def says_nothing_of_its_own(server):
    return server.is_valkey or server.version >= (7, 2)


def is_loaded(client):
    # Not the only one: some servers bring modules of their own.
    return "lock" in [module["name"] for module in client.module_list()]
