"""The whole dataset of a server, in a form that can be compared."""

from .connect import new_client

_READERS = {
    b"string": lambda c, key: c.get(key),
    b"hash": lambda c, key: c.hgetall(key),
    b"list": lambda c, key: c.lrange(key, 0, -1),
    b"set": lambda c, key: c.smembers(key),
    b"zset": lambda c, key: c.zrange(key, 0, -1, withscores=True),
}


def _read(client, keys):
    """The type, the value and the expiry of each key: two packets, whatever the number of keys."""
    pipeline = client.pipeline(transaction=False)
    for key in keys:
        pipeline.type(key)
    kinds = pipeline.execute()
    for key, kind in zip(keys, kinds, strict=True):
        # A type that has no reader is compared by its serialized form.
        _READERS.get(kind, lambda c, k: c.dump(k))(pipeline, key)
        pipeline.execute_command("PEXPIRETIME", key)
    answers = pipeline.execute(raise_on_error=False)
    return zip(keys, kinds, answers[::2], answers[1::2], strict=True)


def _databases(client):
    return sorted(int(name.removeprefix("db")) for name in client.info("keyspace"))


def dump(server):
    """{(db, key): (type, value, expiry in unix ms or None)}, all bytes, of every database.

    Leaves out keys that have expired logically and that a replica may still have. Not atomic: wait
    until the server has no more work.
    """
    found = {}
    for db in _databases(server.control):
        with new_client(server.port, db=db, decode_responses=False) as client:
            for key, kind, value, expiry in _read(client, list(client.scan_iter(count=1000))):
                # Also a key whose type changed between the two reads: by then it is another key, or none.
                if isinstance(value, Exception):
                    raise value
                if kind != b"none" and expiry != -2:
                    found[db, key] = kind.decode(), value, None if expiry == -1 else expiry
    return found
