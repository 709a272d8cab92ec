"""The examples of the README, the users' pages and the commands' pages work as they are shown, twice in a row.

Each page is typed from its beginning to its end, on a clean server, into the redis-cli of this machine: `alice>` is a
session that lasts, and a line at `alice$` or `$` is a process of its own. A command that is shown to wait has to block,
until the step after which its reply is shown; a command that is not shown to wait must not block, except WAIT and
commands whose reply is (nil) or DEADLOCK. The reply to a `redis-cli …` without a prompt is not shown, and may be
anything except an error. Shells name the port of `make run`. At its end a page leaves no lock held and no setting of
the module changed.

Every line of every reply has to be equal, except for:

- Numbers of 13 digits and more, which are unix ms or µs: times, tickets, tokens, ids. They must have as many digits as
  the numbers shown, and the same order: equal numbers on the page stand for equal numbers, larger ones for larger ones.
- The ids in the fields `client` and `session`: equal ids on the page stand for equal ids, different ones for different
  ones.
- The fields `pttl` and `left`, and the replies to PTTL and DELAY.LIST: neither number may be more than one and a half
  times the other.
- The field `waited`: any number.
- The fields of LOCK.TOP for times, `usec` and others: they must have the same order as those shown. Not `usec_error`.
- What redis-cli adds: the time that a command took, and blanks at the ends of lines.

Programs in Python and sh are run, and have to print that they work, and nothing else.
"""

from pathlib import Path

import pytest

from harness.answers import Answers
from harness.examples import programs_of, run_examples, run_program

TOP = Path(__file__).resolve().parents[3]
USERS_PAGES = [TOP / "docs" / f"{name}.md" for name in ("clients", "deadlock", "delay", "recipes", "safety")]
PAGES = [TOP / "README.md", *USERS_PAGES, *sorted(TOP.glob("docs/commands/*.md"))]
PROGRAMS = [
    pytest.param(*program, id=f"{page.name}-{program[0]}")
    for page in [TOP / "README.md", *sorted(TOP.glob("docs/*.md"))]
    for program in programs_of(page.read_text())
]


def run_twice(server, text):
    """Types a page twice on the same server. Fencing tokens may be left: they are kept for a day, and are no holds."""
    settings = server.control.config_get("lock.*")
    for _ in range(2):
        run_examples(server, text)
        left = [key for key in server.control.keys() if not key.startswith("lock:token:")]
        assert not left, f"the page leaves {left}"
        assert server.control.config_get("lock.*") == settings, "the page leaves a setting changed"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_a_page(request, page):
    if page.name == "safety.md":
        # WAIT needs a replica, as the page says.
        server = request.getfixturevalue("make_server")()
        server.start_replica()
    else:
        server = request.getfixturevalue("server")
    run_twice(server, page.read_text())


@pytest.mark.parametrize(("language", "source"), PROGRAMS)
def test_program_of_a_page(server, language, source):
    for _ in range(2):
        assert run_program(server, language, source) == (0, "working\n", "")
        assert not server.control.keys()


# Tests of this test: a page that is right, and changes that make it wrong.

RIGHT = """
```
alice> LOCK.ACQUIRE k alice PX 60000 FENCED
(integer) 1795303484430593
alice> LOCK.ACQUIRE k alice FENCED
(integer) 1795303484430593
bob>   LOCK.ACQUIRE k bob PX 60000 BLOCK 0
       ... waits ...
alice> LOCK.FORCE k
(integer) 1
bob>   (integer) 1
bob>   PTTL k
(integer) 58000
bob>   DELAY.PUSH l i 60000 v
"i"
bob>   DELAY.LIST l
1) 1) "i"
   2) (integer) 59000
   3) "v"
bob>   DELAY.CANCEL l i
(integer) 1
bob>   LOCK.RELEASE k bob
(integer) 0
```
"""

