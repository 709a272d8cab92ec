"""A slot that moves from one node to another, key by key: its two ends, and that both never have the same key."""

from itertools import count

from redis.exceptions import ResponseError

from harness import scaled_ms
from model.cluster_scene import HALF, HOST

TRY_AGAIN = "TRYAGAIN the slot of this key is being moved"
SIDES = ("token", "queue", "timeout", "lease")
SHORT = scaled_ms(300)


def side(kind, name):
    return f"lock:{kind}:{{{name}}}"


def as_text(reply):
    return str(reply) if isinstance(reply, ResponseError) else reply


class End:
    """A node at one end of a move. The target is sent ASKING before commands on keys that are not there yet."""

    def __init__(self, node, asks):
        self.node, self.asks, self.actor = node, asks, node.server.actor()

    def attempt(self, *words):
        if self.asks:
            assert self.actor.call("ASKING") == "OK"
        return as_text(self.actor.attempt(*words))


def ends_of(nodes):
    one, two = nodes
    return End(one, asks=False), End(two, asks=True)


def names_of(one):
    """Names of keys in slots of the first node."""
    return (str(number) for number in count() if one.cluster("KEYSLOT", number) <= HALF)


def keys_in(node, slot):
    return set(node.cluster("GETKEYSINSLOT", slot, 1000))


def assert_nothing_twice(nodes, slot):
    twice = set.intersection(*(keys_in(node, slot) for node in nodes))
    assert not twice, f"both nodes have {twice}"


def contents(ends, slot):
    """The contents and the expiry of all keys of the slot, at either end."""
    found = {}
    for end in ends:
        for name in keys_in(end.node, slot):
            fields = end.attempt("HGETALL", name)
            found[name] = [fields if isinstance(fields, list) else end.attempt("ZRANGE", name, 0, -1, "WITHSCORES")]
            found[name].append(end.attempt("PEXPIRETIME", name))
    return found


def finish_move(slot, source, target):
    """Moves the other keys and assigns the slot, as redis-cli --cluster reshard does."""
    for name in keys_in(source, slot):
        assert source.actor.call("MIGRATE", HOST, target.server.port, name, 0, 5000) in ("OK", "NOKEY")
    for node in (target, source):
        node.cluster("SETSLOT", slot, "NODE", target.id)


def call_off(nodes, slot):
    for node in nodes:
        node.cluster("SETSLOT", slot, "STABLE")
