"""The package's own connections to the servers of a user's client; threads."""

import threading
import time
from collections import deque
from typing import Any, Callable, Dict, List, Optional, Tuple

import redis.exceptions as library
from redis.backoff import NoBackoff
from redis.retry import Retry

from ._spec import Key, Words
from ._steps import MARGIN
from .errors import Closed, is_passing

IDLE = 8  # how many idle connections to a server are kept for later commands

Place = Optional[Tuple[str, int]]


def own_settings(settings: Dict[str, Any], retry: Any, timeout: Optional[float]) -> Dict[str, Any]:
    """The settings of a user's client, for connections that repeat no command, and without health checks. `timeout`:
    seconds, or None."""
    kept = {name: value for name, value in settings.items() if "maint_notifications" not in name}
    times = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "health_check_interval": 0}
    return {**kept, **times, "retry": retry, "retry_on_error": [], "retry_on_timeout": False}


class Places:
    """The addresses of the servers, the idle connections to them, and how to open new ones: for both flavours.

    For each server one connection is reserved, which only releases, renewals and the like use: when the server or the
    program can open no other, they still have this one.
    """

    def __init__(self, client: Any, retry: Any, timeout: Optional[float] = MARGIN):
        self.has_connected = False
        self._timeout = timeout
        self._cluster = client if hasattr(client, "nodes_manager") else None
        self._retry, self._is_stale = retry, False
        self._idle: Dict[Place, Any] = {}
        self._asks: Dict[Key, Tuple[str, int]] = {}
        self._last_place: Place = None
        if self._cluster is None:
            self._pool = client.connection_pool
            self._class, settings = self._pool.connection_class, self._pool.connection_kwargs
            self._settings = own_settings(settings, retry, timeout)

    def address(self, _: Key) -> str:
        """The server of the key, as far as it is known, for texts."""
        if self._cluster is not None:
            return "%s:%s" % self._last_place if self._last_place else "the cluster"
        master = getattr(self._pool, "master_address", None) or getattr(self._pool, "service_name", None)
        if master:
            return "%s:%s" % tuple(master) if isinstance(master, tuple) else str(master)
        found = self._settings
        return found.get("path") or f"{found.get('host', 'localhost')}:{found.get('port', 6379)}"

    def failed(self, key: Key, error: Exception) -> None:
        """Records what an error shows about the node of the key."""
        self._is_stale = True
        if isinstance(error, library.AskError):  # the slot is moving to another node: use that node once
            self._asks[key] = error.host, error.port

    def _learn(self, connection_class: Any, settings: Dict[str, Any]) -> None:
        """Stores how to connect to any node of a cluster, from the settings of one."""
        own = own_settings(settings, self._retry, self._timeout)
        self._class, self._settings = connection_class, {k: v for k, v in own.items() if k not in ("host", "port")}

    def _pop(self, place: Place) -> Any:
        try:
            return self._idle.setdefault(place, deque()).pop()
        except IndexError:
            return None

    def _new(self, place: Place) -> Any:
        return self._class(**self._settings, **(dict(zip(("host", "port"), place)) if place else {}))

    def _keep(self, connection: Any, place: Place) -> bool:
        """Whether it is kept; otherwise the caller must close it."""
        idle = self._idle.setdefault(place, deque())
        if len(idle) >= IDLE:
            return False
        idle.append(connection)
        return True

    def _all_idle(self) -> List[Any]:
        return [connection for idle in self._idle.values() for connection in (idle.pop() for _ in range(len(idle)))]


class _Deadline:
    """Runs something in a thread of its own, because name resolution, TLS and redis-py's clusters have no deadline."""

    def __init__(self, work: Callable[[], Any], discard: Callable[[Any], None]):
        self._work, self._discard, self._done, self._lock = work, discard, threading.Event(), threading.Lock()
        self._result: Any = None
        self._error: Optional[BaseException] = None
        self._is_abandoned = False
        threading.Thread(target=self._run, name="lock-so-connect", daemon=True).start()

    def _run(self) -> None:
        result: Any = None
        error: Optional[BaseException] = None
        try:
            result = self._work()
        except BaseException as problem:
            error = problem
        with self._lock:
            is_abandoned = self._is_abandoned
            self._result, self._error = result, error
        self._done.set()
        if is_abandoned and result is not None:
            self._discard(result)

    def abandon(self) -> None:
        with self._lock:
            self._is_abandoned = True
            result, self._result = self._result, None
        self._done.set()
        if result is not None:
            self._discard(result)

    def wait(self, limit: float, what: str) -> Any:
        self._done.wait(limit)
        with self._lock:
            result, self._result, error = self._result, None, self._error
            self._is_abandoned = True
        if error is not None:
            raise error
        if result is None:
            raise library.TimeoutError(f"no connection to {what} within {limit:g} s")
        return result


