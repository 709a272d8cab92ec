"""The programs of docs/recipes.md next to other clients: their purpose, and what they do when a client dies.

test_doc_examples.py tests that each program works alone, test_recipe_tree.py many processes that change one tree.
"""

import os
import signal

import pytest

from harness import scaled, wait_for
from harness.examples import programs_of, start_program
from harness.schedule import as_map
from model.recipes_scene import PAGE, holder_of, kill, output_of, source_of, wait_waiting, with_language

HOUR = 3_600_000
each_language = pytest.mark.parametrize("language", ["sh", "python"])
each_variant = pytest.mark.parametrize("language", ["sh", "python", "package"])


@pytest.fixture
def start(server):
    """start(title, language, …): starts the program; it is killed at the end of the test."""
    programs = []

    def start(*which, on=server, **how):
        language = "python" if which[1] == "package" else which[1]
        programs.append(start_program(on, language, source_of(*which, **how)))
        return programs[-1]

    yield start
    for program in programs:
        kill(program)


# All programs: an error, or no reply, is neither a grant nor a reason to repeat the request without end

ALL = {
    "leader": ("A leader", 0),
    "nightly job": ("A nightly job of many hosts", 0),
    "nightly job that has to be done": ("A nightly job of many hosts", 1),
    "rate limit": ("A rate limit", 0),
    "cache": ("A cache that is filled once", 0),
    "work stealing": ("Work stealing", 0),
    "barrier": ("A barrier", 0),
    "tree": ("Locks on a tree", 0),
    "handing over": ("Handing over when another client wants the lock", 0),
}
# Those that are also shown with the package.
PACKAGE = {
    "leader": "A leader",
    "nightly job that has to be done": "A nightly job of many hosts",
    "rate limit": "A rate limit",
    "cache": "A cache that is filled once",
    "work stealing": "Work stealing",
    "barrier": "A barrier",
    "tree": "Locks on a tree",
}
each_program = pytest.mark.parametrize("which", ALL)
WORK_IS_THERE = {
    "sh": [("ask SADD jobs:w2 17 > /dev/null || exit 1", ":")],
    "python": [('server.sadd("jobs:w2", 17)', "pass")],
}


def fails_without_work(program):
    said, complaints = program.communicate(timeout=scaled(60))
    assert said == ""
    assert complaints != ""
    assert program.returncode not in (0, None)


def test_all_programs_are_tested():
    languages = [name for name, _ in map(with_language, programs_of(PAGE))]
    assert len(languages) == 2 * len(ALL) + len(PACKAGE) and languages.count("package") == len(PACKAGE)


@each_language
@each_program
def test_program_without_a_server_fails(make_server, start, which, language):
    server = make_server()
    server.kill()
    title, number = ALL[which]
    changes = WORK_IS_THERE[language] if which == "work stealing" else ()
    fails_without_work(start(title, language, number, changes=changes, on=server))


@each_language
@each_program
def test_program_that_is_refused_fails(server, start, which, language):
    title, number = ALL[which]
    server.control.sadd("jobs:w2", 17)
    server.control.config_set("maxmemory", 1)
    changes = WORK_IS_THERE[language] if which == "work stealing" else ()
    fails_without_work(start(title, language, number, changes=changes))
    assert server.control.keys() == ["jobs:w2"]


@pytest.mark.parametrize("which", PACKAGE)
@pytest.mark.parametrize("how", ["without a server", "refused"])
def test_package_program_fails(make_server, start, which, how):
    server = make_server()
    server.control.sadd("jobs:w2", 17)
    if how == "refused":
        server.control.config_set("maxmemory", 1)
    else:
        server.kill()
    # The jobs of the dead server are not needed: the program fails before.
    changes = WORK_IS_THERE["python"] if which == "work stealing" and how == "refused" else ()
    fails_without_work(start(PACKAGE[which], "package", changes=changes, on=server))


# The lock that a program waits for, and what it does when another client ends its wait: it waits again (None), or ends
# with this status.
WAITS = {
    ("leader", "sh"): ("leader", 1),
    ("leader", "python"): ("leader", None),
    ("nightly job that has to be done", "sh"): ("job", None),
    ("nightly job that has to be done", "python"): ("job", None),
    ("rate limit", "sh"): ("api", 75),
    ("rate limit", "python"): ("api", 0),
    ("tree", "sh"): ("{tree}/", 75),
    ("tree", "python"): ("{tree}/", None),
    ("handing over", "sh"): ("disk", 1),
    ("handing over", "python"): ("disk", None),
}


