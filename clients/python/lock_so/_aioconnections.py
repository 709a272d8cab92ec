"""The package's own connections to the servers of a user's client; asyncio."""

import asyncio
import sys

import redis.exceptions as library
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from .connections import Places
from .errors import is_passing
from .steps import MARGIN

if sys.version_info >= (3, 11, 3):
    from asyncio import timeout
else:
    from async_timeout import timeout  # redis-py needs it there too


class Connections(Places):
    def __init__(self, client):
        # The time limits are enforced here, not by the connections.
        super().__init__(client, Retry(NoBackoff(), 0), timeout=None)

    async def take(self, key):
        """A connection to the server of this key, and its place, for give()."""
        asks = self._asks.pop(key, None)
        place = asks or await self._place(key)
        connection = self._pop(place)
        if connection is None or not await _is_usable(connection):
            connection = self._new(place)
        try:
            await connection.connect()
            if asks:
                await connection.send_command("ASKING")
                await connection.read_response()
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection, place

    async def give(self, connection, place):
        if not self._keep(connection, place):
            await connection.disconnect(nowait=True)

    async def _place(self, key):
        if self._cluster is None:
            return None
        try:
            await self._cluster.initialize()
            if self._is_stale:
                await self._cluster.nodes_manager.initialize()
                self._is_stale = False
            node = self._cluster.get_node_from_key(key)
        except library.RedisClusterException as error:
            raise library.ConnectionError(str(error)) from error
        self._learn(node.connection_class, node.connection_kwargs)
        return node.host, node.port

    async def close(self):
        for connection in self._all_idle():
            await connection.disconnect(nowait=True)


async def _is_usable(connection):
    """Whether the server has not closed it meanwhile; otherwise it is closed here, too."""
    # The method's name from redis-py 8 on, and its name before.
    has_news = getattr(connection, "can_read", None) or connection.can_read_destructive
    try:
        if not await has_news():
            return True
    except (library.ConnectionError, library.TimeoutError, OSError):
        pass
    await connection.disconnect(nowait=True)
    return False


async def _in_time(work, limit, what):
    # redis-py's own time-out for a reply returns None, which would be taken for a null reply. And wait_for() creates a
    # task, which runs later than the reply could be read.
    try:
        async with timeout(limit):
            return await work
    except asyncio.TimeoutError:
        raise library.TimeoutError(f"no {what} within {limit:g} s") from None


class Link:
    """Commands that are sent one after the other, on one connection as long as it works. close() gives it back."""

    def __init__(self, connections, key):
        self._connections, self._key, self._taken = connections, key, None

    async def send(self, words, limit):
        try:
            if self._taken is None:
                self._taken = await _in_time(self._connections.take(self._key), MARGIN, "connection")
            return await _in_time(self._reply(words), limit, f"reply to {words[0]}")
        except BaseException as error:
            if not isinstance(error, library.ResponseError) or is_passing(error):
                await self.drop()
            if isinstance(error, Exception) and is_passing(error):
                self._connections.failed(self._key, error)
            raise

    async def _reply(self, words):
        await self._taken[0].send_command(*words)
        return await self._taken[0].read_response()

    async def drop(self):
        taken, self._taken = self._taken, None
        if taken:
            await taken[0].disconnect(nowait=True)

    async def close(self):
        taken, self._taken = self._taken, None
        if taken:
            await self._connections.give(*taken)
