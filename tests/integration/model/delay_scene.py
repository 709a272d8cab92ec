"""A delayed queue: its keys, what is pending in it, and what has been delivered."""

from harness import wait_for

HOUR = 3_600_000
LONG_AGO = 1  # unix ms


def _tagged(name):
    """The name as it occurs in the names of its keys: unchanged if it has a hash tag, else in braces."""
    opened = name.find(b"{")
    closed = name.find(b"}", opened + 1)
    return name if 0 <= opened and opened + 1 < closed else b"{" + name + b"}"


def _side(prefix, name):
    return prefix + _tagged(name) if isinstance(name, bytes) else (prefix + _tagged(name.encode())).decode()


def due_of(name="q"):
    return _side(b"delay:due:", name)


def value_of(name="q"):
    return _side(b"delay:value:", name)


def push(client, id_, ms, value=None, name="q"):
    return client.execute_command("DELAY.PUSH", name, id_, ms, f"v{id_}" if value is None else value)


def pending(client, name="q", count=1000):
    """The ids, ordered by time."""
    return [id_ for id_, _, _ in client.execute_command("DELAY.LIST", name, "COUNT", count)]


def delivered(client, name="q"):
    return client.lrange(name, 0, -1)


def queues(server):
    return server.info("lock")["lock_delay_queues"]


def stuck(server):
    return server.info("lock")["lock_delay_stuck"]


def fall_due(client, *ids, name="q"):
    """Makes them overdue, in this order, by a direct change of the key."""
    client.zadd(due_of(name), {id_: LONG_AGO + index for index, id_ in enumerate(ids)}, xx=True)


def wait_delivered(client, *values, name="q"):
    def is_delivered():
        found = delivered(client, name)
        assert found == list(values), f"the list contains {found}"
        return True

    wait_for(is_delivered, what=f"the delivery of {values}")


def wait_nothing_left(server, client, name="q"):
    """Waits until neither the keys nor the module's memory have anything of the queue."""
    wait_for(lambda: queues(server) == 0, what="the queue to be gone from memory")
    assert client.exists(due_of(name), value_of(name)) == 0


def stays_undelivered(server, client, *ids, name="q"):
    """Checks it after the module has scanned the queue a few times."""
    server.settle(250)
    assert pending(client, name) == list(ids)


def torn(dataset, name="q", pushed=()):
    """The ids that are in both the due set and the list, or in neither although they were pushed. Values equal ids."""
    name = name.encode()
    due = {id_ for id_, _ in dataset.get((0, due_of(name)), (None, [], None))[1]}
    values = set(dataset.get((0, value_of(name)), (None, {}, None))[1])
    in_list = dataset.get((0, name), (None, [], None))[1]
    twice = {id_ for id_ in in_list if in_list.count(id_) > 1}
    return twice | (due ^ values) | {id_ for id_ in pushed if (id_ in due) == (id_ in in_list)}
