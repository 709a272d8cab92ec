"""Invariants of a lock's keys, which hold at any moment, whatever has gone wrong.

A dataset is the result of `dump`, with database 0 only. In these tests no name of a lock has braces or begins like the
name of a side key.
"""

_SIDES = (b"lock:lease:", b"lock:queue:", b"lock:timeout:", b"lock:token:")


def side(prefix, key):
    return f"lock:{prefix}:{{{key}}}".encode()


def locks_in(data):
    """{key: its hash, as strings}"""
    hashes = {name: entry for (_, name), entry in data.items() if not name.startswith(_SIDES)}
    return {
        name.decode(): {field.decode(): value.decode() for field, value in value.items()}
        for name, (kind, value, _) in hashes.items()
        if kind == "hash"
    }


def holders_in(data, key):
    """The owners that hold the lock in any mode."""
    return {field.removesuffix(":write") for field in locks_in(data).get(key, {}) if field != "mode"}


def tokens_in(data):
    """{key: (its last fencing token, the owner of that)}"""
    found = {}
    for (_, name), (_, value, _) in data.items():
        if name.startswith(b"lock:token:"):
            found[name[12:-1].decode()] = int(value[b"token"]), value[b"owner"].decode()
    return found


def part_of(data, keys):
    """The locks with these names, and their side keys."""
    names = {name for key in keys for name in (key.encode(), *(prefix + b"{%s}" % key.encode() for prefix in _SIDES))}
    return {place: entry for place, entry in data.items() if place[1] in names}


def _members(data, name):
    value = data.get((0, name), ("zset", [], None))[1]
    return dict(value)


def _torn_leases(data, key, lock):
    """A read-write lock or a semaphore must have one lease for each hold, and its key expires with the last. The lease
    of an only hold is the key's TTL, and need not be in the set."""
    leases = _members(data, side("lease", key))
    if "mode" not in lock:
        return {"leases of a plain lock": leases} if leases else {}
    fields = {field.encode() for field in lock if field != "mode"}
    if len(fields) == 1 and not leases:
        return {}
    if leases.keys() != fields:
        return {"holds": fields, "leases": set(leases)}
    end = data[0, key.encode()][2]
    return {} if max(leases.values()) == end else {"the last lease": max(leases.values()), "the key's": end}


def torn(data, multikey=(), fenced=()):
    """What is incomplete, as a list; `multikey` are (owner, keys) of LOCK.MACQUIRE, `fenced` (owner, key)."""
    found = []
    for key, lock in locks_in(data).items():
        if wrong := _torn_leases(data, key, lock):
            found.append((key, wrong))
        if len(holders_in(data, key)) > 1 and lock.get("mode") not in ("read", "semaphore"):
            found.append((key, "two owners", lock))
    for name in [name for _, name in data if name.startswith(b"lock:queue:")]:
        key = name[12:-1].decode()
        queue, ends = _members(data, name), _members(data, side("timeout", key))
        if queue.keys() != ends.keys():
            found.append((key, "places", queue, "ends", ends))
    for owner, keys in multikey:
        held = {key for key in keys if owner in holders_in(data, key)}
        if held not in (set(), set(keys)):
            found.append((owner, "holds of", keys, "only", held))
    for owner, key in fenced:
        if owner in holders_in(data, key) and tokens_in(data).get(key, (0, None))[1] != owner:
            found.append((owner, "has no token of", key, tokens_in(data).get(key)))
    found += [(name, "never expires") for (_, name), entry in data.items() if entry[2] is None]
    return found
