"""The package's own connections to the servers of a user's client, the same for threads and asyncio: generators that yield
an Open, a Check, an Exchange, an Await or a Pause. There is no mutex: what threads share is changed by atomic operations only."""

import copy
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable, Deque, Dict, Generator, Iterator, List, Optional, Set, Tuple

import redis.exceptions as library

from ._spec import Key, Words, text_of
from ._steps import Connect, Pause, Send, Steps, short
from .errors import Busy, Closed, Refused, code_of, is_connection, is_transient

IDLE = 8  # how many idle connections to a server are kept for later commands
SENTINEL = 0.5  # s: how late a Sentinel's reply may be
FRESH = 30.0  # s: a wait does not use one that was idle for longer: a firewall may have dropped it
SHORT = 32  # how many connections to a server short commands use, or open, at the same time

Place = Optional[Tuple[str, int]]
Operations = Generator[Any, Any, Any]


@dataclass
class Open:
    """Receives a new connection. If it is opened too late, it is kept for later commands."""

    link: "Link"
    place: Place
    until: float
    is_short: bool


@dataclass
class Check:
    """Receives whether the server has not closed the connection."""

    connection: Any


@dataclass
class Exchange:
    """Sends a command, and receives its reply."""

    connection: Any
    words: Words
    until: float


@dataclass
class Await:
    """Waits for an event, and receives whether it has happened."""

    event: Any
    until: float


class Server:
    """The connections to one server."""

    def __init__(self) -> None:
        self.idle: Deque[Tuple[Any, float]] = deque()  # since when
        self.short: Set[Link] = set()  # the short commands that use a connection, or open one
        self.opening: Set[Any] = set()  # the connections that are being opened, also those that nobody waits for any more
        self.waiting: Deque[Any] = deque()  # the events of those that wait for one
        self.checked = 0.0

    def pop(self, link: "Link") -> Any:
        """(an idle connection, since when), or None. The last one is kept for short commands: when the server or the
        program can open no other, a hold can still be renewed and released."""
        try:
            found = self.idle.pop()
        except IndexError:
            return None
        if link.is_short:
            self.short.add(link)
        elif not self.idle and not self.short:
            self.idle.append(found)
            return None
        return found


