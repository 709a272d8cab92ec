"""Making a server that a test has used as good as new, and finding what the test left behind."""

from .waiting import wait_for

# How many waiters the module has now, in INFO lock.
WAITERS_FIELD = "lock_waiters"


class Baseline:
    """A fresh server's configuration, to go back to after each test."""

    def __init__(self, server):
        self.server, self.pid = server, server.pid
        self._config = server.control.config_get("*")

    def restore(self):
        """Cleans up after a test; raises AssertionError when something is not as it must be."""
        server = self.server
        assert server.is_running() and server.pid == self.pid, f"{server} is not the one it was"
        server.control.execute_command("CLIENT", "UNPAUSE")
        if server.info("replication")["role"] != "master":
            server.control.execute_command("REPLICAOF", "NO", "ONE")
        server.disconnect_clients()
        server.control.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        self._nobody_waits()
        self._flush()
        self._restore_config()
        problems = server.problems()
        assert not problems, "\n".join(problems)

    def _nobody_waits(self):
        # The clients are gone: their waits must be too, in the server's books and the module's.
        def none_left():
            blocked = self.server.blocked_clients()
            assert blocked == 0, f"{blocked} clients are still blocked"
            waiting = self.server.info("lock")[WAITERS_FIELD]
            assert waiting == 0, f"the module still has {waiting} waiters"
            return True

        wait_for(none_left, what="all waits to end with their clients")

    def _flush(self):
        control = self.server.control
        control.flushall()
        control.script_flush()
        control.function_flush()
        for user in control.acl_users():
            if user != "default":
                control.acl_deluser(user)
        self.server.settle()
        assert control.info("keyspace") == {}, "keys appeared after FLUSHALL"

    def _restore_config(self):
        for name, value in self.server.control.config_get("*").items():
            if self._config.get(name) != value:
                self.server.control.config_set(name, self._config[name])
