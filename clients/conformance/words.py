"""The variables of a scenario: $key, $take and the like."""

import json
import re
from pathlib import Path

KINDS = json.loads((Path(__file__).parent / "kinds.json").read_text())


def _beside(queue, what):
    """A further list of a delayed queue, in the same slot."""
    has_tag = re.search(r"^[^{]*\{[^}]+\}", queue)
    return f"{queue}:{what}" if has_tag else f"{{{queue}}}:{what}"


def taken(queue):
    return _beside(queue, "taken")


def failed(queue):
    return _beside(queue, "failed")


class Words:
    def __init__(self, scenario, kind, place):
        key = place.key(f"{scenario['name']}-{kind}")
        self.kind = KINDS[kind]
        self.values = {
            "$key": key,
            "$other": "the-other",
            "$elsewhere": place.key_elsewhere(f"{scenario['name']}-{kind}-elsewhere"),
            "$counter": f"{key}-counter",
            "$port": str(place.to.get("port")),
            "$quoted": f'"{key}"',
            "$mode": self.kind["mode"],
            "$holds": self.kind["holds"],
            "$acquire": self.kind["commands"]["acquire"],
            "$release": self.kind["commands"]["release"],
            "$fair": self.kind["lock"]["kind"] == "fair",
            "$latch": f"{key}-latch",
            "$queue": (queue := f"{key}-queue"),
            "$taken": taken(queue),
            "$failed": failed(queue),
            **{f"$slot{number}": name for number, name in enumerate(place.keys_in_order(key), 1)},
            **{f"$port:{name}": str(server.port) for name, server in zip("abcdefg", place.servers, strict=False)},
        }
        self.values["$named"] = self.fill(self.kind["named"])
        self.values["$take"] = self.fill(self.kind["take"])
        self.values["$give"] = self.fill(self.kind["give"])
        self._used = set()

    def fill(self, value):
        """The value with all variables replaced, also in nested values; a variable that is a list is spread in a list."""
        if isinstance(value, dict):
            return {name: self.fill(part) for name, part in value.items()}
        if isinstance(value, list):
            found = []
            for part in value:
                filled = self.fill(part)
                found += filled if isinstance(part, str) and isinstance(filled, list) else [filled]
            return found
        if not isinstance(value, str) or "$" not in value:
            return value
        if value in self.values:
            return self.values[value]
        for name in sorted(self.values, key=len, reverse=True):
            if isinstance(self.values[name], str):
                value = value.replace(name, self.values[name])
        assert "$" not in value, f"unknown variable in {value}"
        return value

    def lock(self, which, changes):
        """The lock of a step: `lock`, `rival`, or a complete lock object."""
        if isinstance(which, str):
            which = self.kind.get(which, self.kind["lock"])
        lock = {**self.fill(which), **changes}
        if lock["kind"] != "semaphore":
            lock.pop("limit", None)  # a step that is played with several kinds may name it
        for one in [lock, *(member["lock"] for member in lock.get("members", []))]:
            self._used.update(one.get("keys", []))
        return lock

    def keys(self):
        """All keys that have been used."""
        return sorted({*self._used, self.values["$key"]})

    def locked(self):
        """The keys of the locks that were sent to runners."""
        return sorted(self._used)

    def note(self, hold, answer):
        """Defines $owner:NAME, $token:NAME and $item:NAME from an answer."""
        for field in ("owner", "token", "item"):
            if hold and answer.get(field) is not None:
                self.values[f"${field}:{hold}"] = answer[field]
