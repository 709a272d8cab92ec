"""The package's own connections to the servers of a user's client; asyncio."""

import asyncio
import sys
import time
from typing import Any, Awaitable, Dict, Optional, Set, Tuple

import redis.exceptions as library
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from ._connections import Place, Places
from ._spec import Key, Words
from ._steps import CONNECT_TIMEOUT
from .errors import Closed, is_passing

if sys.version_info >= (3, 11, 3):
    from asyncio import timeout
else:
    from async_timeout import timeout  # type: ignore  # redis-py needs it there too


class _Reserve:
    """The connection that is reserved for short commands, to one server."""

    def __init__(self) -> None:
        self.lock, self.checked = asyncio.Lock(), 0.0
        self.connection: Any = None
        self.is_open = False  # also while it is used


class Connections(Places):
    def __init__(self, client: Any):
        # The time limits are enforced here, not by the connections.
        super().__init__(client, Retry(NoBackoff(), 0), timeout=None)
        self._reserves: Dict[Place, _Reserve] = {}
        self._openings: Set[asyncio.Future[Any]] = set()
        self._is_closed = False

    async def take(self, key: Key) -> Tuple[Any, Place]:
        """A connection to the server of this key, and its place, for give()."""
        if self._is_closed:
            raise Closed()
        asks = self._asks.pop(key, None)
        place = asks or await self._place(key)
        connection = None if asks else self._pop(place)
        if connection is not None and await _is_usable(connection):
            return connection, place
        opening = asyncio.ensure_future(self._open(self._new(place), place, bool(asks)))
        self._openings.add(opening)
        opening.add_done_callback(self._openings.discard)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # It came too late for this command, but not for the next one.
            opening.add_done_callback(self._opened_late)
            raise

    async def _open(self, connection: Any, place: Place, asks: bool) -> Tuple[Any, Place]:
        try:
            async with timeout(CONNECT_TIMEOUT):
                await connection.connect()
                if asks:
                    await connection.send_command("ASKING")
                    await connection.read_response()
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        self.has_connected = True
        return connection, place

    def _opened_late(self, opening: "asyncio.Future[Any]") -> None:
        if not opening.cancelled() and opening.exception() is None:
            asyncio.ensure_future(self.give(*opening.result()))

    async def give(self, connection: Any, place: Place) -> None:
        if self._is_closed or not self._keep(connection, place):
            await connection.disconnect(nowait=True)

    # The reserved connections

    async def reserve(self, key: Key) -> None:
        """Sees that the reserved connection to the key's server is open."""
        reserve = self._reserves.setdefault(await self._place(key), _Reserve())
        if reserve.is_open and (time.monotonic() - reserve.checked < 1.0 or reserve.lock.locked()):
            return
        async with reserve.lock:
            if reserve.connection is None or not await _is_usable(reserve.connection):
                reserve.connection, reserve.is_open = None, False
                reserve.connection = (await self.take(key))[0]
            reserve.is_open, reserve.checked = True, time.monotonic()

    async def take_command(self, key: Key) -> Tuple[Any, Any]:
        """A connection for a short command: an idle one, or the reserved one when it is free; for give_command()."""
        if key in self._asks:
            return await self.take(key)
        place = await self._place(key)
        connection = self._pop(place)
        if connection is not None and await _is_usable(connection):
            return connection, place
        reserve = self._reserves.get(place)
        if reserve is None:
            return await self.take(key)
        await reserve.lock.acquire()
        try:
            connection, reserve.connection = reserve.connection, None
            if connection is None or not await _is_usable(connection):
                connection = (await self.take(key))[0]
            return connection, reserve
        except BaseException:
            reserve.is_open = False
            reserve.lock.release()
            raise

    async def give_command(self, connection: Any, place: Any, works: bool) -> None:
        if isinstance(place, _Reserve):
            works = place.is_open = works and not self._is_closed
            place.connection = connection if works else None
            place.lock.release()
            if works:
                return
        elif works:
            await self.give(connection, place)
            return
        await connection.disconnect(nowait=True)

    async def _place(self, key: Key) -> Place:
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
        self._last_place = node.host, node.port
        return self._last_place

    async def close(self) -> None:
        self._is_closed = True
        for opening in list(self._openings):
            opening.cancel()
        reserved = [reserve.connection for reserve in self._reserves.values() if reserve.connection is not None]
        for connection in [*self._all_idle(), *reserved]:
            await connection.disconnect(nowait=True)


async def _is_usable(connection: Any) -> bool:
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


async def _in_time(work: Awaitable[Any], limit: float, what: str) -> Any:
    # redis-py's own time-out for a reply returns None, which would be taken for a null reply. And wait_for() creates a
    # task, which runs later than the reply could be read.
    try:
        async with timeout(limit):
            return await work
    except asyncio.TimeoutError:
        raise library.TimeoutError(f"no {what} within {limit:g} s") from None


class Link:
    """Commands that are sent one after the other, on one connection as long as it works. close() gives it back. A link for
    short commands may use the reserved connection."""

    def __init__(self, connections: Connections, key: Key, is_short: bool = False):
        self._connections, self._key, self._is_short = connections, key, is_short
        self._taken: Optional[Tuple[Any, Any]] = None

    async def connect(self, limit: float) -> None:
        try:
            await _in_time(self._connect(), limit, f"connection to {self._connections.address(self._key)}")
        except Exception as error:
            if is_passing(error):
                self._connections.failed(self._key, error)
            raise

    async def _connect(self) -> None:
        await self._connections.reserve(self._key)
        if self._taken is None:
            self._taken = await self._connections.take(self._key)

    async def send(self, words: Words, limit: float) -> Any:
        try:
            if self._taken is None:
                take = self._connections.take_command if self._is_short else self._connections.take
                what = f"connection to {self._connections.address(self._key)}"
                self._taken = await _in_time(take(self._key), limit, what)
            return await _in_time(self._reply(words), limit, f"reply to {words[0]}")
        except BaseException as error:
            if not isinstance(error, library.ResponseError) or is_passing(error):
                await self.drop()
            if isinstance(error, Exception) and is_passing(error):
                self._connections.failed(self._key, error)
            raise

    async def _reply(self, words: Words) -> Any:
        assert self._taken
        await self._taken[0].send_command(*words)
        return await self._taken[0].read_response()

    async def drop(self) -> None:
        taken, self._taken = self._taken, None
        if taken and self._is_short:
            await self._connections.give_command(*taken, works=False)
        elif taken:
            await taken[0].disconnect(nowait=True)

    async def rest(self) -> None:
        """Before a pause: others may need the reserved connection."""
        if self._is_short:
            await self.close()

    async def close(self) -> None:
        taken, self._taken = self._taken, None
        if taken and self._is_short:
            await self._connections.give_command(*taken, works=True)
        elif taken:
            await self._connections.give(*taken)
