"""`make fuzz-commands`: random commands of all kinds, and checks of what must be true whatever they are: see README.md.

The Makefile passes what to run in the environment.
"""

import os
import sys
import time
import traceback
from pathlib import Path
from random import randrange

TOP = Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / "tests" / "integration"))

from batches import Batches  # noqa: E402
from checks import check_equal, check_settled, faults, leaks  # noqa: E402
from commands import commands_of  # noqa: E402
from director import Director  # noqa: E402
from harness import Servers, launching  # noqa: E402
from harness.waiting import set_scale, wait_for  # noqa: E402
from traffic import Traffic, replay, write_sent  # noqa: E402

KEPT = TOP / "build" / "fuzz-commands"

# After this many commands the connections are closed, and the servers are checked.
ROUND = 250_000


def setting(name, default):
    return type(default)(os.environ.get(name) or default)


def start(servers, cluster, io_threads):
    """A master and its replica; in a cluster a single node."""
    config = {"appendonly": "yes", "lock_fair_reserve": 50, "lock_session_grace": 50, "lock_default_lease": 200, "maxclients": 1000}
    if io_threads:
        config["io_threads"] = io_threads
    if not cluster:
        master = servers.make(**config)
        return [master, master.start_replica(**config)]
    node = servers.make(cluster_enabled="yes", **config)
    node.control.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_for(lambda: "cluster_state:ok" in str(node.control.execute_command("CLUSTER", "INFO")), 20, "the cluster to be up")
    return [node]


class Run:
    def __init__(self, servers, seed):
        self._servers = servers
        self._commands = commands_of(servers[0])
        self._director = Director(servers, seed)
        self._director.restore()
        batches = [Batches(self._commands, seed, slot) for slot in range(setting("CONNECTIONS", 100))]
        self.traffic = Traffic(batches, self._port_of)

    def _port_of(self, slot):
        """A few connections are to the replica, which has to refuse writes."""
        servers = self._director.servers
        return servers[-1 if slot % 20 == 19 else 0].port

    def round(self, commands):
        self.traffic.run(commands, self._director.step)
        self._settles()

    def granted(self):
        """Shows whether the commands have an effect on each other: grants at once, and after a wait."""
        counts = self._director.master.info("lock")
        return f"{counts['lock_granted_at_once']} locks granted at once, {counts['lock_granted_after_wait']} after a wait"

    def replay(self, path):
        replay(path, self._port_of)
        self._settles()

    def _settles(self):
        self.traffic.close()
        self._director.quiet()
        for server in self._servers:
            check_settled(server)
        check_equal(self._director.servers)
        self._director.servers[0].control.flushall()


def run_all(run, commands):
    traffic, begin = run.traffic, time.monotonic()
    while traffic.replied < commands:
        run.round(min(ROUND, commands - traffic.replied))
        print(f"{traffic.replied} commands in {time.monotonic() - begin:.0f} s, {run.granted()}", flush=True)


def main():
    set_scale(setting("SLOWNESS", 1.0))
    seed, failed = setting("SEED", randrange(2**32)), []
    print(f"SEED={seed}", flush=True)
    with launching("fuzz", keeps=lambda: bool(failed)) as launch:
        # Only now, because it is to be loaded only into servers.
        os.environ["LD_PRELOAD"] = setting("PRELOAD", "")
        os.environ["ASAN_OPTIONS"] = "verify_asan_link_order=0:detect_leaks=1:exitcode=0"
        os.environ["UBSAN_OPTIONS"] = "print_stacktrace=1"
        servers, made, run = Servers(launch), [], None
        try:
            made = start(servers, setting("CLUSTER", ""), setting("IO_THREADS", ""))
            run = Run(made, seed)
            if setting("REPLAY", ""):
                run.replay(setting("REPLAY", ""))
            else:
                run_all(run, setting("COMMANDS", 1_000_000))
        except Exception:
            failed.append(traceback.format_exc(limit=-2))
            if run:
                failed.append(f"{run.traffic.replied} commands had a reply")
                write_sent(run.traffic.sent, KEPT / f"{seed}.sent")
        failed += servers.end()
        for server in made:
            failed += faults(server) + leaks(server)
    for problem in failed:
        print(problem)
    if failed:
        print(f"failed: SEED={seed}; the last commands are in {KEPT / f'{seed}.sent'}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
