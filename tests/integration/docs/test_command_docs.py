"""COMMAND DOCS, COMMAND INFO and the pages in docs/commands agree, and each command has all three."""

import re
from functools import cache
from pathlib import Path

import pytest

from model import bad_arguments as bad

TOP = Path(__file__).resolve().parents[3]
PAGES = {page.stem: page for page in (TOP / "docs" / "commands").glob("*.md")}

ACQUISITIONS = ["lock.acquire", "lock.fair", "lock.macquire", "lock.rwread", "lock.rwwrite", "lock.semaphore"]
COMMANDS = [*ACQUISITIONS, "lock.cancel", "lock.force", "lock.guard", "lock.info", "lock.release", "lock.renew"]
COMMANDS += ["lock.top"]
COMMANDS += ["lock.mrelease", "lock.mrenew", "lock.watch", "latch.set", "latch.down", "latch.wait"]
COMMANDS += ["delay.push", "delay.cancel", "delay.list"]
COMMANDS.sort()
LISTING = ["lock.info", "lock.top", "delay.list"]
WATCHING = ["lock.watch", "latch.wait"]
READ_ONLY = ["lock.info", "delay.list", *WATCHING]
SEVERAL = ["lock.macquire", "lock.mrelease", "lock.mrenew"]
# These commands are about the whole server, and have no keys.
WITHOUT_KEYS = ["lock.top"]
each_command = pytest.mark.parametrize("name", COMMANDS)
each_page = pytest.mark.parametrize("name", sorted({*COMMANDS} & {*PAGES}))
each_page_with_keys = pytest.mark.parametrize("name", sorted({*COMMANDS} & {*PAGES} - {*WITHOUT_KEYS}))
HEADER = ["Syntax", "Summary", "Since", "Complexity", "Arity", "Flags", "ACL categories", "Keys"]


@cache
def header_of(name):
    """The header block of a command's page, as a dict."""
    title, _, block = PAGES[name].read_text().partition("\n\n```text\n")
    assert title == f"# {name.upper()}"
    lines = block.partition("\n```\n")[0].splitlines()
    return dict(line.split(": ", 1) for line in lines)


@pytest.fixture
def ask(server):
    """ask("DOCS", name): the reply to COMMAND, in RESP3, which has maps."""
    return lambda *words: server.actor(protocol=3).call("COMMAND", *words)


@pytest.fixture
def docs(ask):
    return lambda name: ask("DOCS", name)[name]


@pytest.fixture
def info(ask):
    """info(name): the reply to COMMAND INFO with its elements by name."""
    names = ["name", "arity", "flags", "first", "last", "step", "categories", "tips", "keys", "subcommands"]
    return lambda name: dict(zip(names, ask("INFO", name)[0], strict=True))


def syntax_of(argument):
    """How a page writes an argument that COMMAND DOCS describes."""
    again = None
    if argument["type"] == "oneof":
        text = again = " | ".join(syntax_of(choice) for choice in argument["arguments"])
        if "token" in argument:
            text = f"{argument['token']} <{text}>"
    elif argument["type"] == "block":
        parts = map(syntax_of, argument["arguments"])
        text = " ".join(filter(None, [argument.get("token"), *parts]))
    elif argument["type"] == "pure-token":
        text = argument["token"]
    else:
        text = " ".join(filter(None, [argument.get("token"), argument["name"]]))
    flags = argument.get("flags", [])
    if "multiple" in flags:
        text += f" [{again or text} ...]"
    return f"[{text}]" if "optional" in flags else text


def all_arguments(arguments):
    for argument in arguments:
        yield argument
        yield from all_arguments(argument.get("arguments", []))


# Commands and pages


def test_every_command_of_the_module_is_tested_here(ask):
    assert sorted(ask("LIST", "FILTERBY", "MODULE", "lock")) == COMMANDS


def test_every_command_has_a_page_and_every_page_a_command():
    assert sorted(PAGES) == COMMANDS


@pytest.mark.parametrize("page", ["README.md", "docs/README.md"])
def test_index_lists_every_command(page):
    text = (TOP / page).read_text()
    assert [name for name in COMMANDS if f"commands/{name}.md" not in text] == []


@each_page
def test_page_has_the_whole_header(name):
    assert list(header_of(name)) == HEADER


