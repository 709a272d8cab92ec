"""The server does not reply, or is unreachable: nothing continues past the lease, and what may continue does."""

from signal import SIGCONT, SIGHUP, SIGINT, SIGTERM

import pytest

from harness import scaled, scaled_ms, wait_for
from harness.proxy import CommandProxy
from runs import LOST, holders, lives, stopped, wait_free, wait_watched

DEAF = [SIGTERM, SIGHUP, SIGINT]
# Long compared with the delays of a busy machine; renewed every second.
LEASE = scaled(3)
LEASE_MS = scaled_ms(3000)


def lease_end(server):
    """When the lease ends, by the server's clock, which is the machine's."""
    return server.control.execute_command("PEXPIRETIME", "k")


def wait_renewed(server):
    """Waits for a renewal; returns when the new lease ends."""
    before = lease_end(server)
    wait_for(lambda: lease_end(server) > before, 20, "a renewal")
    return lease_end(server)


def begin(run, place, command, *options):
    held = run(place, *options, "k", *command.words)
    command.wait_begun()
    return held


def goes_on(server, held, command):
    """The command still has the lock, the lock is watched, and lockctl ends with the status of the command."""
    command.wait_beat()
    assert command.heard() == [] and held.stderr == ""
    assert len(holders(server, "k")) == 1
    wait_watched(server, "k")
    command.finish(9)
    assert held.wait() == 9
    wait_free(server, "k")


# Nothing continues past the lease


def outlives_nothing(server, held, command, end):
    """The command was notified, then killed with all its descendants, before the lease expired."""
    assert held.wait() == LOST
    assert "it could not be renewed" in held.stderr
    assert command.heard() == [SIGTERM]
    assert not any(map(lives, command.pids))
    assert max(command.beats()) < end


@pytest.mark.parametrize("grace", [600, 0.5], ids=["long grace", "short grace"])
def test_a_server_that_hangs(server, run, witness, grace):
    command = witness("beat", hear=DEAF, depth=2)
    held = begin(run, server, command, "--lease", LEASE, "--grace", scaled(grace))
    other = server.actor("other")
    other.send("LOCK.ACQUIRE", "k", "other", "BLOCK", 0)
    other.wait_blocked()
    end = wait_renewed(server)
    with stopped(server):
        outlives_nothing(server, held, command, end)
    # No other client is granted the lock before that.
    assert other.reply(30) == 1
    assert max(command.beats()) < server.now_ms()


def test_all_descendants_end_at_once(server, run, witness):
    # To end each one only after its parent has ended would take too long.
    command = witness("beat", hear=DEAF, depth=9)
    held = begin(run, server, command, "--lease", LEASE, "--grace", 600)
    end = wait_renewed(server)
    with stopped(server):
        outlives_nothing(server, held, command, end)


def test_a_session_at_a_server_that_hangs(make_server, run, witness):
    server = make_server(lock_default_lease=LEASE_MS)
    command = witness("beat", hear=DEAF)
    held = begin(run, server, command, "--grace", 600)
    end = wait_renewed(server)
    with stopped(server):
        outlives_nothing(server, held, command, end)


def test_no_connection_any_more(server, run, witness, wire):
    command = witness("beat", hear=DEAF, depth=1)
    held = begin(run, wire, command, "--lease", LEASE, "--grace", 600)
    end = wait_renewed(server)
    wire.refuse()
    outlives_nothing(server, held, command, end)


def test_a_network_that_swallows(server, run, witness, wire):
    command = witness("beat", hear=DEAF)
    held = begin(run, wire, command, "--lease", LEASE, "--grace", 600)
    end = wait_renewed(server)
    wire.swallow()
    outlives_nothing(server, held, command, end)


def test_answers_that_come_too_late(server, run, witness, wire):
    # The server renews the lease, which is then longer than lockctl can know.
    command = witness("beat", hear=DEAF)
    held = begin(run, wire, command, "--lease", LEASE, "--grace", 600)
    end = wait_renewed(server)
    renewals = wire.hold("LOCK.RENEW")
    outlives_nothing(server, held, command, end)
    assert renewals.has_arrived()
    renewals.release()


@pytest.mark.parametrize("error", ["-NOPERM no", "-OOM no", "-MISCONF no", "-ERR what is that", "-LOADING wait", "+OK"])
def test_errors_in_place_of_renewals(server, run, witness, wire, error):
    command = witness("beat", hear=DEAF)
    held = begin(run, wire, command, "--lease", LEASE, "--grace", 600)
    end = wait_renewed(server)
    wire.answer("LOCK.RENEW", error)
    outlives_nothing(server, held, command, end)


