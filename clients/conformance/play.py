"""Plays a scenario: its steps, one after the other, and then the checks at the end of every scenario. See README.md."""

import itertools
import re
import signal
import time
from collections import Counter

import texts
from churn import Churn
from harness import Actor, limits, scaled, scaled_ms, wait_for
from redis.exceptions import ConnectionError, ResponseError
from words import Words, taken

# What a step expects of the answer.
EXPECTED = (
    *("error", "or_error", "text", "answer", "like", "sum", "at_least", "within_ms", "late_ms", "not_before_ms"),
    *("release", "becomes", "tries", "alike"),
)
# Times that grow with SLOWNESS.
SETTINGS = (
    *("lease_ms", "wait_ms", "max_block_ms", "connect_timeout_ms", "hold_ms", "timeout_ms", "delay_ms", "backoff_ms"),
    *("PX", "BLOCK"),
)
WITH_LOCK = ("acquire", "within", "count", "storm", "handoff", "crowd", "short_lived", "reenter", "locked", "info", "force")
# What accompanies another field of a step of the server.
DETAILS = ("reply", "key", "error", "within_ms", "has")


def matches(found, wanted):
    """Whether `found` has everything that is wanted, also in nested dicts and lists."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(name in found and matches(found[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(matches, found, wanted))
    return found == wanted


def _listed(value):
    return value if isinstance(value, list) else [value]


def _scaled_times(fields):
    found = dict(fields)
    for name in SETTINGS:
        if found.get(name):
            found[name] = scaled_ms(found[name])
    if "members" in found:
        found["members"] = [{**one, "lock": _scaled_times(one["lock"])} for one in found["members"]]
    return found


class Play:
    def __init__(self, scenario, kind, place, start_runner):
        self._scenario, self._place, self._start_runner = scenario, place, start_runner
        self._kind = kind
        self.words = Words(scenario, kind, place)
        self._runners, self._killed, self._begun, self._actors, self._churn = {}, set(), {}, {}, None
        self._stopped_at, self._measured, self._queues, self._rounds = None, {}, set(), itertools.count()

    def run(self):
        try:
            self._steps(self._scenario["steps"])
            self._end()
        finally:
            self._place.heal()
            if self._churn:
                self._churn.stop()
            for runner in self._runners.values():
                runner.end()
            for actor in self._actors.values():
                actor.close()

    def _steps(self, steps):
        for number, step in enumerate(steps):
            try:
                self._step(step)
            except AssertionError as error:
                raise AssertionError(f"step {number}, {step.get('who', 'a loop')}: {step}\n{error}") from None

    def _step(self, step):
        if "cuts" in step:
            self._cuts(step)
        elif "repeat" in step:
            for _ in range(step["repeat"]):
                self._round(step["steps"])
        else:
            step = self.words.fill(step)
            who = step.pop("who")
            handler = getattr(self, f"_{who}_step", None)
            if handler:
                handler(**step)
            else:
                self._runner_step(who, step)

    def _round(self, steps):
        """One round of a loop; its number is different in all loops."""
        self.words.values["$round"] = str(next(self._rounds))
        self._steps(steps)

    # Runners

    def _runner(self, who):
        if who not in self._runners:
            self._runners[who] = runner = self._start_runner(who)
            if self._scenario.get("connect", True):
                settings = _scaled_times(self._scenario.get("client", {}))
                for name, to in self._place.factories().items():
                    runner.answer(runner.say("connect", **{"as": name}, to=to, **settings))
        return self._runners[who]

    def _runner_step(self, who, step):
        runner = self._runner(who)
        if "signal" in step:
            if step["signal"] == "KILL":
                runner.kill()
                self._killed.add(who)
                self._begun = {name: begun for name, begun in self._begun.items() if begun[0] is not runner}
            else:
                runner.signal(getattr(signal, f"SIG{step['signal']}"))
        elif "hears" in step:
            self._await_answer(step.pop("hears"), step)
        elif "silent" in step:
            assert not runner.has_answered(self._begun[step["silent"]][1]), f"{step['silent']} has been answered"
        elif "event" in step:
            self._await_event(runner, step)
        elif "no_event" in step:
            wanted = self._event(step["no_event"])
            assert not runner.events(wanted), f"{runner} sent {runner.events(wanted)}"
        elif "log" in step:
            self._await_log(runner, step)
        elif "measure" in step:
            self._measured[step["measure"]] = self._size(runner)
        elif "grown" in step:
            self._await_size(runner, **step["grown"])
        else:
            self._ask(runner, step)

    def _ask(self, runner, step):
        begin, expected = step.pop("begin", None), {}
        for name in EXPECTED:
            if name in step:
                expected[name] = step.pop(name)
        if "lock" in step or step["do"] in WITH_LOCK:
            step["lock"] = _scaled_times(self.words.lock(step.get("lock", "lock"), step.pop("with", {})))
        if step["do"] == "connect":
            step.setdefault("to", self._place.to_server(step.pop("of")) if "of" in step else self._place.to)
        if "queue" in step:
            self._queues.add(step["queue"])
        if step["do"] == "leave":
            step["of"] = self._begun[step["of"]][1]
        if "becomes" in expected:
            self._ask_until(runner, step, expected)
            return
        again = {"connection"}
        for left in reversed(range(expected.pop("tries", 1))):
            if self._ask_once(runner, step, expected, begin, again if left else ()):
                return
            if expected.get("error") != "not_acquired":
                again.add("not_acquired")  # the request before may still be there: its owner is another one

    def _ask_once(self, runner, step, expected, begin, again):
        """Returns whether there was another answer than one of the errors in `again`."""
        step = dict(step)
        started = time.monotonic()
        number = runner.say(step.pop("do"), **_scaled_times(step))
        name = begin or f"request {number}"
        self._begun[name] = (runner, number, started, step.get("as"))
        return begin is not None or self._await_answer(name, expected, again)

    def _ask_until(self, runner, step, expected):
        """Repeats the request until the answer is as wanted."""

        def asked():
            answer = runner.answer(runner.say(**step))
            assert matches(answer, expected["becomes"]), f"{runner} answered {answer}"
            return True

        wait_for(asked, expected["within_ms"] / 1000, f"{expected['becomes']}")

    def _await_answer(self, name, expected, again=()):
        runner, number, started, hold = self._begun.pop(name)
        limit = expected.get("within_ms")
        answer = runner.answer(number, (30 if limit is None else limit / 1000) + 20)
        took = (time.monotonic() - started) * 1000
        if answer.get("error") in again:
            return False
        self._check(runner, answer, expected)
        # How long a package may take for its own work does not grow with the waits; but a stall may exceed it.
        late = expected.get("late_ms", 0)
        limits.note(late / 1000, limits.caller())
        assert limit is None or took <= scaled_ms(limit) + late, f"{runner} took {took:.0f} ms: {answer}"
        assert took >= scaled_ms(expected.get("not_before_ms", 0)), f"{runner} took only {took:.0f} ms: {answer}"
        self.words.note(hold, answer)
        if "release" in expected and "error" not in answer:
            runner.answer(runner.say("release", **{"as": expected["release"]}))
        return True

    @staticmethod
    def _check(runner, answer, expected):
        error = expected.get("error")
        if error is not None:
            assert answer.get("error") in _listed(error), f"{runner} answered {answer}"
        elif answer.get("error") not in _listed(expected.get("or_error")):
            assert "error" not in answer, f"{runner} answered {answer}\n{runner.last_words()}"
        missing = texts.missing(answer.get("text", ""), expected.get("text", [])) if error or "error" in answer else []
        assert not missing, f"{runner} answered {answer}, without {missing}"
        assert matches(answer, expected.get("answer", {})), f"{runner} answered {answer}"
        for name, pattern in expected.get("like", {}).items():
            assert re.fullmatch(pattern, str(answer[name])), f"{runner} answered {answer}: {name} is not like {pattern}"
        for names, wanted in expected.get("sum", {}).items():
            assert sum(answer[name] for name in names.split()) == wanted, f"{runner} answered {answer}"
        for name, least in expected.get("at_least", {}).items():
            assert answer[name] >= least, f"{runner} answered {answer}"
        for name, count in expected.get("alike", {}).items():
            assert len(answer[name]) == count and len(set(answer[name])) == 1, f"{runner} answered {answer}"

    def _event(self, wanted):
        """The event that is wanted; `of` names the request that has begun."""
        wanted = dict(wanted)
        if "of" in wanted:
            wanted["id"] = self._begun[wanted.pop("of")][1]
        return wanted

    def _await_event(self, runner, step):
        started = time.monotonic()
        runner.event(self._event(step["event"]), step.get("within_ms", 20000) / 1000 + 10)
        took = (time.monotonic() - started) * 1000
        assert took <= scaled_ms(step.get("within_ms", 30000)), f"the event came after {took:.0f} ms"
        if "not_before_ms" in step:  # since the server was stopped: requests since then have taken time, too
            took = (time.monotonic() - self._stopped_at) * 1000
            assert took >= scaled_ms(step["not_before_ms"]), f"the event came after only {took:.0f} ms"

    @staticmethod
    def _await_log(runner, step):
        """Waits until lines of the log have all these parts: one line, or the given number of `times`."""

        def logged():
            found = [line for line in runner.log() if not texts.missing(line, step["log"])]
            assert len(found) == step.get("times", max(1, len(found))), f"{len(found)} such lines: {found}"
            return True

        wait_for(logged, step.get("within_ms", 10000) / 1000, f"{step['log']} in the log of {runner}")

    def _size(self, runner):
        """The threads of a runner, and the connections to the servers."""
        clients = sum(len(server.control.client_list()) for server in self._place.live())
        return {"threads": runner.threads(), "connections": clients}

    def _await_size(self, runner, since, **most):
        def small():
            found = self._size(runner)
            grown = {name: found[name] - self._measured[since][name] for name in most}
            assert all(grown[name] <= most[name] for name in most), f"{runner} has grown by {grown}: {found}"
            return True

        wait_for(small, 10, f"{runner} to have grown by at most {most}")

    # The server, as the driver sees it: without the proxy

    def _server_step(self, of=0, **step):
        for name, value in step.items():
            if name not in DETAILS:
                getattr(self, f"_server_{name}")(self._place.servers[of], value, step)

    def _server_say(self, server, command, step):
        try:
            reply = self._place.say(server, command)
        except ResponseError as error:
            reply = str(error)
            assert "error" in step and reply.startswith(step["error"]), reply
        if "reply" in step:
            assert reply == step["reply"], f"the server replied {reply!r}"

    def _info(self, server, step):
        return self._place.lock_info(step.get("key", self.words.values["$key"]), server)

    def _server_waiting(self, server, count, step):
        limit = step.get("within_ms", 20000) / 1000
        wait_for(lambda: (self._info(server, step) or {}).get("waiting", 0) == count, limit, f"{count} waiters")

    def _server_latch_waiting(self, server, count, _):
        """Waits until this number of clients wait for latches."""
        wait_for(lambda: server.info("lock")["lock_latch_waiters"] == count, 20, f"{count} clients that wait for latches")

    def _server_held(self, server, wanted, step):
        def held():
            info = self._info(server, step)
            found = info["holders"] if info else []
            assert len(found) == wanted.get("holders", 1), f"holders: {found}"
            assert all(matches(one, wanted.get("each", {})) for one in found), f"holders: {found}"
            return True

        wait_for(held, 20, f"{wanted}")

    def _server_left_ms(self, server, limits, step):
        """Waits until the lease that is left of each holder is between these two limits."""
        least, most = map(scaled_ms, limits)

        def is_left():
            found = [one["pttl"] for one in (self._info(server, step) or {"holders": []})["holders"]]
            assert found and all(least <= left <= most for left in found), f"leases of {found} ms are left"
            return True

        wait_for(is_left, 2, f"leases of {least} to {most} ms")

    def _server_waiter(self, server, name, step):
        """The owner of the first waiter, as $owner:NAME."""
        self.words.values[f"$owner:{name}"] = self._info(server, step)["waiters"][0]["owner"]

    def _server_watched(self, server, __, ___):
        """Waits until all keys in use are watched, if the scenario requests that; the first key of a session always is."""
        for key in self.words.locked():
            wait_for(lambda key=key: (self._info(server, {"key": key}) or {}).get("watchers", 0) > 0, 20, f"{key} to be watched")

    def _server_watchers(self, server, count, _):
        wait_for(lambda: server.info("lock")["lock_watchers"] == count, 20, f"{count} watches")

    def _server_called(self, server, commands, step):
        """Waits until the server has executed one of these commands, since the last CONFIG RESETSTAT."""

        def called():
            return any(f"cmdstat_{name}" in server.info("commandstats") for name in commands)

        wait_for(called, step.get("within_ms", 20000) / 1000, f"one of {commands}")

    def _server_calls(self, server, wanted, _):
        """How often the server has executed a command since the last CONFIG RESETSTAT."""
        command, count = wanted
        calls = server.info("commandstats").get(f"cmdstat_{command.lower()}", {}).get("calls", 0)
        assert calls == count, f"{calls} calls of {command}"

    def _server_list(self, server, name, step):
        """Waits until the list has exactly these elements."""
        limit = step.get("within_ms", 20000) / 1000

        def listed():
            found = self._place.say(server, ["LRANGE", name, 0, -1])
            assert found == step["has"], f"{name} has {found}"
            return True

        wait_for(listed, limit, f"the list {name}")

    def _pending(self, server, queue):
        return [value for _, _, value in self._place.say(server, ["DELAY.LIST", queue])]

    def _server_pending(self, server, values, step):
        """Waits until the delayed queue has exactly these elements, in this order."""
        queue = self.words.values["$queue"]
        wait_for(lambda: self._pending(server, queue) == values, step.get("within_ms", 20000) / 1000, f"{values}")

    def _server_drained(self, _, __, step):
        """Waits until nothing is left of the delayed queues, except what has failed."""
        wait_for(self._queues_are_empty, step.get("within_ms", 20000) / 1000, "the queues to be empty")

    def _queues_are_empty(self):
        for queue in self._queues if self._place.masters() else ():
            server = self._place.servers[0]
            for name in (queue, taken(queue)):
                found = self._place.say(server, ["LRANGE", name, 0, -1])
                assert not found, f"{name} has {found}"
            assert not self._pending(server, queue), f"{queue}: {self._pending(server, queue)} are pending"
        return True

    def _server_counter_over(self, server, least, _):
        wait_for(lambda: int(server.control.get(self.words.values["$counter"]) or 0) > least, 60, f"more than {least}")

    def _server_unused(self, server, *_):
        """No command of the module has been sent."""
        sent = [name for name in server.info("commandstats") if name.startswith(("cmdstat_lock", "cmdstat_latch", "cmdstat_delay"))]
        assert not sent, f"{server} has executed {sent}"

    def _server_in_step(self, *_):
        self._place.in_step()

    def _server_failover(self, server, *_):
        self._place.wait_failover(server)

    def _server_follows(self, server, *_):
        self._place.wait_follows(server)

    def _server_is_master(self, server, *_):
        wait_for(lambda: server.info("replication")["role"] == "master", 60, f"{server} to be the master")

    def _server_free(self, server, _, step):
        wait_for(lambda: self._info(server, step) is None, step.get("within_ms", 5000) / 1000, "the lock to be free")

    def _server_life(self, server, what, _):
        self._stopped_at = time.monotonic()
        self._place.life(server, what)

    def _server_pass_ms(self, server, ms, _):
        server.let_pass(scaled_ms(ms))

    def _server_config(self, server, values, _):
        for name, value in values.items():
            server.control.config_set(name, scaled_ms(value) if name.startswith("lock.") else value)

    def _server_counted(self, server, wanted, _):
        """The counter has the value that it has only if no two workers incremented it at the same time."""
        sets = server.control.info("commandstats").get("cmdstat_set", {}).get("calls", 0)
        count = int(server.control.get(self.words.values["$counter"]) or 0)
        assert count == sets, f"{sets} increments were made, and the counter is {count}"
        assert count >= wanted, f"only {count} increments"

    # Other actors

    def _other_step(self, say=None, reply="anything", blocks=False, hears=False, **step):
        """A connection of the driver's own, named by `as`: a step sends a command, and a later one may await the reply."""
        name = step.get("as", "other")
        if name not in self._actors:
            self._actors[name] = Actor(self._place.servers[step.get("of", 0)], name)
        actor = self._actors[name]
        if say:
            actor.send(*say)
        if blocks:
            actor.wait_blocked()
            return
        received = actor.outcome(20)
        assert reply == "anything" or received == reply, f"{name} received {received!r}"

    def _sentinel_step(self, life, of=0):
        self._place.life(self._place.sentinels[of], life)

    def _driver_step(self, less=None, **step):
        if less:
            assert less[0] < less[1], f"{less[0]} is not less than {less[1]}"
        if "handled" in step:
            self._await_handled(**step)

    def _await_handled(self, handled, at_most=None, within_ms=20000):
        """Waits until the handlers of all processes have received this number of different values."""

        def calls():
            return Counter(job["value"] for runner in self._runners.values() for job in runner.events({"event": "job"}))

        wait_for(lambda: len(calls()) == handled, within_ms / 1000, f"{handled} values to be handled")
        repeated = {value: count for value, count in calls().items() if at_most and count > at_most}
        assert not repeated, f"handled more than {at_most} times: {repeated}"

    def _wire_step(self, of=0, **step):
        for name, value in step.items():
            wire = self._place.wires[of]
            if name == "healed":
                wait_for(wire.has_healed, 20, "the proxy to heal")
            elif name in ("lose", "delay", "heal_after"):
                getattr(wire, name)(value)
            elif name == "has_cut":
                assert wire.has_cut() == value, "it has cut" if wire.has_cut() else "it has not cut"
            elif name == "cut":
                wire.cut(**value)
            elif name == "heal":
                wire.heal(late=value == "late")
            else:
                getattr(wire, name)()

    def _churn_step(self, run):
        """Another client that acquires and releases the lock all the time."""
        if run:
            server = self._place.servers[0]
            self._churn = Churn(server, self.words.fill(self.words.kind["take"]), self.words.fill(self.words.kind["give"]))
        else:
            churn, self._churn = self._churn, None
            churn.stop()
            assert churn.rounds > 0, "the churn client has never acquired the lock"

    def _cut_once(self, steps, command, where):
        [wire] = self._place.wires
        wire.cut(command, **where)
        self._round(steps)
        return wire.has_cut()

    def _cuts(self, step):
        """Plays its steps again and again, each time with the connection cut one byte later, until no cut happens."""
        command, way, done = self.words.fill(step["command"]), step["cuts"], 0
        every = step["every"]
        if isinstance(every, dict):
            every = every.get(self._kind, every["*"])
        for left in range(0, 10000, every):
            attempts = 5 if done < step["at_least"] else 1  # a try may have no time to connect
            if not any(self._cut_once(step["steps"], command, {way: left}) for _ in range(attempts)):
                break
            done += 1
        self._place.wires[0].heal()
        assert done >= step["at_least"], f"only {done} cuts happened"

    # The end

    def _end(self):
        assert not self._begun, f"the scenario has not awaited {sorted(self._begun)}"
        wait_for(self._nothing_is_left, self._scenario.get("left_s", 5), "nothing to be left")
        wait_for(self._queues_are_empty, self._scenario.get("left_s", 5), "the queues to be empty")
        for who, runner in self._runners.items():
            if who not in self._killed:
                runner.quit()
                lost = runner.events({"event": "lost"})
                assert not lost, f"{runner} sent {lost}"

    def _nothing_is_left(self):
        for key in self.words.keys():
            try:
                infos = self._place.lock_infos(key)
            except ConnectionError as error:
                raise AssertionError(str(error)) from None
            assert not any(infos), f"LOCK.INFO {key}: {infos}"
        for server in self._place.masters():
            info = server.info("lock")
            waiters = info["lock_waiters"] + info["lock_latch_waiters"]
            assert waiters == 0, f"{waiters} waiters"
        return True