@pytest.mark.parametrize("page", [TOP / "README.md", *PAGES.values()], ids=lambda page: page.name)
def test_no_list_is_split_by_a_blank_line(page):
    assert re.findall(r"^(?:\* |  \S).*\n\n\* .*", page.read_text(), re.M) == []


SECTIONS = ["Blocking behavior", "Inside MULTI, a script or a function", "Replies", "Errors", "Examples", "See also"]


@each_page
def test_page_has_the_sections_that_all_have(name):
    text = PAGES[name].read_text()
    assert [section for section in SECTIONS if f"\n## {section}\n" not in text] == []


ERRORS = {
    bad.WRONG_TYPE: [*bad.ALL, *bad.DELAYS, *bad.LATCHES],
    bad.NO_NUMBER: bad.LATCHES,
    bad.BY: ["LATCH.DOWN"],
    bad.OWNER_LENGTH: bad.WITH_OWNER,
    bad.OWNER_RESERVED: bad.WITH_OWNER,
    bad.LEASE: [*bad.WITH_LEASE, "LATCH.SET"],
    bad.BLOCK: [*bad.WITH_BLOCK, "LATCH.WAIT"],
    bad.COUNT: ["LOCK.INFO", "LOCK.TOP", "DELAY.LIST", "LATCH.SET"],
    bad.NUMKEYS: bad.SEVERAL,
    bad.SYNTAX: [*bad.WITH_LEASE, *bad.SEVERAL, "LOCK.INFO", "LOCK.TOP", "DELAY.LIST", "LOCK.WATCH", "LOCK.CANCEL"]
    + ["LATCH.SET", "LATCH.WAIT"],
    bad.DELAY: ["DELAY.PUSH"],
    bad.EMPTY_ID: ["DELAY.PUSH"],
}


@each_page
def test_page_lists_the_errors_of_the_command(name):
    own = [text for text, commands in ERRORS.items() if name.upper() in (c.split()[0] for c in commands)]
    listed = PAGES[name].read_text().partition("\n## Errors\n")[2]
    if header_of(name)["Arity"] != "-1":
        own.append(f"ERR wrong number of arguments for '{name}' command")
    for text in own:
        assert f"| `{text}` |" in listed


# COMMAND DOCS


@each_page
def test_docs_and_page(docs, name):
    found, header = docs(name), header_of(name)
    assert found["summary"] == header["Summary"]
    assert found["since"] == header["Since"]
    assert found["complexity"] == header["Complexity"]
    assert (found["group"], found["module"]) == ("module", "lock")


@each_page
def test_syntax_of_docs_and_page(docs, name):
    words = [name.upper(), *map(syntax_of, docs(name)["arguments"])]
    assert " ".join(words) == header_of(name)["Syntax"]


@each_command
def test_arguments_are_shown_by_their_own_names(docs, name):
    # redis-cli's hints show the display text, if the server has one.
    for argument in all_arguments(docs(name)["arguments"]):
        assert argument.get("display_text", argument["name"]) == argument["name"]


@each_command
def test_types_of_arguments(docs, name):
    types = {"key": "key", "owner": "string", "lease": "oneof", "milliseconds": "integer", "seconds": "integer"}
    types |= {"count": "integer", "mode": "oneof", "read": "pure-token", "write": "pure-token"}
    types |= {"numkeys": "integer", "fenced": "pure-token", "once": "pure-token"}
    types |= {"session": "pure-token", "command": "string", "arg": "string"}
    types |= {"replicas": "block", "n": "integer"}
    types |= {"limit": "integer", "permits": "integer"}
    types |= {"wanted": "pure-token", "expiry": "oneof", "by": "integer"}
    types |= {"list": "key", "id": "string", "value": "string", "reset": "pure-token"}
    types |= {"gives-up": "block", "release": "pure-token"}
    for argument in all_arguments(docs(name)["arguments"]):
        assert argument["type"] == types[argument["name"]]
        assert argument.get("key_spec_index") == (0 if argument["type"] == "key" else None)


# COMMAND INFO


@each_page
def test_arity_of_info_and_page(info, name):
    assert str(info(name)["arity"]) == header_of(name)["Arity"]


@each_page
def test_flags_of_info_and_page(info, name):
    assert sorted(info(name)["flags"]) == sorted(header_of(name)["Flags"].split())


