"""Everything a server holds, in a form to compare."""

from .connect import new_client

_READERS = {
    b"string": lambda c, key: c.get(key),
    b"hash": lambda c, key: c.hgetall(key),
    b"list": lambda c, key: c.lrange(key, 0, -1),
    b"set": lambda c, key: c.smembers(key),
    b"zset": lambda c, key: c.zrange(key, 0, -1, withscores=True),
}


def _read(client, key):
    kind = client.type(key)
    # A type that no reader knows is compared by its serialized form.
    value = _READERS.get(kind, lambda c, k: c.dump(k))(client, key)
    expiry = client.execute_command("PEXPIRETIME", key)
    return kind.decode(), value, None if expiry == -1 else expiry


def _databases(client):
    return sorted(int(name.removeprefix("db")) for name in client.info("keyspace"))


def dump(server):
    """{(db, key): (type, value, expiry in unix ms or None)}, all bytes, of every database.

    Leaves out what is logically expired, which a replica may still hold. Not atomic: let the
    server come to rest first.
    """
    found = {}
    for db in _databases(server.control):
        with new_client(server.port, db=db, decode_responses=False) as client:
            for key in client.scan_iter(count=1000):
                entry = _read(client, key)
                if entry[0] != "none" and entry[2] != -2:
                    found[db, key] = entry
    return found
