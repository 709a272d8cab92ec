"""Resets a server that a test has used to its initial state, and finds what the test left behind."""

from .connect import raw_reply
from .waiting import wait_for

# The fields of INFO lock that count the clients that wait in the module's commands.
WAITERS_FIELDS = "lock_waiters", "lock_watchers", "lock_latch_waiters", "lock_awaiting_replicas"


class Baseline:
    """The configuration of a new server, which is restored after each test."""

    def __init__(self, server):
        self.server, self.pid = server, server.pid
        self._config = server.control.config_get("*")
        self._config_raw = self._raw_config()

    def restore(self):
        """Cleans up after a test; raises AssertionError if a check fails.

        This runs after each of thousands of tests: commands that do not depend on a reply are sent in one packet.
        """
        server = self.server
        assert server.is_running() and server.pid == self.pid, f"{server} has ended or was restarted"
        _, (role, *_) = self._send("CLIENT UNPAUSE", "ROLE")
        if role != "master":
            server.control.execute_command("REPLICAOF", "NO", "ONE")
        server.disconnect_clients()
        server.control.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        self._no_client_waits()
        self._flush()
        self._restore_config()
        problems = server.problems()
        assert not problems, "\n".join(problems)

    def _send(self, *commands):
        pipeline = self.server.control.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command.split())
        return pipeline.execute()

    def _no_client_waits(self):
        # The clients are gone: their waits must be too, in the statistics of the server and of the module.
        def none_left():
            clients, lock = self._send("INFO clients", "INFO lock")
            blocked = clients["blocked_clients"]
            assert blocked == 0, f"{blocked} clients are still blocked"
            for field in WAITERS_FIELDS:
                assert lock[field] == 0, f"the module still has {field} {lock[field]}"
            return True

        wait_for(none_left, what="all waits to end with their clients")

    def _flush(self):
        *_, users = self._send("FLUSHALL", "SCRIPT FLUSH", "FUNCTION FLUSH", "ACL USERS")
        for user in users:
            if user != "default":
                self.server.control.acl_deluser(user)
        # Kept positions are removed in time slices, and until then a new waiter queues behind them.
        wait_for(lambda: self.server.info("lock")["lock_contended_locks"] == 0, what="all positions to be removed")
        self.server.settle()
        assert self.server.control.info("keyspace") == {}, "keys appeared after FLUSHALL"

    def _raw_config(self):
        return raw_reply(self.server.control, "CONFIG", "GET", "*")

    def _restore_config(self):
        if self._raw_config() == self._config_raw:
            return  # as after most tests; parsing hundreds of options takes longer than most tests do
        now = self.server.control.config_get("*")
        changed = {name: self._config[name] for name, value in now.items() if self._config.get(name) != value}
        if changed:  # all at once: an option may be refused while another still has its changed value
            self.server.control.config_set(*(word for pair in changed.items() for word in pair))
