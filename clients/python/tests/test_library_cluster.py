"""What docs/clients/python.md says of redis-py's RedisCluster and Sentinel, against the library itself."""

import asyncio
import gc

import pytest
import redis
from redis.asyncio import RedisCluster as AsyncCluster
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from harness import Servers, scaled
from harness.connect import HOST
from places import Cluster, Sentinels

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def leaks():
    """RedisCluster with asyncio leaves connections open when it has looked for the nodes anew."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def cluster(launch):
    made = Servers(launch)
    place = Cluster(made.make, launch, {})
    yield place
    place.end()
    problems = made.end()
    assert not problems, problems


@pytest.fixture
def sentinels(servers, launch):
    place = Sentinels(servers.make, launch, {})
    yield place
    place.end()


def total(cluster, section, name, field):
    found = (server.control.info(section).get(name, {}) for server in cluster.servers)
    return sum(one.get(field, 0) for one in found)


def moved(cluster):
    return total(cluster, "errorstats", "errorstat_MOVED", "count")


def calls(cluster, command):
    return total(cluster, "commandstats", f"cmdstat_{command}", "calls")


class Threads:
    """A RedisCluster, as with asyncio."""

    def __init__(self, **options):
        self._client = redis.RedisCluster(**options)

    async def initialize(self):
        """It has found the nodes when it was made."""

    async def execute_command(self, *words):
        return await asyncio.to_thread(self._client.execute_command, *words)

    async def aclose(self):
        self._client.close()


FLAVOURS = pytest.mark.parametrize("flavour", [Threads, AsyncCluster])


def play(cluster, flavour, steps, **options):
    async def played():
        client = flavour(host=HOST, port=cluster.servers[0].port, **options)
        try:
            await client.initialize()
            await steps(client.execute_command)
        finally:
            await client.aclose()

    asyncio.run(played())


def keys(cluster, node):
    cluster.node = node
    return cluster.key("a"), cluster.key("b")


@FLAVOURS
def test_the_first_node_is_the_right_one(cluster, flavour):
    async def steps(say):
        for node in range(3):
            one, two = keys(cluster, node)
            assert await say("LOCK.ACQUIRE", one, "o") == 1
            assert await say("LOCK.GUARD", one, "o", "PING")
            assert await say("LOCK.RELEASE", one, "o") == 0
            assert await say("LOCK.MACQUIRE", 2, one, two, "o", "PX", 60000) == 2
            assert await say("LOCK.CANCEL", one, "x", "RELEASE") == 0
            assert await say("LOCK.MRELEASE", 2, one, two, "o") == 2

    before, asked = moved(cluster), calls(cluster, "command|getkeys")
    play(cluster, flavour, steps)
    assert moved(cluster) == before
    # Where LOCK.MACQUIRE and LOCK.MRELEASE go, and nothing else, the library asks before each, twice.
    assert calls(cluster, "command|getkeys") - asked == 2 * 6


def test_the_first_command_of_all_with_asyncio(cluster):
    """It goes to any node, and is redirected, unless the client has been initialized."""
    key, before = keys(cluster, 2)[0], moved(cluster)

    async def played():
        for _ in range(100):
            client = AsyncCluster(host=HOST, port=cluster.servers[0].port)
            await client.execute_command("LOCK.INFO", key)
            await client.aclose()
            if moved(cluster) > before:
                return

    asyncio.run(played())
    assert moved(cluster) > before


@FLAVOURS
def test_keys_of_two_slots(cluster, flavour):
    async def steps(say):
        with pytest.raises(redis.RedisClusterException):
            await say("LOCK.MACQUIRE", 2, keys(cluster, 0)[0], keys(cluster, 1)[0], "o")

    assert not issubclass(redis.RedisClusterException, redis.RedisError)
    before = total(cluster, "errorstats", "errorstat_CROSSSLOT", "count")
    play(cluster, flavour, steps)
    assert total(cluster, "errorstats", "errorstat_CROSSSLOT", "count") == before


@FLAVOURS
@pytest.mark.parametrize("retries, sent", [(2, 3), (0, 1)])
def test_a_time_out_is_sent_again(cluster, flavour, retries, sent):
    """As often as the client says; by default it is ten times: test_default_time_outs."""
    key = keys(cluster, 1)[0]
    cluster.say(None, ["LOCK.ACQUIRE", key, "holder", "PX", 600000])
    before = calls(cluster, "lock.acquire")

    async def steps(say):
        with pytest.raises(redis.TimeoutError):
            await say("LOCK.ACQUIRE", key, "o", "BLOCK", 60000)

    # All that the client asks when it looks for the nodes anew has as much time.
    play(cluster, flavour, steps, socket_timeout=scaled(1.5), retry=Retry(NoBackoff(), retries))
    assert calls(cluster, "lock.acquire") - before == sent
    assert cluster.say(None, ["LOCK.RELEASE", key, "holder"]) == 0


def test_default_time_outs(cluster):
    key = keys(cluster, 0)[0]
    with redis.RedisCluster(host=HOST, port=cluster.servers[0].port) as client:
        pool = client.get_redis_connection(client.get_node_from_key(key)).connection_pool
        assert (pool.make_connection().socket_timeout, client.retry.get_retries()) == (5, 10)

    async def found():
        async with AsyncCluster(host=HOST, port=cluster.servers[0].port) as client:
            return client.get_node_from_key(key).acquire_connection().socket_timeout, client.retry.get_retries()

    assert asyncio.run(found()) == (5, 10)


def test_sentinel(sentinels):
    """A master_for() has the time-out of 5 s, and sends nothing again."""
    master, addresses = sentinels.servers[0], [(HOST, port) for port in sentinels.to["ports"]]
    assert master.control.execute_command("LOCK.ACQUIRE", "k", "holder", "PX", 600000) == 1
    with Sentinel(addresses).master_for(sentinels.to["master"]) as client:
        connection = client.connection_pool.get_connection()
        assert (connection.socket_timeout, connection.retry.get_retries()) == (5, 0)
        client.connection_pool.release(connection)
    with Sentinel(addresses).master_for(sentinels.to["master"], socket_timeout=scaled(1.5)) as client:
        with pytest.raises(redis.TimeoutError):
            client.execute_command("LOCK.ACQUIRE", "k", "o", "BLOCK", 60000)

    async def steps():
        async with AsyncSentinel(addresses).master_for(sentinels.to["master"]) as client:
            connection = client.connection_pool.make_connection()
            assert (connection.socket_timeout, connection.retry.get_retries()) == (5, 0)
        async with AsyncSentinel(addresses).master_for(sentinels.to["master"], socket_timeout=scaled(1.5)) as client:
            with pytest.raises(redis.TimeoutError):
                await client.execute_command("LOCK.ACQUIRE", "k", "o", "BLOCK", 60000)

    asyncio.run(steps())
    assert calls(sentinels, "lock.acquire") == 3
    assert master.control.execute_command("LOCK.RELEASE", "k", "holder") == 0