def test_a_user_who_may_not_any_more(server, run, witness):
    command = witness("beat", hear=DEAF)
    held = begin(run, server, command, "--lease", LEASE, "--grace", 600)
    end = wait_renewed(server)
    server.control.execute_command("ACL", "SETUSER", "default", "-lock.renew")
    outlives_nothing(server, held, command, end)


def test_a_command_that_hears_of_it_has_a_third_of_the_lease(server, run, tmp_path):
    # The background process says that it has begun: before its exec it would have the shell's handler, and lose the signal.
    child = f'sh -c "touch {tmp_path}/begun; exec sleep 600"'
    script = f"trap 'sleep 0.1; echo put away > {tmp_path}/done; exit 0' TERM; {child} & wait"
    held = run(server, "--lease", LEASE, "--grace", 600, "k", "sh", "-c", script)
    wait_for((tmp_path / "begun").exists, 20, "the command to run")
    with stopped(server):
        assert held.wait() == LOST
    assert (tmp_path / "done").read_text() == "put away\n"


# What may continue does: with a lease


def test_cut_off(server, run, witness, wire):
    command = witness("beat", hear=DEAF)
    held = begin(run, wire, command, "--lease", LEASE)
    wire.close_all()
    wait_renewed(server)
    wait_renewed(server)
    goes_on(server, held, command)


