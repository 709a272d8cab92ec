"""MODULE UNLOAD is refused unless it is allowed."""

from model.server_scene import is_loaded

REFUSED = "MODULE UNLOAD is refused: a server may crash when the commands of a module go."


def test_unload_is_refused_and_the_log_explains_what_to_do(server):
    reply = server.actor().attempt("MODULE", "UNLOAD", "lock")
    assert str(reply).startswith("ERR Error unloading module")
    assert is_loaded(server.control)
    line = next(line for line in server.log().splitlines() if REFUSED in line)
    assert " # <lock> " in line  # a warning
    for word in ("next to the old one", "loadmodule", "restart", "replica", "CONFIG SET lock.allow-unload yes"):
        assert word in line


def test_unload_can_be_allowed_at_run_time(make_server):
    server = make_server()
    client = server.control
    client.config_set("lock.allow-unload", "yes")
    client.config_set("lock.allow-unload", "no")
    assert "ERR" in str(server.actor().attempt("MODULE", "UNLOAD", "lock"))
    logged = server.log().count(REFUSED)
    client.config_set("lock.allow-unload", "yes")
    assert client.module_unload("lock")
    assert not is_loaded(client) and server.log().count(REFUSED) == logged


def test_queued_command_works_after_a_refused_unload(server, actor):
    a = actor()
    a.call("MULTI")
    a.call("LOCK.ACQUIRE", "k", "oa")
    assert "ERR" in str(actor().attempt("MODULE", "UNLOAD", "lock"))
    assert a.call("EXEC") == [1]
    assert server.control.hgetall("k") == {"oa": "1"}


def test_shutdown_logs_no_refused_unload(make_server):
    """Valkey 9.1 unloads all modules when it shuts down."""
    server = make_server()
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    server.stop()
    log = server.log().lower()
    assert not any(words in log for words in ("unload is refused", "unload canceled", "failed to unload"))
