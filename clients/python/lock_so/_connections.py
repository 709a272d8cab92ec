"""The package's own connections to the servers of a user's client; threads."""

from collections import deque

import redis
import redis.exceptions as library
from redis.backoff import NoBackoff
from redis.retry import Retry

from .errors import is_passing
from .steps import MARGIN

IDLE = 8  # how many idle connections to a server are kept for later commands


def own_settings(settings, retry, timeout):
    """The settings of a user's client, for connections that repeat no command, and without health checks. `timeout`:
    seconds, or None."""
    kept = {name: value for name, value in settings.items() if "maint_notifications" not in name}
    times = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "health_check_interval": 0}
    return {**kept, **times, "retry": retry, "retry_on_error": [], "retry_on_timeout": False}


class Places:
    """The addresses of the servers, the idle connections to them, and how to open new ones: for both flavours."""

    def __init__(self, client, retry, timeout=MARGIN):
        self._timeout = timeout
        self._cluster = client if hasattr(client, "nodes_manager") else None
        self._retry, self._is_stale, self._idle, self._asks = retry, False, {}, {}
        if self._cluster is None:
            pool = client.connection_pool
            self._class, self._settings = pool.connection_class, own_settings(pool.connection_kwargs, retry, timeout)

    def failed(self, key, error):
        """Records what an error shows about the node of the key."""
        self._is_stale = True
        if isinstance(error, library.AskError):  # the slot is moving to another node: use that node once
            self._asks[key] = error.host, error.port

    def _learn(self, connection_class, settings):
        """Stores how to connect to any node of a cluster, from the settings of one."""
        own = own_settings(settings, self._retry, self._timeout)
        self._class, self._settings = connection_class, {k: v for k, v in own.items() if k not in ("host", "port")}

    def _pop(self, place):
        try:
            return self._idle.setdefault(place, deque()).pop()
        except IndexError:
            return None

    def _new(self, place):
        return self._class(**self._settings, **(dict(zip(("host", "port"), place)) if place else {}))

    def _keep(self, connection, place):
        """Whether it is kept; otherwise the caller must close it."""
        idle = self._idle.setdefault(place, deque())
        if len(idle) >= IDLE:
            return False
        idle.append(connection)
        return True

    def _all_idle(self):
        return [connection for idle in self._idle.values() for connection in (idle.pop() for _ in range(len(idle)))]


class Connections(Places):
    """The connections for threads."""

    def __init__(self, client):
        super().__init__(client, Retry(NoBackoff(), 0))

    def take(self, key):
        """A connection to the server of this key, and its place, for give()."""
        asks = self._asks.pop(key, None)
        place = asks or self._place(key)
        connection = self._pop(place)
        if connection is None or not _is_usable(connection):
            connection = self._new(place)
        try:
            connection.connect()
            if asks:
                connection.send_command("ASKING")
                connection.read_response()
        except BaseException:
            connection.disconnect()
            raise
        return connection, place

    def give(self, connection, place):
        if not self._keep(connection, place):
            connection.disconnect()

    def _place(self, key):
        if self._cluster is None:
            return None
        try:
            if self._is_stale:
                self._cluster.nodes_manager.initialize()
                self._is_stale = False
            node = self._cluster.get_node_from_key(key)
        except library.RedisClusterException as error:
            raise library.ConnectionError(str(error)) from error
        pool = self._cluster.get_redis_connection(node).connection_pool
        self._learn(pool.connection_class, pool.connection_kwargs)
        return node.host, node.port

    def close(self):
        for connection in self._all_idle():
            connection.disconnect()


def _is_usable(connection):
    """Whether the server has not closed it meanwhile; otherwise it is closed here, too."""
    try:
        if not connection.can_read(0):
            return True
    except (library.ConnectionError, library.TimeoutError, OSError):
        pass
    connection.disconnect()
    return False


class Link:
    """Commands that are sent one after the other, on one connection as long as it works. close() gives it back."""

    def __init__(self, connections, key):
        self._connections, self._key, self._taken = connections, key, None

    def send(self, words, limit):
        try:
            if self._taken is None:
                self._taken = self._connections.take(self._key)
            connection = self._taken[0]
            connection.send_command(*words)
            if not connection.can_read(limit):
                raise redis.TimeoutError(f"no reply to {words[0]} within {limit:g} s")
            return connection.read_response()
        except BaseException as error:
            if not isinstance(error, library.ResponseError) or is_passing(error):
                self.drop()
            if isinstance(error, Exception) and is_passing(error):
                self._connections.failed(self._key, error)
            raise

    def drop(self):
        taken, self._taken = self._taken, None
        if taken:
            taken[0].disconnect()

    def close(self):
        taken, self._taken = self._taken, None
        if taken:
            self._connections.give(*taken)