# The text that is changed, the new text, and the message of the failure.
WRONG = {
    "answer": ("FORCE k\n(integer) 1", "FORCE k\n(integer) 0", r"line 9.*- \(integer\) 0.*\+ \(integer\) 1"),
    "answer after a wait": ("bob>   (integer) 1", "bob>   (nil)", r"line 11.*- \(nil\)\n\+ \(integer\) 1"),
    "answer left out": ("FORCE k\n(integer) 1\n", "FORCE k\n", r"line 9.*\n\+ \(integer\) 1"),
    "answer too many": ("FORCE k\n(integer) 1\n", "FORCE k\n(integer) 1\nOK\n", r"line 9.*\n- OK"),
    "answer too late": ("bob>   (", "alice> PING\nPONG\nbob>   (", "line 11.*bob> has a reply already"),
    "answer never": (RIGHT[RIGHT.index("bob>   (integer) 1") : -4], "", "bob> waits at the end of the page"),
    "answer without a connection": (" waits ", " waits, and his connection closes ", "line 11.*unknown command"),
    "token of a re-entry": ("k alice FENCED\n(integer) 1", "k alice FENCED\n(integer) 2", "line 5.* instead of 27953"),
    "token's length": ("PX 60000 FENCED\n(integer) 17", "PX 60000 FENCED\n(integer) 7", r"line 3.*- \(integer\) 7953"),
    "time left": ("58000", "28000", "line 12.* instead of 28000"),
    "time left in a queue": ("59000", "29000", "line 16.* instead of 29000"),
    "wait of another command": ("DELAY.CANCEL l i", "BLPOP l 0", "line 20.*it waits"),
    "command": ("FORCE k", "FORCE other", r"line 9.*\+ \(integer\) 0"),
    "command left out": ("bob>   PTTL k\n", "", r"line 11.*- \(integer\) 58000"),
    "wait that is none": ("FORCE k\n", "FORCE k\n       ... waits ...\n", "line 9.*it does not wait"),
    "wait not shown": ("       ... waits ...\n", "", "line 7.*it waits"),
    "no prompt": ("alice> LOCK.ACQUIRE k alice PX", "LOCK.ACQUIRE k alice PX", "line 3: .* has no prompt above"),
    "lock left held": ("bob>   LOCK.RELEASE k bob\n(integer) 0\n", "", r"the page leaves \['k'\]"),
    "setting left changed": ("bob>   PT", "bob> CONFIG SET lock.max-waiters 9\nOK\nbob> PT", "a setting changed"),
    "port": ("alice> LOCK.FORCE k", "$ redis-cli LOCK.FORCE k", "line 9.*does not name the port"),
    "open fence": ("bob\n(integer) 0\n```", "bob\n(integer) 0", "left open"),
    "no example": (RIGHT, "No example.", "no examples"),
}


def test_page_that_is_right(server):
    run_twice(server, RIGHT)


@pytest.mark.parametrize("what", WRONG)
def test_page_that_is_wrong(server, what):
    right, wrong, complaint = WRONG[what]
    assert RIGHT.count(right) == 1
    with pytest.raises(AssertionError, match=f"(?s){complaint}"):
        run_twice(server, RIGHT.replace(right, wrong))


def times_of_top(*numbers):
    fields = [f'"{name}"' for name in ("usec", "usec_per_wait", "usec_longest", "usec_error")]
    return [line for pair in zip(fields, map("1) (integer) {}".format, numbers), strict=True) for line in pair]


SHOWN_TIMES = (2000, 1000, 2000, 0)
WRONG_TIMES = {"no longer the same": (7, 3, 8, 0), "no longer larger": (7, 7, 7, 0), "error": (7, 3, 7, 1)}


def test_times_waited_that_are_right():
    Answers().compare("LOCK.TOP", times_of_top(*SHOWN_TIMES), times_of_top(7, 3, 7, 0))


@pytest.mark.parametrize("real", WRONG_TIMES.values(), ids=WRONG_TIMES)
def test_times_waited_that_are_wrong(real):
    with pytest.raises(AssertionError, match="shown is -"):
        Answers().compare("LOCK.TOP", times_of_top(*SHOWN_TIMES), times_of_top(*real))