class Pool:
    """The connections, and where the keys of a cluster are. `source`: the class and the settings of connections;
    `start(steps)` executes steps in the background."""

    disconnect: Callable[[Any], None]
    leave: Callable[[Any, Words], Any]  # sends a last command, whose reply nobody reads, and disconnects
    event: Callable[[], Any]  # creates one
    notify: Callable[[Any], None]
    retry: Any

    def __init__(self, client: Any, source: Tuple[Any, Dict[str, Any]], timeout: float, start: Callable[[Steps], Any]):
        self.has_connected = self.is_closed = False
        self.opened_count = 0
        self.timeout = timeout
        self.asks: Dict[Any, Place] = {}
        self._cluster = client if hasattr(client, "nodes_manager") else None
        self._client, self._start = client, start
        self._class, self.settings = source
        # Of a Sentinel's client: what redis-py itself does has no time limit, and begins with the same Sentinel each time.
        self._managed: Any = self.settings.get("connection_pool")
        self.sentinels: Deque[Any] = deque()
        if self._managed is not None and self._managed.is_master:
            self.sentinels.extend(self._managed.sentinel_manager.sentinels)
        self.master: Place = None
        self._servers: Dict[Place, Server] = {}
        self._slots: List[Tuple[int, int, Place]] = []
        self._nodes: List[Tuple[str, int]] = []
        self._failures, self._is_learning, self._is_introduced = 0, False, False

    def server(self, place: Place) -> Server:
        return self._servers.get(place) or self._servers.setdefault(place, Server())

    @property
    def name(self) -> str:
        """The name of the server in the order of combined locks: that of the client's configuration."""
        if self._cluster is not None:
            return min(f"{node.host}:{node.port}" for node in self._cluster.nodes_manager.startup_nodes.values())
        return str(self._managed.service_name) if self._managed is not None else self.address("")

    @property
    def is_single(self) -> bool:
        """No cluster, and no server that a Sentinel names."""
        return self._cluster is None and self._managed is None

    def slot(self, key: Any) -> int:
        """0 without a cluster."""
        return 0 if self._cluster is None else int(self._cluster.keyslot(key))

    def place(self, key: Any) -> Place:
        """The address of the key's server in a cluster, as far as it is known: a wrong one redirects."""
        if self._cluster is None:
            return None
        slot = self._cluster.keyslot(key)
        for first, last, place in self._slots:
            if first <= slot <= last:
                return place
        manager = self._cluster.nodes_manager
        nodes = manager.slots_cache.get(slot) or list(manager.startup_nodes.values())[self._failures % len(manager.startup_nodes):]
        return nodes[0].host, nodes[0].port

    def address(self, key: Key) -> str:
        """The server of the key, for texts."""
        master, found = self.place(key) or self.master, self.settings
        if master:
            return "%s:%s" % master
        if self._managed is not None:
            return f'the master "{self.name}"'
        return found.get("path") or f"{found.get('host', 'localhost')}:{found.get('port', 6379)}"

    def new(self, place: Place) -> Any:
        settings = {**self.settings, "host": place[0], "port": place[1]} if place else self.settings
        return self._class(**self._limited(settings, self.timeout))

    def _limited(self, settings: Dict[str, Any], limit: float) -> Dict[str, Any]:
        """These settings of connections, with this time limit, and without any repetition."""
        kept = {name: value for name, value in settings.items() if "maint_notifications" not in name}
        own = {"socket_timeout": limit, "socket_connect_timeout": limit, "health_check_interval": 0}
        return {**kept, **own, "retry": self.retry, "retry_on_error": [], "retry_on_timeout": False}

    def lookups(self) -> Iterator[Tuple[Any, Any, str]]:
        """(redis-py's manager of one Sentinel, its connections, the name of the master), until the master was found."""
        tried: List[Any] = []
        while len(tried) < len(self.sentinels):
            client = next(each for each in list(self.sentinels) if each not in tried)
            tried.append(client)
            source = client.connection_pool
            limited = self._limited(source.connection_kwargs, min(SENTINEL, self.timeout))
            pool = type(source)(connection_class=source.connection_class, **limited)
            manager = copy.copy(self._managed.sentinel_manager)
            manager.sentinels = [type(client)(connection_pool=pool)]
            yield manager, pool, self._managed.service_name
            if self.sentinels[0] is client:
                self.sentinels.rotate(-1)  # it is silent, or does not know the present master

    def opened(self, connection: Any) -> Any:
        # redis-py would silently connect again.
        connection._connect = _refuse
        self.has_connected = True
        self.opened_count += 1
        return connection

    def give(self, connection: Any, server: Server) -> None:
        if self.is_closed or len(server.idle) >= IDLE:
            self.disconnect(connection)
            return
        server.idle.append((connection, time.monotonic()))
        if self.is_closed:
            self.close()

    def wake(self, server: Server) -> None:
        """A short command that waits, because a connection or room for one may be free."""
        try:
            self.notify(server.waiting.popleft())
        except IndexError:
            pass

    def close(self) -> None:
        """Closes the idle connections, and every other one when its command has ended; commands are still executed."""
        self.is_closed = True
        for server in list(self._servers.values()):
            self._shrink(server, 0)

    def _shrink(self, server: Server, idle: int) -> None:
        while len(server.idle) > idle:
            try:
                self.disconnect(server.idle.popleft()[0])
            except IndexError:
                return

    def failed(self, link: "Link", error: Exception, took: float) -> None:
        """Records what an error shows about the link's server, and about the cluster."""
        if isinstance(error, library.AskError):
            known: Tuple[Any, ...] = link.place or ("",)
            host, port = self._remapped(error.host or known[0], int(error.port))
            if not isinstance(error, library.MovedError):
                self.asks[link.key] = host, port
                return
            self._slots = [(int(error.slot_id), int(error.slot_id), (host, port)), *self._slots]
        elif isinstance(error, library.ReadOnlyError) or isinstance(error.__context__, library.ReadOnlyError):
            self._shrink(self.server(link.place), 0)  # all are to the old master
        elif link.is_short and is_connection(error) and (took >= 1.0 or not isinstance(error, library.TimeoutError)):
            self._shrink(self.server(link.place), 1)  # they may be dead, too
        self._failures += 1
        self._learn()

    def _remapped(self, host: str, port: int) -> Tuple[str, int]:
        found: Tuple[str, int] = self._cluster.nodes_manager.remap_host_port(host, port) if self._cluster else (host, port)
        return found

    def _learn(self) -> None:
        if self._cluster is not None and not self._is_learning and not self.is_closed:
            self._is_learning = True
            self._start(self._learned())

    def _learned(self) -> Steps:
        """Learns where the slots of the cluster are from the first node that replies."""
        try:
            if self._slots:
                yield Pause(0.05)  # several commands fail at the same time
            nodes = [(node.host, node.port) for node in self._cluster.nodes_manager.startup_nodes.values()]  # type: ignore
            places: Dict[Any, None] = dict.fromkeys([*(place for _, _, place in self._slots), *self._nodes, *nodes])
            for place in places:
                try:
                    with Link(self, None, True, place) as link:
                        reply = yield from link.run(_slots())
                except Exception:
                    continue
                if self._read(reply, place):
                    return
        finally:
            self._is_learning = False

    def _read(self, reply: Any, place: Any) -> bool:
        """The slots from this node's reply. A node that knows none, because it has joined no cluster, is no source."""
        found = [(int(first), int(last), [self._remapped(text_of(node[0] or place[0]), int(node[1])) for node in nodes])
                 for first, last, *nodes in reply]  # fmt: skip
        if found:
            self._slots = [(first, last, nodes[0]) for first, last, nodes in found]
            self._nodes = [node for _, _, nodes in found for node in nodes]
        return bool(found)

    def introduced(self, link: "Link", until: float) -> Operations:
        """Learns where the slots are, before the first command is sent: the client may know only one node, and if this one
        failed, no other could be found any more."""
        if self._cluster is None or self._is_introduced:
            return
        try:
            self._read((yield Exchange(link.connection, ["CLUSTER", "SLOTS"], until)), link.place)
        except library.ResponseError:
            pass  # it is not permitted, and redirections show the other nodes
        self._is_introduced = True

    def taken(self, link: "Link", until: float) -> Operations:
        """A connection to the link's server: an idle one, or a new one. If no other can be opened, a short command waits
        for those of the others."""
        server, error, event, is_woken = self.server(link.place), None, None, False
        try:
            while not link.owner.is_stopped:
                found = server.pop(link)
                if found:
                    is_fresh = link.is_short or time.monotonic() - found[1] < FRESH
                    if is_fresh and (yield Check(found[0])):
                        return found[0]
                    self.disconnect(found[0])
                    continue
                if error is None and (not link.is_short or max(len(server.short - {link}), len(server.opening)) < SHORT):
                    if link.is_short:
                        server.short.add(link)
                    try:
                        return (yield Open(link.owner, link.place, until, link.is_short))
                    except Exception as problem:
                        server.short.discard(link)
                        error = problem
                if error and not (link.is_short and (server.idle or server.short - {link})):
                    raise error
                if event is None:
                    event = self.event()
                    (server.waiting.appendleft if is_woken else server.waiting.append)(event)
                    continue  # what became free before this has woken nobody
                if time.monotonic() >= until:
                    raise error or Busy(f"all connections to {self.address(link.key or '')} are in use")
                link.owner.event = event
                is_woken = yield Await(event, until)
                event = None if is_woken else event
            raise Closed()
        except BaseException:
            self.wake(server)  # if this one was woken, or what it waits for cannot be expected any more
            raise
        finally:
            if event is not None:
                try:
                    server.waiting.remove(event)
                except ValueError:
                    self.wake(server)