@pytest.mark.parametrize(("which", "language"), WAITS)
def test_wait_that_another_client_ends_is_no_grant(server, start, which, language):
    key, status = WAITS[which, language]
    if key == "api":
        server.control.execute_command("LOCK.SEMAPHORE", key, "first", 5, "PERMITS", 5, "PX", HOUR)
    else:
        server.control.execute_command("LOCK.ACQUIRE", key, "first", "PX", HOUR)
    title, number = ALL[which]
    program = start(title, language, number)
    wait_waiting(server, 1)
    info = as_map(server.control.execute_command("LOCK.INFO", key))
    [waiter] = map(as_map, info["waiters"])
    assert server.control.execute_command("LOCK.CANCEL", key, waiter["owner"]) == 1
    if status is None:
        wait_waiting(server, 1)
    else:
        assert output_of(program) == ""
        assert program.returncode == status
    assert holder_of(server, key) == ["first"]


# A leader

ENDLESS = {
    "sh": [("echo working", "exec sleep 3600")],
    "python": [('print("working")', "lost.wait(0.01)"), ("return False", "return True")],
}
ENDLESS["package"] = ENDLESS["python"]


def leads(server, start, language, **how):
    leader = start("A leader", language, changes=ENDLESS[language], **how)
    wait_waiting(server, 1, "lock_watchers")
    return leader


@each_language
def test_leader_that_has_lost_the_lock_stops_at_once(server, start, language):
    leader = leads(server, start, language)
    assert leader.poll() is None
    server.control.execute_command("LOCK.FORCE", "leader")
    assert output_of(leader) == ""
    assert holder_of(server, "leader") == []


@each_language
def test_next_leader_follows_one_that_was_killed(server, start, language):
    leader = leads(server, start, language)
    [first] = holder_of(server, "leader")
    start("A leader", language, changes=ENDLESS[language])
    wait_waiting(server, 1)
    kill(leader)
    if language == "sh":
        server.control.pexpire("leader", 1)  # the lease expires
    wait_for(lambda: holder_of(server, "leader") not in ([], [first]), scaled(20), "the next leader")


@each_language
def test_leader_of_a_silent_server_stops(make_server, start, language):
    server = make_server()
    leader = leads(server, start, language, on=server)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        assert output_of(leader) == ""
    finally:
        os.kill(server.pid, signal.SIGCONT)


def test_leader_whose_watch_fails_in_any_way_stops(start):
    # Not with an error: its thread would still be writing it to stderr when the program ends, and then Python aborts.
    watch = 'watcher.execute_command("LOCK.WATCH", "leader", owner, "BLOCK", 3000) is None'
    changes = [*ENDLESS["python"], (watch, "exit()")]
    leader = start("A leader", "python", changes=changes)
    leader.communicate(timeout=scaled(30))
    assert leader.returncode == 0


# A nightly job


@each_language
def test_job_runs_on_one_host_also_if_another_is_late(server, start, language):
    hosts = [start("A nightly job of many hosts", language) for _ in range(3)]
    assert sorted(map(output_of, hosts)) == ["", "", "working\n"]
    assert output_of(start("A nightly job of many hosts", language)) == ""
    [night] = server.control.keys()
    assert server.control.pttl(night) > 23 * HOUR


@each_language
def test_job_that_has_to_be_done_is_done_by_the_next_host(server, start, language):
    server.control.execute_command("LOCK.ACQUIRE", "job", "dead", "PX", HOUR)
    hosts = [start("A nightly job of many hosts", language, 1) for _ in range(2)]
    wait_waiting(server, 2)
    server.control.pexpire("job", 1)
    assert sorted(map(output_of, hosts)) == ["", "working\n"]
    assert output_of(start("A nightly job of many hosts", language, 1)) == ""
    [done] = server.control.keys()
    assert done.startswith("done:")


FAILS = {"sh": [("echo working", "false")], "python": [('print("working")', "exit(1)")]}


@each_language
def test_job_that_fails_is_left_to_the_next_host(server, start, language):
    host = start("A nightly job of many hosts", language, 1, changes=FAILS[language])
    assert output_of(host) == ""
    assert host.returncode == 1
    assert server.control.keys() == []
    assert output_of(start("A nightly job of many hosts", language, 1)) == "working\n"


# A rate limit


@each_language
def test_request_beyond_the_rate_waits(server, start, language):
    for request in range(5):
        assert server.control.execute_command("LOCK.SEMAPHORE", "api", request, 5, "PX", HOUR) == 1
    early = start("A rate limit", language)
    wait_waiting(server, 1)
    server.control.execute_command("LOCK.RENEW", "api", 3, "PX", 1)
    assert output_of(early) == "working\n"
    assert len(holder_of(server, "api")) in (4, 5)  # its own second may have passed


