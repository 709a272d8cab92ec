"""Making a server that a test has used as good as new, and finding what the test left behind."""

from .connect import said_raw
from .waiting import wait_for

# How many clients wait for the module's commands now, in INFO lock.
WAITERS_FIELDS = "lock_waiters", "lock_watchers", "lock_latch_waiters", "lock_awaiting_replicas"


class Baseline:
    """A fresh server's configuration, to go back to after each test."""

    def __init__(self, server):
        self.server, self.pid = server, server.pid
        self._config = server.control.config_get("*")
        self._config_raw = self._raw_config()

    def restore(self):
        """Cleans up after a test; raises AssertionError when something is not as it must be.

        It is done after each of thousands of tests: what does not depend on an answer is said in one packet.
        """
        server = self.server
        assert server.is_running() and server.pid == self.pid, f"{server} is not the one it was"
        _, (role, *_) = self._say("CLIENT UNPAUSE", "ROLE")
        if role != "master":
            server.control.execute_command("REPLICAOF", "NO", "ONE")
        server.disconnect_clients()
        server.control.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        self._nobody_waits()
        self._flush()
        self._restore_config()
        problems = server.problems()
        assert not problems, "\n".join(problems)

    def _say(self, *commands):
        pipeline = self.server.control.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command.split())
        return pipeline.execute()

    def _nobody_waits(self):
        # The clients are gone: their waits must be too, in the server's books and the module's.
        def none_left():
            clients, lock = self._say("INFO clients", "INFO lock")
            blocked = clients["blocked_clients"]
            assert blocked == 0, f"{blocked} clients are still blocked"
            for field in WAITERS_FIELDS:
                assert lock[field] == 0, f"the module still has {field} {lock[field]}"
            return True

        wait_for(none_left, what="all waits to end with their clients")

    def _flush(self):
        *_, users = self._say("FLUSHALL", "SCRIPT FLUSH", "FUNCTION FLUSH", "ACL USERS")
        for user in users:
            if user != "default":
                self.server.control.acl_deluser(user)
        # Kept positions go in slices, and until then a newcomer stands behind them.
        wait_for(lambda: self.server.info("lock")["lock_contended_locks"] == 0, what="all positions to be forgotten")
        self.server.settle()
        assert self.server.control.info("keyspace") == {}, "keys appeared after FLUSHALL"

    def _raw_config(self):
        return said_raw(self.server.control, "CONFIG", "GET", "*")

    def _restore_config(self):
        if self._raw_config() == self._config_raw:
            return  # as after most tests; to read hundreds of options takes longer than they do
        now = self.server.control.config_get("*")
        changed = {name: self._config[name] for name, value in now.items() if self._config.get(name) != value}
        if changed:  # at once: one may be refused while another is what it is
            self.server.control.config_set(*(word for pair in changed.items() for word in pair))