def _refuse(*_: Any) -> None:
    raise library.ConnectionError("the connection is closed")


def _slots() -> Steps:
    return (yield short(["CLUSTER", "SLOTS"]))


class Link:
    """Commands that are sent one after the other, on one connection as long as it works. At its end the connection is given
    back. `place`: the server, if it is not that of the key."""

    def __init__(self, pool: Pool, key: Any, is_short: bool = False, place: Place = None, owner: Optional["Link"] = None):
        self.key, self.is_short, self.place, self.owner = key, is_short, place, owner or self
        self.connection: Any = None
        self.opening: Any = None
        self.event: Any = None
        self.is_stopped = False  # another thread has ended it
        self._pool, self._fixed = pool, place
        self._server: Optional[Server] = None

    def __enter__(self) -> "Link":
        return self

    def __exit__(self, _: Any, error: Optional[BaseException], __: Any) -> None:
        if error is None or isinstance(error, Exception):
            self.close()
        else:
            self.drop()  # a reply may still arrive

    def run(self, steps: Steps) -> Operations:
        """Executes steps."""
        result: Any = None
        error: Optional[BaseException] = None
        while True:
            try:
                step = steps.throw(error) if error else steps.send(result)
            except StopIteration as end:
                return end.value
            result = error = None
            try:
                if isinstance(step, Send):
                    result = yield from self._tried(self._sent(step), step.is_cut)
                elif isinstance(step, Connect):
                    yield from self._tried(self._connected(step.until))
                else:
                    if self.is_short and isinstance(step, Pause):
                        self.close()  # others may need the connection
                    result = yield step
            except GeneratorExit:
                raise
            except BaseException as problem:
                error = problem

    def _tried(self, operations: Operations, is_cut: bool = False) -> Operations:
        began = time.monotonic()
        try:
            if self.is_stopped:
                raise Closed()
            return (yield from operations)
        except (library.AskError, library.TryAgainError) as error:
            if self.is_short:
                self.close()
            else:
                self.drop()  # a session may be bound to it
            if self._pool._cluster is None:
                raise Refused(f"{code_of(error)} {error}: a cluster needs a RedisCluster", code=code_of(error)) from error
            self._pool.failed(self, error, 0.0)
            raise
        except BaseException as error:
            if not isinstance(error, library.ResponseError) or is_transient(error):
                self.drop()
            if self.is_stopped and isinstance(error, Exception):
                raise Closed() from error
            # That a wait's own time or a queue has ended says nothing about the server.
            is_own = isinstance(error, Busy) or (is_cut and isinstance(error, library.TimeoutError))
            if isinstance(error, Exception) and is_transient(error) and not is_own:
                self._pool.failed(self, error, time.monotonic() - began)
            raise

    def _sent(self, step: Send) -> Operations:
        if self.connection is None:
            yield from self._take(step.until)
        try:
            return (yield Exchange(self.connection, step.words, step.until))
        except library.TimeoutError:
            if step.silent is not None:
                step.silent.append(self.connection)
                self._leave(lambda *_: None)
            raise

    def _connected(self, until: float) -> Operations:
        self.place = self._fixed or self._pool.place(self.key)
        server, now = self._pool.server(self.place), time.monotonic()
        if not self.is_short and not server.short and (not server.idle or now - server.checked > 1.0):
            with Link(self._pool, self.key, True, self.place, self) as other:
                yield from other._take(until)
            server.checked = now
        if self.connection is None:
            yield from self._take(until)

    def _take(self, until: float) -> Operations:
        redirected = None if self._fixed else self._pool.asks.pop(self.key, None)
        self.place = redirected or self._fixed or self._pool.place(self.key)
        self._server = self._pool.server(self.place)
        self.connection = yield from self._pool.taken(self, until)
        if self.owner.is_stopped:
            raise Closed()
        try:
            yield from self._pool.introduced(self, until)
            if redirected:
                yield Exchange(self.connection, ["ASKING"], until)
        except BaseException:
            self.drop()  # a reply may still arrive
            raise

    def drop(self) -> None:
        """Closes the connection."""
        self._leave(lambda connection, _: self._pool.disconnect(connection))

    def close(self) -> None:
        """Gives the connection back."""
        self._leave(self._pool.give)

    def _leave(self, end: Callable[[Any, Any], None]) -> None:
        connection, self.connection, server = self.connection, None, self._server
        if connection is not None:
            end(connection, server)
        if server is not None and (connection is not None or self in server.short):
            server.short.discard(self)
            self._pool.wake(server)