class _Reserve:
    """The connection that is reserved for short commands, to one server."""

    def __init__(self) -> None:
        self.lock, self.checked = threading.Lock(), 0.0
        self.connection: Any = None
        self.is_open = False  # also while it is used


class Connections(Places):
    """The connections for threads."""

    def __init__(self, client: Any):
        super().__init__(client, Retry(NoBackoff(), 0))
        self._reserves: Dict[Place, _Reserve] = {}
        self._initializing = threading.Lock()
        self._is_closed = False

    def take(self, key: Key, limit: float, opening: Callable[[Any], None] = lambda _: None) -> Tuple[Any, Place]:
        """A connection to the server of this key, and its place, for give()."""
        if self._is_closed:
            raise Closed()
        if not self._is_stale or self._cluster is None:
            place = self._asks.get(key) or self._place(key)
            connection = None if key in self._asks else self._pop(place)
            if connection is not None and _is_usable(connection):
                return connection, place
        work = _Deadline(lambda: self._open(key, limit), lambda found: self.give(*found))
        opening(work)
        found: Tuple[Any, Place] = work.wait(limit, self.address(key))
        return found

    def _open(self, key: Key, limit: float) -> Tuple[Any, Place]:
        asks = self._asks.pop(key, None)
        place = asks or self._place(key)
        connection = self._new(place)
        try:
            connection.socket_connect_timeout = limit
            connection.connect()
            if asks:
                connection.send_command("ASKING")
                connection.read_response()
        except BaseException:
            connection.disconnect()
            raise
        self.has_connected = True
        return connection, place

    def give(self, connection: Any, place: Place) -> None:
        if self._is_closed or not self._keep(connection, place):
            connection.disconnect()

    # The reserved connections

    def reserve(self, key: Key, limit: float, opening: Callable[[Any], None]) -> None:
        """Sees that the reserved connection to the key's server is open."""
        reserve = self._reserve(key)
        now = time.monotonic()
        if reserve is not None and reserve.is_open and (now - reserve.checked < 1.0 or reserve.lock.locked()):
            return
        reserve = reserve or self._reserves.setdefault(self._place_in_time(key, limit, opening), _Reserve())
        if not reserve.lock.acquire(timeout=limit):
            raise library.TimeoutError(f"no connection to {self.address(key)} within {limit:g} s")
        try:
            if reserve.connection is None or not _is_usable(reserve.connection):
                reserve.connection, reserve.is_open = None, False
                reserve.connection = self.take(key, limit, opening)[0]
            reserve.is_open, reserve.checked = True, time.monotonic()
        finally:
            reserve.lock.release()

    def take_command(self, key: Key, limit: float) -> Tuple[Any, Any]:
        """A connection for a short command: an idle one, or the reserved one when it is free; for give_command()."""
        reserve = self._reserve(key)
        if reserve is None or key in self._asks:
            return self.take(key, limit)
        place = self._place(key)
        connection = self._pop(place)
        if connection is not None and _is_usable(connection):
            return connection, place
        if not reserve.lock.acquire(timeout=limit):
            raise library.TimeoutError(f"no connection to {self.address(key)} was free within {limit:g} s")
        try:
            connection, reserve.connection = reserve.connection, None
            if connection is None or not _is_usable(connection):
                connection = self.take(key, limit)[0]
            return connection, reserve
        except BaseException:
            reserve.is_open = False
            reserve.lock.release()
            raise

    def give_command(self, connection: Any, place: Any, works: bool) -> None:
        if isinstance(place, _Reserve):
            works = place.is_open = works and not self._is_closed
            place.connection = connection if works else None
            place.lock.release()
            if not works:
                connection.disconnect()
        elif works:
            self.give(connection, place)
        else:
            connection.disconnect()

    def _reserve(self, key: Key) -> Optional[_Reserve]:
        if self._cluster is None:
            return self._reserves.get(None)
        return None if self._is_stale or not self._last_place else self._reserves.get(self._place(key))

    # Clusters

    def _place_in_time(self, key: Key, limit: float, opening: Callable[[Any], None]) -> Place:
        if self._cluster is None:
            return None
        work = _Deadline(lambda: (self._place(key),), lambda _: None)
        opening(work)
        place: Place = work.wait(limit, "the cluster")[0]
        return place

    def _place(self, key: Key) -> Place:
        if self._cluster is None:
            return None
        try:
            if self._is_stale:
                with self._initializing:
                    if self._is_stale:
                        self._cluster.nodes_manager.initialize()
                        self._is_stale = False
            node = self._cluster.get_node_from_key(key)
        except library.RedisClusterException as error:
            raise library.ConnectionError(str(error)) from error
        pool = self._cluster.get_redis_connection(node).connection_pool
        self._learn(pool.connection_class, pool.connection_kwargs)
        self._last_place = node.host, node.port
        return self._last_place

    def close(self) -> None:
        self._is_closed = True
        for connection in self._all_idle():
            connection.disconnect()
        for reserve in list(self._reserves.values()):
            if reserve.lock.acquire(blocking=False):
                connection, reserve.connection = reserve.connection, None
                reserve.lock.release()
                if connection is not None:
                    connection.disconnect()


