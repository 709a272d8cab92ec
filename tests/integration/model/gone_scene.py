"""Connections that close, and what the server keeps for them."""

from harness import wait_for


def kills(*names):
    return (lambda s: [s.server.control.client_kill_filter(_id=s.actor(name).client_id) for name in names],)


def can_unblock(server):
    return server.is_valkey or server.version >= (7, 4)


class GrantScene:
    """oa holds k, ob and oc wait; one packet of several commands grants k to ob and ends the wait of ob."""

    def __init__(self, server):
        self.server = server
        self.a, self.b, self.c = (server.actor(name) for name in "abc")
        self.writer = server.raw_connection()
        assert self.a.call("LOCK.ACQUIRE", "k", "oa") == 1
        for waiter, owner in ((self.b, "ob"), (self.c, "oc")):
            waiter.send("LOCK.ACQUIRE", "k", owner, "PX", 600_000, "BLOCK", 0)
            waiter.wait_blocked()

    def send_at_once(self, *lines):
        ids = {"b": self.b.client_id, "c": self.c.client_id}
        self.writer.sendall("".join(line.format(**ids) + "\r\n" for line in lines).encode())

    def c_holds_at_once(self):
        assert self.c.reply() == 1
        assert self.server.control.hgetall("k") == {"oc": "1"}
        assert self.server.info("lock")["lock_waiters"] == 0


KILL, RELEASE = "CLIENT KILL ID {b}", "LOCK.RELEASE k oa"


def connections(server):
    return server.info("clients")["connected_clients"]


def memory(server):
    return server.info("memory")["used_memory"]


def memory_after_as_many_idle_connections(server, size):
    """Used memory after this number of other connections: the tables that the server keeps have the same size."""
    sockets = [server.raw_connection() for _ in range(size)]
    wait_for(lambda: connections(server) == size + 1, 30)
    for sock in sockets:
        sock.close()
    wait_for(lambda: connections(server) == 1, 30)
    return memory(server)
