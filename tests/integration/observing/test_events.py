"""The keyspace events of the module: which events, in which order, and of which class."""

import pytest

from harness import scaled_ms, wait_for
from harness.listener import listen_for_events
from model.mutations import FAILURES, MUTATIONS, FAILS_AT_ONCE, TAKE, in_multi
from model.reported import REPORTED
from model.waiting_scene import say, wait_as  # noqa: F401


@pytest.mark.parametrize("name", REPORTED)
def test_command_sends_exactly_these_events(server, name):
    mutation = MUTATIONS[name]
    waiter = mutation.arrange(server, db=2)
    events = listen_for_events(server, "EA")
    server.client(db=2).execute_command(*mutation.command.split())
    mutation.check_waiter(waiter)
    received = [f"{channel} {key}" for channel, key in events.new_messages()]
    expected = [event if " " in event else f"{event} k" for event in REPORTED[name][1]]
    assert received == [f"__keyevent@2__:lock.{event}" for event in expected]


@pytest.mark.parametrize("name", FAILS_AT_ONCE)
def test_failed_command_sends_no_event(server, actor, name):
    for command in FAILURES[name].before:
        say(server, command)
    events = listen_for_events(server, "EA")
    actor().attempt(*FAILURES[name].command.split())
    assert events.new_messages() == []


def test_events_are_sent_to_the_keyspace_channel_too(server):
    events = listen_for_events(server, "KEd")
    say(server, TAKE)
    assert events.new_messages() == [("__keyspace@0__:k", "lock.granted"), ("__keyevent@0__:lock.granted", "k")]


def test_events_have_the_class_for_modules(server):
    events = listen_for_events(server, "KEg$hxe")
    say(server, TAKE)
    say(server, "LOCK.RELEASE k o")
    assert events.new_messages() == []


def test_events_of_a_transaction_keep_their_order(server, actor):
    events = listen_for_events(server, "Ed")
    in_multi(actor(), "LOCK.ACQUIRE a o", "LOCK.ACQUIRE b o", "LOCK.RELEASE a o", "LOCK.FORCE b")
    names = ["granted a", "granted b", "released a", "forced b"]
    assert [f"{channel.rpartition('.')[2]} {key}" for channel, key in events.new_messages()] == names


def test_events_when_a_lease_expires_that_a_client_waits_for(server, wait_as):
    say(server, TAKE)
    waiter = wait_as()
    events = listen_for_events(server, "EA")
    say(server, f"LOCK.RENEW k o PX {scaled_ms(300)}")
    assert waiter.reply() == 1
    names = ["__keyevent@0__:expired", "__keyevent@0__:lock.expired", "__keyevent@0__:lock.granted"]
    assert events.new_messages() == [(name, "k") for name in names]


def test_events_when_a_lease_expires_that_no_client_waits_for(server):
    events = listen_for_events(server, "EA")
    say(server, f"LOCK.ACQUIRE k o PX {scaled_ms(30)}")
    wait_for(lambda: server.control.exists("k") == 0, what="the lease to expire")
    assert events.new_messages() == [("__keyevent@0__:lock.granted", "k"), ("__keyevent@0__:expired", "k")]


def test_events_of_a_grant_after_del(server, wait_as):
    say(server, TAKE)
    waiter = wait_as()
    events = listen_for_events(server, "EA")
    server.control.delete("k")
    assert waiter.reply() == 1
    assert events.new_messages() == [("__keyevent@0__:del", "k"), ("__keyevent@0__:lock.granted", "k")]
