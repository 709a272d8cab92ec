"""A large number of connections."""

from harness import scaled, wait_for


class Crowd:
    """Connections each of which has sent one command and waits; `ahead` others wait already. The field `field` of INFO
    lock counts those that wait."""

    def __init__(self, server, *commands, ahead=0, field="lock_waiters"):
        self.server, self.field = server, field
        self.sockets = [server.raw_connection() for _ in commands]
        for sock, command in zip(self.sockets, commands, strict=True):
            sock.sendall(command.encode() + b"\r\n")
        self.expect_waiting(ahead + len(commands))

    def expect_waiting(self, count):
        wait_for(lambda: self.server.info("lock")[self.field] == count, 60, f"{count} clients to wait")

    def replies(self):
        for sock in self.sockets:
            sock.settimeout(scaled(30))
        return [sock.recv(100) for sock in self.sockets]

    def die(self):
        for sock in self.sockets:
            sock.close()