@each_page
def test_categories_of_info_and_page(server, info, name):
    # Redis 7.0 has no categories for the commands of modules.
    can_say = server.is_valkey or server.version >= (7, 2)
    expected = header_of(name)["ACL categories"].split() if can_say else []
    assert sorted(info(name)["categories"]) == sorted(expected)


@each_page
def test_categories_are_those_of_acl(server, name):
    if not (server.is_valkey or server.version >= (7, 2)):
        return
    for category in header_of(name)["ACL categories"].split():
        assert name in server.control.acl_cat(category.removeprefix("@"))


ONE_KEY = {"type": "range", "spec": {"lastkey": 0, "keystep": 1, "limit": 0}}
# For commands with one key and with several: the range in INFO, how the keys are found, the text of the page.
KEYS = {
    False: ((1, 1, 1), ONE_KEY, "1"),
    True: ((2, 2, 1), {"type": "keynum", "spec": {"keynumidx": 0, "firstkey": 1, "keystep": 1}}, "numkeys"),
}


@each_page_with_keys
def test_keys_of_info_and_page(info, name):
    found = info(name)
    first_last_step, find, place = KEYS[name in SEVERAL]
    assert (found["first"], found["last"], found["step"]) == first_last_step
    spec, *more = found["keys"]
    assert spec["begin_search"] == {"type": "index", "spec": {"index": 1}}
    assert spec["find_keys"] == find
    flags = header_of(name)["Keys"].split()
    assert flags[0] == place
    assert sorted(spec["flags"]) == sorted(flags[1:])
    # The first of several keys is listed once more, for clients that route by INFO's range alone.
    routes = {"begin_search": {"type": "index", "spec": {"index": 2}}, "find_keys": ONE_KEY}
    assert [{part: other[part] for part in routes} for other in more] == [routes] * (name in SEVERAL)
    assert ["not_key" in other["flags"] for other in more] == [True] * len(more)


@pytest.mark.parametrize("name", WITHOUT_KEYS)
def test_no_keys(ask, info, name):
    found = info(name)
    assert (found["first"], found["last"], found["step"], found["keys"]) == (0, 0, 0, [])
    assert header_of(name)["Keys"] == "none"


@each_page_with_keys
def test_keys_of_a_call(ask, name):
    more = {"lock.renew": "k o EX 1", "lock.info": "k COUNT 5", "lock.force": "k", "lock.guard": "k o ping"}
    more.update(dict.fromkeys(ACQUISITIONS, "k o PX 1 BLOCK 0"))
    more |= {"lock.macquire": "3 k l k o PX 1 BLOCK 0", "lock.mrelease": "3 k l k o", "lock.mrenew": "3 k l k o PX 1"}
    more |= {"lock.watch": "k o WANTED BLOCK 0", "latch.set": "k 1 PX 1", "latch.down": "k 2", "latch.wait": "k BLOCK 0"}
    more |= {"delay.push": "k i 1 v", "delay.cancel": "k i i", "delay.list": "k COUNT 5"}
    keys = ["k", "l", "k"] if name in SEVERAL else ["k"]
    call = [name, *more.get(name, "k o").split()]
    assert ask("GETKEYS", *call) == keys
    found = ask("GETKEYSANDFLAGS", *call)
    assert [key for key, _ in found] == keys
    expected = sorted(header_of(name)["Keys"].split()[1:])
    assert [sorted(flags) for _, flags in found] == [expected] * len(keys)


@each_page
def test_acquisitions_block_and_what_adds_is_refused_without_memory(name):
    # The rule for every new command: see CONTRIBUTING.md.
    flags = header_of(name)["Flags"].split()
    assert ("blocking" in flags) == (name in [*ACQUISITIONS, *WATCHING, "lock.renew", "lock.mrenew"])
    assert ("denyoom" in flags) == (name in [*ACQUISITIONS, "delay.push", "latch.set"])
    assert ("readonly" in flags) == (name in READ_ONLY)
    assert ("write" in flags) == (name not in [*READ_ONLY, *WITHOUT_KEYS])


@each_page
def test_commands_that_walk_are_not_fast(name):
    """The flag has the server's meaning: constant or logarithmic time."""
    walks = name in {*SEVERAL, *LISTING, "lock.guard"}
    assert ("fast" in header_of(name)["Flags"].split()) == (not walks)
