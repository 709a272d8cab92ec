"""Independent servers, and what becomes of them."""

import os
import signal

from harness import scaled, wait_for
from harness.proxy import Proxy
from harness.schedule import as_map

KEY = "lock"


class SlowProxy(Proxy):
    """A proxy that can keep back what the server says, and nothing of what it is told; or forget its connections."""

    reply_delay = 0.0  # s
    keeps_replies = False
    replies = 0  # that have got through

    def __init__(self, port):
        self._forgotten = frozenset()
        super().__init__(port)

    def forget(self):
        """Nothing more gets through on the connections that there are, and none closes. New ones go."""
        self._forgotten = frozenset(self._links)

    def wait_open(self, link):
        return link in self._forgotten and self._ends.wait() or super().wait_open(link)

    def send(self, sink, raw, way, cut):
        if way == "reply":
            self._ends.wait(self.reply_delay)
            while self.keeps_replies and not self._ends.is_set():
                self._ends.wait(0.002)
        super().send(sink, raw, way, cut)
        self.replies += way == "reply"


class Ring:
    """So many servers. They are named by their number, 0 and on; clients come by the proxies if there are some."""

    def __init__(self, make, count, proxied, config):
        self._stopped = set()
        self.servers = [make(**config) for _ in range(count)]
        self.proxies = [SlowProxy(server.port) for server in self.servers] if proxied else []

    def ports(self):
        return [place.port for place in self.proxies or self.servers]

    def urls(self, direct=False):
        places = self.servers if direct or not self.proxies else self.proxies
        return [f"redis://127.0.0.1:{place.port}" for place in places]

    # What becomes of a server

    def kill(self, *numbers):
        for number in numbers:
            self.servers[number].kill()

    def start(self, *numbers):
        """Again, and empty."""
        for number in numbers:
            server = self.servers[number]
            server.start()
            if self.proxies:
                self.proxies[number].target = server.port

    def stop(self, *numbers):
        """SIGSTOP: it does nothing, and its connections stay open."""
        for number in numbers:
            os.kill(self.servers[number].pid, signal.SIGSTOP)
            self._stopped.add(number)

    def go_on(self, *numbers):
        for number in numbers:
            os.kill(self.servers[number].pid, signal.SIGCONT)
            self._stopped.discard(number)

    def cut(self, *numbers):
        """It lives, and nobody hears it; nor does it hear anybody. No connection closes."""
        for number in numbers:
            self.proxies[number].swallow()

    def heal(self, *numbers, late=False):
        """Connections that have lost something close; or, `late`, what was swallowed arrives now."""
        for number in numbers:
            self.proxies[number].heal(late=late)

    def forget(self, *numbers):
        """Their connections, as a router that has restarted; new ones are no harder to make than ever."""
        for number in numbers:
            self.proxies[number].forget()

    def slow(self, seconds, *numbers):
        for number in numbers:
            self.proxies[number].reply_delay = seconds

    def keep_replies(self, keeps):
        """Of all servers, until told otherwise."""
        for proxy in self.proxies:
            proxy.keeps_replies = keeps

    def wait_replies(self, more=1):
        """So many more of each server have got through."""
        before = [proxy.replies for proxy in self.proxies]
        for proxy, count in zip(self.proxies, before, strict=True):
            wait_for(lambda proxy=proxy, count=count: proxy.replies >= count + more, 10, "replies to arrive")

    # What a server knows, asked at its own port

    def holders(self, number, key=KEY):
        """{owner: what LOCK.INFO says of it}"""
        info = as_map(self.servers[number].control.execute_command("LOCK.INFO", key) or {})
        return {holder["owner"]: holder for holder in map(as_map, info.get("holders", []))}

    def token(self, number, key=KEY):
        return as_map(self.servers[number].control.execute_command("LOCK.INFO", key))["token"]

    def is_free(self, number, key=KEY):
        return not self.holders(number, key)

    def wait_free(self, *numbers, timeout=5.0):
        for number in numbers:
            wait_for(lambda number=number: self.is_free(number), timeout, f"server {number} to have nothing left")

    def wait_held(self, owner, *numbers, timeout=5.0):
        for number in numbers:
            wait_for(lambda number=number: owner in self.holders(number), timeout, f"server {number} to grant")

    def ends_ms(self, number, key=KEY):
        """When the lease is over there, in unix ms."""
        return self.servers[number].control.execute_command("PEXPIRETIME", key)

    def calls(self, number, command):
        """How often a server has done it so far."""
        stats = self.servers[number].control.info("commandstats")
        return stats.get(f"cmdstat_{command}", {}).get("calls", 0)

    def take(self, owner, lease_ms, *numbers, key=KEY):
        """By somebody else, by hand."""
        for number in numbers:
            assert self.servers[number].control.execute_command("LOCK.ACQUIRE", key, owner, "PX", lease_ms) == 1

    def give(self, owner, *numbers, key=KEY):
        for number in numbers:
            assert self.servers[number].control.execute_command("LOCK.RELEASE", key, owner) == 0

    def let_pass(self, ms, number):
        """So much of a server's time, to show that something does not happen meanwhile."""
        self.servers[number].let_pass(ms)

    def end(self):
        self.go_on(*list(self._stopped))
        for proxy in self.proxies:
            proxy.__exit__()


# How a server fails, and how it comes back.

FAILURES = {
    "killed": (Ring.kill, Ring.start),
    "stopped": (Ring.stop, Ring.go_on),
    "cut off": (Ring.cut, Ring.heal),
}


def is_gone(pid):
    """No such process, or only its status is left."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def wait_gone(pid, timeout=10.0):
    wait_for(lambda: is_gone(pid), timeout, f"process {pid} to end")


def patient(seconds):
    """As text for an option of lockctl."""
    return f"{scaled(seconds):g}"