def test_cut_off_for_a_while(server, run, witness, wire):
    command = witness("beat", hear=DEAF)
    held = begin(run, wire, command, "--lease", LEASE)
    wait_renewed(server)
    wire.refuse()
    server.let_pass(LEASE_MS // 5)
    wire.heal()
    wait_renewed(server)
    goes_on(server, held, command)


def test_both_connections_killed(server, run, witness):
    command = witness("beat", hear=DEAF)
    held = begin(run, server, command, "--lease", LEASE)
    for _ in range(3):
        wait_watched(server, "k")
        assert server.control.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") >= 2
    wait_renewed(server)
    goes_on(server, held, command)


def test_cut_behind_a_renewal(server, run, witness, wire):
    command = witness("beat", hear=DEAF)
    held = begin(run, wire, command, "--lease", LEASE)
    wire.cut("LOCK.RENEW", reply=0)
    wait_for(wire.has_cut, 20, "a renewal to be cut off")
    wait_renewed(server)
    goes_on(server, held, command)


@pytest.mark.parametrize("error", ["-MISCONF no", "-LOADING wait", "-READONLY no", "-BUSY wait", "-CLUSTERDOWN wait"])
def test_errors_that_pass(server, run, witness, wire, error):
    command = witness("beat", hear=DEAF)
    held = begin(run, wire, command, "--lease", LEASE)
    wait_renewed(server)
    before = wire.commands.count("LOCK.RENEW")
    wire.answer("LOCK.RENEW", error)
    wait_for(lambda: wire.commands.count("LOCK.RENEW") > before, 20, "a renewal")
    wire.heal()
    wait_renewed(server)
    goes_on(server, held, command)


@pytest.mark.parametrize("config", [{"appendonly": "yes", "appendfsync": "always"}, {}], ids=["aof", "rdb"])
def test_a_server_that_starts_again(make_server, run, witness, config):
    server = make_server(**config)
    command = witness("beat", hear=DEAF)
    held = begin(run, server, command, "--lease", LEASE * 2)
    wait_renewed(server)
    if config:
        server.kill()
        server.start()
    else:
        server.restart(save=True)
    wait_renewed(server)
    goes_on(server, held, command)


def test_a_server_that_has_forgotten(server, run, witness):
    command = witness("beat")
    held = begin(run, server, command, "--lease", scaled(60))
    server.kill()
    server.start()
    assert held.wait() == LOST
    assert not lives(command.pid)


def test_a_server_that_hangs_for_a_moment(server, run, witness):
    command = witness("beat", hear=DEAF)
    held = begin(run, server, command, "--lease", LEASE)
    wait_renewed(server)
    with stopped(server):
        # The server cannot be queried for the time while it is stopped, so count beats.
        before = len(command.beats())
        wait_for(lambda: len(command.beats()) > before + 50, 20, "the command to continue meanwhile")
    wait_renewed(server)
    goes_on(server, held, command)


# The watch


def test_without_the_right_to_watch(server, run, witness):
    server.control.execute_command("ACL", "SETUSER", "default", "-lock.watch")
    command = witness("beat")
    held = begin(run, server, command, "--lease", LEASE)
    wait_renewed(server)
    wait_renewed(server)
    assert command.heard() == [] and held.stderr == ""
    # Renewals detect the loss, a little later.
    server.control.execute_command("LOCK.FORCE", "k")
    assert held.wait() == LOST
    assert held.stderr == "lockctl: k: the lock is lost: its lease has expired\n"


def test_the_watch_comes_back(server, run, witness, wire):
    command = witness("beat")
    held = begin(run, wire, command, "--lease", scaled(60))
    wait_watched(server, "k")
    wire.close_all()
    wait_for(lambda: wire.commands.count("LOCK.WATCH") == 2, 20, "lockctl to watch again")
    wait_watched(server, "k")
    server.control.execute_command("LOCK.FORCE", "k")
    assert held.wait() == LOST


# What may continue does: with a session


def session_of(server):
    found = holders(server, "k")
    return found[0]["session"] if found else None


@pytest.mark.parametrize("how", ["cut", "killed"])
def test_a_session_finds_another_connection(make_server, run, witness, how):
    server = make_server(lock_session_grace=scaled_ms(1000))
    command = witness("beat", hear=DEAF)
    with CommandProxy(server.port) as wire:
        held = begin(run, wire, command)
        before = session_of(server)
        if how == "cut":
            wire.close_all()
        else:
            server.control.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        wait_for(lambda: session_of(server) not in (None, before), what="another session")
        server.let_pass(scaled_ms(1500))
        goes_on(server, held, command)


def test_a_session_that_is_cut_off_for_a_moment(make_server, run, witness):
    server = make_server(lock_session_grace=scaled_ms(1000))
    command = witness("beat", hear=DEAF)
    with CommandProxy(server.port) as wire:
        held = begin(run, wire, command)
        before = session_of(server)
        wire.refuse()
        wait_for(lambda: wire.refused > 0, what="lockctl to be refused")
        wire.heal()
        wait_for(lambda: session_of(server) not in (None, before), what="another session")
        goes_on(server, held, command)


@pytest.mark.parametrize("grace", [0.3, 600], ids=["short grace", "long grace"])
def test_a_session_that_is_cut_off(make_server, run, witness, grace):
    # lockctl assumes one second, whatever the setting is: the rest is a reserve for a machine on which it is late.
    server = make_server(lock_session_grace=scaled_ms(1000))
    command = witness("beat", hear=DEAF, depth=1)
    with CommandProxy(server.port) as wire:
        held = begin(run, wire, command, "--grace", grace)
        other = server.actor("other")
        other.send("LOCK.ACQUIRE", "k", "other", "BLOCK", 0)
        other.wait_blocked()
        wire.refuse()
        assert other.reply(30) == 1
        granted = server.now_ms()
        assert held.wait() == LOST
    assert command.heard() == [SIGTERM]
    assert not any(map(lives, command.pids))
    assert max(command.beats()) < granted


def test_a_session_that_is_cut_off_and_lockctl_late(server, run, witness, wire):
    """A late lockctl may still count on a session while it is connected, but not after it was cut off."""
    command = witness("beat", hear=DEAF)
    held = begin(run, wire, command)
    other = server.actor("other")
    other.send("LOCK.ACQUIRE", "k", "other", "BLOCK", 0)
    other.wait_blocked()
    wire.answer("LOCK.RENEW", "-ERR no")
    wire.answer("LOCK.WATCH", "-ERR no")
    wire.commands.clear()
    wire.close_all()
    wait_for(lambda: "LOCK.RENEW" in wire.commands, what="a renewal on a new connection")
    held.stop()
    assert other.reply(30) == 1
    server.let_pass(300)  # more than it may be late on a busy machine
    held.tell(SIGCONT)
    assert held.wait() == LOST
    assert not any(map(lives, command.pids))


def test_a_session_without_any_grace(make_server, run, witness):
    server = make_server(lock_session_grace=0)
    command = witness("beat")
    held = begin(run, server, command)
    wait_watched(server, "k")
    server.control.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    assert held.wait() == LOST


# The end


@pytest.mark.parametrize("hold", ["session", "lease"])
def test_the_server_hangs_when_the_command_ends(server, run, witness, hold):
    command = witness()
    held = begin(run, server, command, *(["--lease", scaled(60)] if hold == "lease" else []))
    with stopped(server):
        command.finish(9)
        # It held the lock until then. That the release cannot be sent does not change the status of the command.
        assert held.wait() == 9
    assert "the lock was not released" in held.stderr
    if hold == "session":
        wait_free(server, "k")


def test_the_server_is_gone_when_the_command_ends(server, run, witness, wire):
    command = witness()
    held = begin(run, wire, command, "--lease", scaled(60))
    wire.refuse()
    command.finish(9)
    assert held.wait() == 9
    assert "the lock was not released" in held.stderr


def test_the_server_is_gone_for_a_moment_when_the_command_ends(server, run, witness, wire):
    command = witness()
    held = begin(run, wire, command, "--lease", scaled(60))
    wire.close_all()
    command.finish(9)
    assert (held.wait(), held.stderr) == (9, "")
    wait_free(server, "k")