# A cache


@each_variant
def test_others_read_what_one_computes(server, start, language):
    server.control.set("page:busy", 1, px=HOUR)
    others = [start("A cache that is filled once", language) for _ in range(3)]
    wait_waiting(server, 3, "lock_latch_waiters")
    server.control.set("page", "computed")
    server.control.execute_command("LATCH.DOWN", "page:busy")
    assert list(map(output_of, others)) == ["computed\n"] * 3


@each_variant
def test_another_computes_when_the_first_has_died(server, start, language):
    server.control.set("page:busy", 1, px=HOUR)
    others = [start("A cache that is filled once", language) for _ in range(2)]
    wait_waiting(server, 2, "lock_latch_waiters")
    server.control.pexpire("page:busy", 1)
    assert list(map(output_of, others)) == ["working\n"] * 2
    assert server.control.keys() == ["page"]


NOT_COMPUTED = {
    "it prints nothing": ("sh", "echo working", ":"),
    "it fails": ("sh", "echo working", "echo half; return 1"),
    "the value is refused": ("sh", "echo working", "redis-cli -p 6379 CONFIG SET maxmemory 1 > /dev/null; echo working"),
    "it fails in Python": ("python", '"working"', "1 / 0"),
    "the value is refused in Python": ("python", '"working"', 'server.config_set("maxmemory", 1) and "working"'),
}


@pytest.mark.parametrize("why", NOT_COMPUTED)
def test_client_that_cannot_compute_lets_the_next_one_try(server, start, why):
    language, *change = NOT_COMPUTED[why]
    client = start("A cache that is filled once", language, changes=[change])
    said, _ = client.communicate(timeout=scaled(60))
    assert said == ""
    assert client.returncode == 1
    assert server.control.keys() == []


@each_variant
def test_client_that_may_not_wait_does_not_retry_without_end(server, actor, start, language):
    server.control.set("page:busy", 1, px=HOUR)
    server.control.config_set("lock.max-waiters", 1)
    waits = actor()
    waits.send("LATCH.WAIT", "page:busy", "BLOCK", 0)
    waits.wait_blocked()
    fails_without_work(start("A cache that is filled once", language))


# Work stealing


@each_language
def test_job_of_a_worker_that_has_died_is_stolen(server, actor, start, language):
    server.control.config_set("lock.session-grace", 0)
    worker = actor()
    worker.call("LOCK.ACQUIRE", "job:17", "w2-1", "SESSION")
    assert output_of(start("Work stealing", language)) == ""
    assert server.control.smembers("jobs:w2") == {"17"}
    worker.kill_socket()
    wait_for(lambda: holder_of(server, "job:17") == [], what="the job to be free")
    assert output_of(start("Work stealing", language)) == "working\n"
    assert server.control.keys() == []


@each_language
def test_job_that_fails_is_not_removed(server, start, language):
    assert output_of(start("Work stealing", language, changes=FAILS[language])) == ""
    wait_for(lambda: server.control.keys() == ["jobs:w2"], scaled(20), "the job to be free")


# A barrier

ONE_IS_MISSING = {"sh": [("arrive &\narrive &\n", "arrive &\n")], "python": [("range(2)", "range(1)")]}
ONE_IS_MISSING["package"] = ONE_IS_MISSING["python"]
ENDS = ("raise", "exit(75)\n        raise")
SHORT = {
    "sh": [("BLOCK 60000", "BLOCK 50")],
    "python": [("wait_ms=60_000", "wait_ms=50"), ENDS],
    "package": [("wait=60", "wait=0.05"), ENDS],
}


@each_variant
def test_workers_do_not_pass_the_barrier_before_all_have_arrived(server, start, language):
    workers = start("A barrier", language, changes=ONE_IS_MISSING[language])
    wait_waiting(server, 2, "lock_latch_waiters")
    assert server.control.execute_command("LATCH.DOWN", "meeting") == 0
    assert output_of(workers) == "working\n"


@each_variant
def test_workers_do_not_pass_the_barrier_if_one_never_arrives(server, start, language):
    workers = start("A barrier", language, changes=[*ONE_IS_MISSING[language], *SHORT[language]])
    assert output_of(workers) == ""
    assert workers.returncode != 0
    assert server.control.get("meeting") == "1"


# Locks on a tree