def _is_usable(connection: Any) -> bool:
    """Whether the server has not closed it meanwhile; otherwise it is closed here, too."""
    try:
        if not connection.can_read(0):
            return True
    except (library.ConnectionError, library.TimeoutError, OSError):
        pass
    connection.disconnect()
    return False


class Link:
    """Commands that are sent one after the other, on one connection as long as it works. close() gives it back. A link for
    short commands may use the reserved connection."""

    def __init__(self, connections: Connections, key: Key, is_short: bool = False):
        self._connections, self._key, self._is_short = connections, key, is_short
        self._taken: Optional[Tuple[Any, Any]] = None
        self._opening: Optional[_Deadline] = None
        self.is_dropped = False

    def connect(self, limit: float) -> None:
        until = time.monotonic() + limit
        try:
            self._connections.reserve(self._key, limit, self._open)
            if self._taken is None:
                self._taken = self._connections.take(self._key, max(0.0, until - time.monotonic()), self._open)
        except Exception as error:
            if is_passing(error):
                self._connections.failed(self._key, error)
            raise
        finally:
            self._opening = None

    def _open(self, work: _Deadline) -> None:
        self._opening = work
        if self.is_dropped:
            work.abandon()

    def send(self, words: Words, limit: float) -> Any:
        try:
            if self._taken is None:
                take = self._connections.take_command if self._is_short else self._connections.take
                self._taken = take(self._key, limit)
            connection = self._taken[0]
            until = time.monotonic() + limit
            connection.send_command(*words)
            if not connection.can_read(limit):
                raise library.TimeoutError(f"no reply to {words[0]} within {limit:g} s")
            # For a server that stops in the middle of a reply.
            connection._sock.settimeout(max(0.01, min(MARGIN, until - time.monotonic())))
            return connection.read_response()
        except BaseException as error:
            if not isinstance(error, library.ResponseError) or is_passing(error):
                self._drop()
            if isinstance(error, Exception) and is_passing(error):
                self._connections.failed(self._key, error)
            raise

    def drop(self) -> None:
        """Ends whatever another thread does with it."""
        self.is_dropped = True
        opening = self._opening
        if opening:
            opening.abandon()
        self._drop()

    def _drop(self) -> None:
        taken, self._taken = self._taken, None
        if taken and self._is_short:
            self._connections.give_command(*taken, works=False)
        elif taken:
            taken[0].disconnect()

    def rest(self) -> None:
        """Before a pause: others may need the reserved connection."""
        if self._is_short:
            self.close()

    def close(self) -> None:
        taken, self._taken = self._taken, None
        if taken and self._is_short:
            self._connections.give_command(*taken, works=True)
        elif taken:
            self._connections.give(*taken)
