"""Independent servers, and how to make them fail."""

import os
import signal

from harness import scaled, wait_for
from harness.proxy import Proxy
from harness.schedule import as_map

KEY = "lock"


class SlowProxy(Proxy):
    """A proxy that can delay or hold back replies, but not requests; or forget its connections."""

    reply_delay = 0.0  # s
    keeps_replies = False
    replies = 0  # that were forwarded
    unanswered = None  # the next request that contains this gets no reply: its connection is cut

    def __init__(self, port):
        self._forgotten = frozenset()
        super().__init__(port)

    def forget(self):
        """Forwards nothing more on the existing connections, and closes none of them. New connections work."""
        self._forgotten = frozenset(self._links)

    def wait_open(self, link):
        return link in self._forgotten and self._ends.wait() or super().wait_open(link)

    def send(self, link, sink, raw, way, cut):
        if way == "request" and self.unanswered and self.unanswered in raw:
            self.unanswered = None
            self.cut(reply=0)
        if way == "reply":
            self._ends.wait(self.reply_delay)
            while self.keeps_replies and not self._ends.is_set():
                self._ends.wait(0.002)
        super().send(link, sink, raw, way, cut)
        self.replies += way == "reply"


class Ring:
    """Servers with numbers from 0 on. Clients connect through the proxies if there are any."""

    def __init__(self, make, count, proxied, config):
        self._stopped = set()
        self.servers = [make(**config) for _ in range(count)]
        self.proxies = [SlowProxy(server.port) for server in self.servers] if proxied else []

    def ports(self):
        return [place.port for place in self.proxies or self.servers]

    def urls(self, direct=False):
        places = self.servers if direct or not self.proxies else self.proxies
        return [f"redis://127.0.0.1:{place.port}" for place in places]

    # Failures of a server

    def kill(self, *numbers):
        for number in numbers:
            self.servers[number].kill()

    def start(self, *numbers):
        """Starts servers again, without data."""
        for number in numbers:
            server = self.servers[number]
            server.start()
            if self.proxies:
                self.proxies[number].target = server.port

    def stop(self, *numbers):
        """Sends SIGSTOP: the server does nothing, and its connections stay open."""
        for number in numbers:
            os.kill(self.servers[number].pid, signal.SIGSTOP)
            self._stopped.add(number)

    def go_on(self, *numbers):
        for number in numbers:
            os.kill(self.servers[number].pid, signal.SIGCONT)
            self._stopped.discard(number)

    def cut(self, *numbers):
        """Cuts off a server that runs: it neither receives nor sends anything. No connection closes."""
        for number in numbers:
            self.proxies[number].swallow()

    def heal(self, *numbers, late=False):
        """Ends the cut. Connections that have lost data close; or, with `late`, the swallowed data arrives now."""
        for number in numbers:
            self.proxies[number].heal(late=late)

    def forget(self, *numbers):
        """Makes the proxies forget their connections, as a router does that restarts; new connections work."""
        for number in numbers:
            self.proxies[number].forget()

    def slow(self, seconds, *numbers):
        for number in numbers:
            self.proxies[number].reply_delay = seconds

    def keep_replies(self, keeps):
        """Holds back the replies of all servers, or stops doing so."""
        for proxy in self.proxies:
            proxy.keeps_replies = keeps

    def wait_replies(self, more=1):
        """Waits until `more` further replies of each server were forwarded."""
        before = [proxy.replies for proxy in self.proxies]
        for proxy, count in zip(self.proxies, before, strict=True):
            wait_for(lambda proxy=proxy, count=count: proxy.replies >= count + more, 10, "replies to arrive")

    # The state of a server, requested at its own port

    def holders(self, number, key=KEY):
        """{owner: its fields in LOCK.INFO}"""
        info = as_map(self.servers[number].control.execute_command("LOCK.INFO", key) or {})
        return {holder["owner"]: holder for holder in map(as_map, info.get("holders", []))}

    def token(self, number, key=KEY):
        return as_map(self.servers[number].control.execute_command("LOCK.INFO", key))["token"]

    def is_free(self, number, key=KEY):
        return not self.holders(number, key)

    def wait_free(self, *numbers, timeout=5.0):
        for number in numbers:
            wait_for(lambda number=number: self.is_free(number), timeout, f"server {number} to have no holder left")

    def wait_held(self, owner, *numbers, timeout=5.0):
        for number in numbers:
            wait_for(lambda number=number: owner in self.holders(number), timeout, f"server {number} to grant")

    def ends_ms(self, number, key=KEY):
        """When the lease expires on that server, in unix ms."""
        return self.servers[number].control.execute_command("PEXPIRETIME", key)

    def calls(self, number, command):
        """How often a server has executed the command so far."""
        stats = self.servers[number].control.info("commandstats")
        return stats.get(f"cmdstat_{command}", {}).get("calls", 0)

    def take(self, owner, lease_ms, *numbers, key=KEY):
        """Acquires the lock directly on these servers, for another client."""
        for number in numbers:
            assert self.servers[number].control.execute_command("LOCK.ACQUIRE", key, owner, "PX", lease_ms) == 1

    def give(self, owner, *numbers, key=KEY):
        for number in numbers:
            assert self.servers[number].control.execute_command("LOCK.RELEASE", key, owner) == 0

    def let_pass(self, ms, number):
        """Lets this much of a server's time pass, to show that something does not happen meanwhile."""
        self.servers[number].let_pass(ms)

    def end(self):
        self.go_on(*list(self._stopped))
        for proxy in self.proxies:
            proxy.__exit__()


# How a server fails, and how it recovers.

FAILURES = {
    "killed": (Ring.kill, Ring.start),
    "stopped": (Ring.stop, Ring.go_on),
    "cut off": (Ring.cut, Ring.heal),
}


def is_gone(pid):
    """Whether there is no such process, or only its status is left."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def wait_gone(pid, timeout=10.0):
    wait_for(lambda: is_gone(pid), timeout, f"process {pid} to end")


def patient(seconds):
    """The scaled time as text for an option of lockctl."""
    return f"{scaled(seconds):g}"