def work_in(server, *path):
    """Writes a directory, as a process does that works only there."""
    above = [f"{{tree}}/{'/'.join(path[:depth])}" for depth in range(len(path) + 1)]
    request = (len(above), *above, path[-1], "MODES", *["READ"] * len(path), "WRITE")
    assert server.control.execute_command("LOCK.MACQUIRE", *request) == len(above)
    return lambda: server.control.execute_command("LOCK.MRELEASE", *request)


@each_variant
def test_directory_is_written_when_all_work_below_it_has_ended(server, start, language):
    works_elsewhere, works_below = work_in(server, "else"), work_in(server, "home", "old", "below")
    program = start("Locks on a tree", language)
    wait_waiting(server, 1)
    works_below()
    assert output_of(program) == "working\n"
    assert works_elsewhere() == 2


@pytest.mark.parametrize("language", ["sh", "package"])
def test_work_on_a_subtree_leaves_its_siblings_free(server, start, language):
    works = work_in(server, "home", "new")
    assert output_of(start("Locks on a tree", language)) == "working\n"
    assert works() == 3


def test_locks_on_a_tree_are_free_when_their_process_has_died(server, start):
    server.control.config_set("lock.session-grace", 0)
    stops = [("old, new = find(source.parent), find(target.parent)", "__import__('signal').pause()")]
    first = start("Locks on a tree", "python", changes=stops)
    wait_for(lambda: holder_of(server, "{tree}/home"), scaled(20), "the first process to work")
    second = start("Locks on a tree", "python")
    wait_waiting(server, 1)
    kill(first)
    assert output_of(second) == "working\n"
    assert sorted(server.control.keys()) == ["{tree}:2", "{tree}:root"]


# Handing over


@each_language
def test_lock_is_handed_over_after_the_step(server, actor, start, language):
    steps = [("in working;", "in one two;")] if language == "sh" else [('["working"]', '["one", "two"]')]
    before, wants = actor(), actor()
    before.call("LOCK.ACQUIRE", "disk", "before")
    job = start("Handing over when another client wants the lock", language, changes=steps)
    wait_waiting(server, 1)
    wants.send("LOCK.ACQUIRE", "disk", "wants", "BLOCK", 0)
    wants.wait_blocked()
    before.call("LOCK.RELEASE", "disk", "before")
    assert wants.reply(timeout=20) == 1
    wait_waiting(server, 1)  # the job waits behind it
    assert job.poll() is None
    wants.call("LOCK.RELEASE", "disk", "wants")
    assert output_of(job) == "one\ntwo\n"
    assert server.control.keys() == []


# With the package


def test_leader_with_the_package_stops_at_once_when_it_has_lost_the_lock(server, start):
    leader = leads(server, start, "package")
    server.control.execute_command("LOCK.FORCE", "leader")
    said, complaints = leader.communicate(timeout=scaled(60))
    assert said == "" and 'NotHeld: lock "leader" is not held' in complaints


def test_next_leader_with_the_package_follows_one_that_was_killed(server, start):
    leader = leads(server, start, "package")
    [first] = holder_of(server, "leader")
    start("A leader", "package", changes=ENDLESS["package"])
    wait_waiting(server, 1)
    kill(leader)
    wait_for(lambda: holder_of(server, "leader") not in ([], [first]), scaled(20), "the next leader")


def test_job_with_the_package_is_done_by_the_next_host(server, start):
    server.control.execute_command("LOCK.ACQUIRE", "job", "dead", "PX", HOUR)
    hosts = [start("A nightly job of many hosts", "package") for _ in range(2)]
    wait_waiting(server, 2)
    server.control.pexpire("job", 1)
    assert sorted(map(output_of, hosts)) == ["", "working\n"]
    [done] = server.control.keys()
    assert done.startswith("done:")


def test_request_with_the_package_waits_for_a_permit(server, start):
    server.control.execute_command("LOCK.SEMAPHORE", "api", "others", 5, "PERMITS", 5, "PX", HOUR)
    early = start("A rate limit", "package")
    wait_waiting(server, 1)
    server.control.execute_command("LOCK.RELEASE", "api", "others", "PERMITS", 1)
    assert output_of(early) == "working\n"


def test_job_of_a_dead_worker_is_stolen_with_the_package(server, actor, start):
    server.control.config_set("lock.session-grace", 0)
    worker = actor()
    worker.call("LOCK.ACQUIRE", "job:17", "w2-1", "SESSION")
    assert output_of(start("Work stealing", "package")) == ""
    worker.kill_socket()
    wait_for(lambda: holder_of(server, "job:17") == [], what="the job to be free")
    assert output_of(start("Work stealing", "package")) == "working\n"
    assert server.control.keys() == []
