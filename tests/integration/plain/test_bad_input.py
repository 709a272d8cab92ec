"""Bad input gets a clear error with its code, changes nothing and leaves no client blocked."""

import re

import pytest

from harness import code_of
from model.bad_arguments import ACQUIRING, ALL, BAD_BESIDE_REPLICAS, BLOCK, CONTRADICTORY, COUNT, CUT_SHORT
from model.bad_arguments import CUT_SHORT_REPLICAS, FEW_REPLICAS, FIXED_LENGTH, LEASE, NO_BLOCK, NO_LEASE, NO_OWNER
from model.bad_arguments import NUMKEYS, OTHER_TYPES, OWNER_RESERVED, REPLICAS, REPLICAS_TIME, SEVERAL, SYNTAX
from model.bad_arguments import TWICE_REPLICAS, UNKNOWN, WITH_BLOCK, WITH_LEASE, WITH_OWNER, WRONG_TYPE
from model.lock_scene import HOUR


def words_of(command, *more, key="k", owner="o"):
    return [{"k": key, "o": owner}.get(word, word) for word in command.split()] + [*more]


@pytest.fixture
def refuses(server, some_resp, actor):
    """refuses(words, text): the command is refused once, with exactly this text, and changes nothing."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", HOUR)
    server.control.execute_command("LOCK.ACQUIRE", "other", "o", "PX", HOUR)
    server.control.set("text", "a text")
    client = actor()

    def refuse(words, text):
        server.all_searched()
        before = server.dump(), server.control.dbsize(), server.info("lock")
        # A command that blocks instead is found by the time limit of attempt().
        error = client.attempt(*words)
        assert code_of(error) == text.split()[0]
        assert re.match(re.escape(text), str(error))
        assert client.call("ECHO", "once") == "once", "it got two replies"
        assert (server.dump(), server.control.dbsize(), server.info("lock")) == before
        assert server.blocked_clients() == 0

    return refuse


# Numbers of arguments


TOO_FEW = [command.split()[:count] for command in ALL for count in range(1, len(command.split()))]


@pytest.mark.parametrize("words", TOO_FEW, ids=" ".join)
def test_too_few_arguments_are_refused(refuses, words):
    refuses(words, "ERR wrong number of arguments")


@pytest.mark.parametrize("command", FIXED_LENGTH)
def test_too_many_arguments_are_refused(resp, refuses, command):
    refuses(words_of(command, "more"), "ERR wrong number of arguments")


def test_release_accepts_one_mode_only(refuses):
    for more in ["more"], ["READ", "READ"], ["READ", "WRITE"], ["write", "read"], ["READ", "more"], ["PX", "1"]:
        refuses(words_of("LOCK.RELEASE k o", *more), SYNTAX)


def test_cancel_release_accepts_the_options_of_release_only(refuses):
    one, permits = "RELEASE", "ERR permits is not an integer from 1 to 2147483647"
    for more in ["more"], ["READ"], ["WRITE"], ["PERMITS", "1"], ["PX", "1"], ["SESSION"], ["RELEAS"], ["RELEASE\0"]:
        refuses(words_of("LOCK.CANCEL k o", *more), SYNTAX)
    for more in [one], ["READ", "READ"], ["READ", "WRITE"], ["READ", "PERMITS", "1"], ["PERMITS"], ["1"], ["PX", "1"]:
        refuses(words_of("LOCK.CANCEL k o", one, *more), SYNTAX)
    for number in "0", "-1", "2147483648", "x", "":
        refuses(words_of("LOCK.CANCEL k o", one, "PERMITS", number), permits)


# Leases


@pytest.mark.parametrize("value", NO_LEASE.values(), ids=NO_LEASE)
@pytest.mark.parametrize("option", ["PX", "EX"])
@pytest.mark.parametrize("command", WITH_LEASE)
def test_bad_lease_is_refused(refuses, command, option, value):
    refuses(words_of(command, option, value), LEASE)


@pytest.mark.parametrize("seconds", [9223372036854775, 9223372036854775807 // 1000 + 1, 2**62])
@pytest.mark.parametrize("command", WITH_LEASE)
def test_seconds_that_overflow_in_milliseconds_are_refused(refuses, command, seconds):
    refuses(words_of(command, "EX", str(seconds)), LEASE)


@pytest.mark.parametrize("unit, unit_ms", [("PX", 1), ("EX", 1000)])
@pytest.mark.parametrize("command", WITH_LEASE)
def test_lease_that_overflows_when_added_to_now_is_refused(server, refuses, command, unit, unit_ms):
    # Time only increases, so what overflows now also overflows later.
    first_too_long = (2**63 - 1 - server.now_ms()) // unit_ms + 1
    refuses(words_of(command, unit, str(first_too_long)), LEASE)


# How long to wait


@pytest.mark.parametrize("value", NO_BLOCK.values(), ids=NO_BLOCK)
@pytest.mark.parametrize("command", WITH_BLOCK)
def test_bad_timeout_is_refused(refuses, command, value):
    refuses(words_of(command, "BLOCK", value), BLOCK)


@pytest.mark.parametrize("value", NO_BLOCK.values(), ids=NO_BLOCK)
@pytest.mark.parametrize("command", WITH_BLOCK)
def test_bad_timeout_is_refused_when_another_owner_holds_the_lock(refuses, command, value):
    refuses(words_of(command, "BLOCK", value, owner="w"), BLOCK)


# How many replicas, and how long to wait for them


@pytest.mark.parametrize("value", [*NO_LEASE.values(), str(2**31)], ids=[*NO_LEASE, "2**31"])
@pytest.mark.parametrize("command", WITH_LEASE)
def test_bad_number_of_replicas_is_refused(refuses, command, value):
    refuses(words_of(command, "REPLICAS", value, "5"), REPLICAS)


@pytest.mark.parametrize("value", NO_LEASE.values(), ids=NO_LEASE)
@pytest.mark.parametrize("command", WITH_LEASE)
def test_bad_time_for_replicas_is_refused(refuses, command, value):
    refuses(words_of(command, "REPLICAS", "1", value), REPLICAS_TIME)


@pytest.mark.parametrize("command", WITH_LEASE)
def test_time_for_replicas_that_overflows_when_added_to_now_is_refused(server, refuses, command):
    refuses(words_of(command, "REPLICAS", "1", str(2**63 - server.now_ms())), REPLICAS_TIME)
    refuses(words_of(command, "REPLICAS", "1", str(2**62)), FEW_REPLICAS)


@pytest.mark.parametrize("options", [*CUT_SHORT_REPLICAS, *TWICE_REPLICAS])
@pytest.mark.parametrize("command", WITH_LEASE)
def test_replicas_is_given_once_with_two_values(refuses, command, options):
    text = REPLICAS if options.startswith("REPLICAS 0") else SYNTAX
    refuses(words_of(command, *options.split()), text)


@pytest.mark.parametrize("options, text", BAD_BESIDE_REPLICAS.items())
@pytest.mark.parametrize("command", WITH_LEASE)
def test_bad_values_next_to_replicas_are_refused(refuses, command, options, text):
    refuses(words_of(command, *options.split()), text)


@pytest.mark.parametrize("options", ["REPLICAS 1 5", "REPLICAS 2147483647 5 PX 1000", "SESSION replicas 1 5"])
@pytest.mark.parametrize("command", [*WITH_LEASE, *(f"{command} BLOCK 0" for command in ACQUIRING)])
def test_more_replicas_than_are_connected_are_refused(refuses, command, options):
    refuses(words_of(command, *options.split()), FEW_REPLICAS)


@pytest.mark.parametrize("command", ["LOCK.WATCH k o", "LOCK.RELEASE k o", "LOCK.MRELEASE 1 k o", "LOCK.INFO k"])
def test_replicas_is_no_option_of_other_commands(refuses, command):
    refuses(words_of(command, "REPLICAS", "1", "5"), SYNTAX)


# Options


@pytest.mark.parametrize("options", CONTRADICTORY)
@pytest.mark.parametrize("command", WITH_LEASE)
def test_contradictory_options_are_refused(refuses, command, options):
    refuses(words_of(command, *options.split()), SYNTAX)


@pytest.mark.parametrize("options", CUT_SHORT)
@pytest.mark.parametrize("command", WITH_LEASE)
def test_option_without_its_value_is_refused(refuses, command, options):
    text = LEASE if options in ("PX EX", "PX PX 1000") else SYNTAX
    refuses(words_of(command, *options.split()), text)


@pytest.mark.parametrize("options", UNKNOWN)
@pytest.mark.parametrize("command", WITH_LEASE)
def test_unknown_option_is_refused(refuses, command, options):
    refuses(words_of(command, *options.split(" ")), SYNTAX)


@pytest.mark.parametrize("options", ["BLOCK", "BLOCK 0 BLOCK 0", "BLOCK 0 block 5", "BLOCK 0 PX 1000 BLOCK 0"])
@pytest.mark.parametrize("command", WITH_BLOCK)
def test_repeated_or_incomplete_block_is_refused(refuses, command, options):
    refuses(words_of(command, *options.split()), SYNTAX)


def test_renew_has_no_block_option(refuses):
    refuses(words_of("LOCK.RENEW k o BLOCK 0"), SYNTAX)


@pytest.mark.parametrize(
    "options, text",
    [
        ("more", SYNTAX),
        ("COUNT", SYNTAX),
        ("COUNT 1 COUNT 1", SYNTAX),
        ("PX 1000", SYNTAX),
        ("COUNT -1", COUNT),
        ("COUNT x", COUNT),
        ("COUNT 1.5", COUNT),
        ("COUNT 9223372036854775808", COUNT),
    ],
)
def test_bad_options_of_info_are_refused(refuses, options, text):
    refuses(words_of("LOCK.INFO k", *options.split()), text)


def test_option_and_lease_may_be_given_only_once(refuses):
    for command in WITH_BLOCK:
        refuses(words_of(command, "FENCED", "FENCED"), SYNTAX)
    for command in WITH_LEASE:
        refuses(words_of(command, "SESSION", "SESSION"), SYNTAX)
        refuses(words_of(command, "SESSION", "PX", "1000"), SYNTAX)
        refuses(words_of(command, "EX", "1", "SESSION"), SYNTAX)


# Numbers of keys

NO_NUMKEYS = NO_LEASE | {"too many": "1025", "2**32 + 1": str(2**32 + 1), "a key": "k"}


@pytest.mark.parametrize("value", NO_NUMKEYS.values(), ids=NO_NUMKEYS)
@pytest.mark.parametrize("command", SEVERAL)
def test_bad_number_of_keys_is_refused(refuses, command, value):
    name, _, *rest = words_of(command)
    refuses([name, value, *rest], NUMKEYS)


@pytest.mark.parametrize("rest", ["2 k o", "3 k o", "3 k other o", "1024 k o"])
@pytest.mark.parametrize("command", SEVERAL)
def test_fewer_keys_than_numkeys_or_no_owner_is_refused(refuses, command, rest):
    refuses([command.split()[0], *rest.split()], SYNTAX)


@pytest.mark.parametrize("command", SEVERAL)
def test_more_keys_than_numkeys_are_refused(refuses, command):
    # The second key is the owner, and the owner an option.
    refuses([command.split()[0], "1", "k", "other", "o"], SYNTAX)


@pytest.mark.parametrize("command", SEVERAL)
def test_largest_number_of_keys_without_an_owner_is_refused(refuses, command):
    refuses([command.split()[0], "1024", *["k"] * 1024], SYNTAX)


@pytest.mark.parametrize("more", ["FENCED", "READ", "WRITE", "COUNT 1"])
@pytest.mark.parametrize("command", SEVERAL)
def test_options_of_other_commands_are_refused(refuses, command, more):
    refuses(words_of(command, *more.split()), SYNTAX)


@pytest.mark.parametrize("more", ["PX 1000", "EX 1", "SESSION", "BLOCK 0"])
def test_multikey_release_has_no_options(refuses, more):
    refuses(words_of("LOCK.MRELEASE 1 k o", *more.split()), SYNTAX)


# Owners


@pytest.mark.parametrize("owner, text", NO_OWNER.values(), ids=NO_OWNER)
@pytest.mark.parametrize("key", ["k", "free", "text"], ids=["held", "free", "no lock"])
@pytest.mark.parametrize("command", WITH_OWNER)
def test_bad_owner_is_refused(refuses, command, key, owner, text):
    refuses(words_of(command, key=key, owner=owner), text)


@pytest.mark.parametrize("owner, text", NO_OWNER.values(), ids=NO_OWNER)
@pytest.mark.parametrize("command", SEVERAL)
def test_bad_owner_after_several_keys_is_refused(refuses, command, owner, text):
    refuses([command.split()[0], "3", "k", "mode", "other", owner], text)


@pytest.mark.parametrize("command", WITH_BLOCK)
def test_bad_owner_of_a_blocking_request_is_refused(refuses, command):
    refuses(words_of(command, "BLOCK", "0", owner="mode"), OWNER_RESERVED)


# Keys that are no locks


@pytest.mark.parametrize("make", OTHER_TYPES.values(), ids=OTHER_TYPES)
@pytest.mark.parametrize("command", [*ALL, *(f"{command} BLOCK 0" for command in WITH_BLOCK)])
def test_key_of_another_type_is_refused(server, refuses, command, make):
    # A stream is compared by DUMP, and Valgrind reports errors in the server's compression.
    server.control.config_set("rdbcompression", "no")
    server.control.delete("k")
    server.control.execute_command(*make.split())
    server.control.pexpire("k", HOUR)
    refuses(words_of(command), WRONG_TYPE)


@pytest.mark.parametrize("keys", ["text k other", "k text other", "k other text", "text text text"])
@pytest.mark.parametrize("command", ["LOCK.MACQUIRE 3 {} o", "LOCK.MACQUIRE 3 {} o BLOCK 0", "LOCK.MRELEASE 3 {} o"])
def test_one_of_several_keys_of_another_type_is_refused(refuses, command, keys):
    refuses(command.format(keys).split(), WRONG_TYPE)
