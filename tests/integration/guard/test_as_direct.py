"""A user may run a command by LOCK.GUARD exactly if the user may run it directly, and it has the same effect.

Each command runs under each set of ACL rules, once directly and once under the lock, on the same data.
"""

from random import Random

import pytest
from redis.exceptions import ResponseError

from harness import code_of, drawn
from harness.connect import new_connection
from harness.seeds import seed_of_run

DATA = (
    "SET x 5", "SET mine:x 5", "RPUSH l 2 1", "SET w_1 1", "SET w_2 2", "HSET h f v", "SADD s a", "ZADD z 1 a",
    "GEOADD g 13 38 p", "XADD st 1-1 f v", "XGROUP CREATE st gr 0", "PFADD p a", "LOCK.ACQUIRE k o PX 600000",
)  # fmt: skip

COMMANDS = (
    # Keys that are read, written, or both; one or several; found in every way that servers find keys.
    "GET x", "SET x 1", "SET y 1", "SET x 1 GET", "INCR x", "GETDEL x", "APPEND x 1", "STRLEN x", "DUMP x", "TYPE x", "PTTL x",
    "MSET x 1 y 1", "MSET mine:x 1 x 1", "MGET x mine:x", "MGET mine:x", "DEL x", "UNLINK x y", "EXISTS x y", "TOUCH x",
    "COPY x y", "COPY mine:x mine:y", "RENAME x y", "MOVE x 1", "EXPIRE x 100", "PERSIST x", "BITFIELD x GET u8 0", "BITFIELD x SET u8 0 1",
    "BITOP AND y x x", "LMPOP 2 l none LEFT", "LMOVE l y LEFT LEFT", "RPOPLPUSH l y", "HGETALL h", "HSET h a b", "SMOVE s y a",
    "SUNIONSTORE y s", "ZUNIONSTORE y 2 z z", "ZRANGESTORE y z 0 -1", "GEORADIUS g 13 38 9 km STORE y", "GEOSEARCHSTORE y g FROMMEMBER p BYRADIUS 1 km",
    "PFCOUNT p", "PFMERGE y p", "XREAD STREAMS st 0", "XREADGROUP GROUP gr c STREAMS st >", "XADD st 2-1 f v",
    # Keys that are found only while the command runs.
    "SORT l", "SORT l STORE y", "SORT l BY w_*", "SORT l BY w_* GET w_*", "SORT l GET w_* STORE y", "SORT l BY nosort", "SORT_RO l GET w_*",
    # Commands with subcommands.
    "OBJECT ENCODING x", "OBJECT REFCOUNT x", "OBJECT HELP", "MEMORY USAGE x", "XINFO STREAM st", "XGROUP CREATE st other 0",
    "COMMAND COUNT", "COMMAND GETKEYS GET x", "CONFIG GET maxmemory", "ACL WHOAMI", "CLIENT ID", "FUNCTION LIST", "SCRIPT EXISTS a",
    # Channels.
    "PUBLISH mine m", "PUBLISH other m", "SPUBLISH mine m", "SPUBLISH other m", "SUBSCRIBE mine",
    # No keys, or all of them.
    "PING", "ECHO a", "DBSIZE", "KEYS *", "SCAN 0 COUNT 100", "FLUSHDB", "FLUSHALL", "SWAPDB 0 1", "SELECT 1", "LOLWUT VERSION 1",
    # Commands that block, commands that are not allowed in scripts, and one that does not exist.
    "BLPOP l 0", "BLMOVE l y LEFT LEFT 0", "BZPOPMIN z 0", "EVAL return 1 x", "EVAL return{redis.call('GET',KEYS[1])} 1 x",
    "EVAL_RO return{redis.call('GET',KEYS[1])} 1 x", "FCALL f 1 x", "MIGRATE 127.0.0.1 1 x 0 10", "WATCH x", "DEBUG OBJECT x", "NO.SUCH x",
    # Locks.
    "LOCK.ACQUIRE y me", "LOCK.ACQUIRE mine:l me", "LOCK.MACQUIRE 2 y mine:l me", "LOCK.MRELEASE 1 k o", "LOCK.RELEASE k o",
    "LOCK.FORCE k", "LOCK.INFO k", "LATCH.SET y 3", "LATCH.DOWN y", "DELAY.PUSH y i 60000 v", "DELAY.LIST y", "LOCK.TOP",
)  # fmt: skip

RULES = (
    "", "+@all ~*", "+@all ~* &*", "~*", "+@all", "+@all ~mine:*", "+@all ~x", "+@all ~y", "+@all ~k", "+@all %R~* &*", "+@all %W~*",
    "+@all %R~x %W~y", "+@all %W~x %R~y", "+@all %R~l %W~y", "+@all %R~l %R~w_* %W~y", "+@all %R~mine:* ~y", "+get +set +mset ~x ~y",
    "+@read ~*", "+@write ~*", "+@all -@dangerous ~*", "+@all -@string ~*", "+@all -@blocking ~*", "+@all -@scripting ~* &*",
    "+@keyspace ~*", "+@all -sort ~*", "+@all -flushall -set ~*", "+object|encoding +memory|usage ~*", "+@all -object|encoding ~*",
    "+object -object|refcount ~x", "+@all ~* resetchannels &mine", "+publish &other", "+@all ~* &m*", "+eval +fcall +eval_ro ~*",
    "+ping (+set ~x) (+get %R~x)", "(+@all ~x) (+@all ~y)", "(+@all %R~* ) (+set %W~y)", "(+sort ~l) (+sort %W~y)", "(+@read ~*) (+@write ~mine:*)",
    "+lock.acquire +lock.macquire ~y ~mine:*", "+@all -lock.force ~*", "+@all -@all +lock.info ~k",
)  # fmt: skip

NOT_FOR_SCRIPTS = "' is not allowed on script mode"
# They change the state of the connection; Valkey 8.1 changes the database after MOVE.
CHANGE_CONNECTION = ("SELECT", "SUBSCRIBE", "WATCH", "MOVE")
DEPENDS_ON_THE_CLOCK = "DELAY.PUSH"


class World:
    """The same data each time, and a client of a user with these rules that may also run LOCK.GUARD with this lock."""

    def __init__(self, server, rules):
        self._server, self._control, self._client = server, server.actor(), None
        self._control.call("ACL", "SETUSER", "u", "reset", "on", "nopass", *each_of(rules), "(+lock.guard %R~k)")
        self._connect()
        self._fill()
        self.untouched = self._control.call("DEBUG", "DIGEST")

    def _fill(self):
        self._control.send_together(("FLUSHALL",), *(line.split() for line in DATA))
        for _ in range(1 + len(DATA)):
            self._control.reply()

    def _connect(self):
        if self._client:
            self._client.disconnect()
        self._client = new_connection(self._server.port, username="u", password="any", decode_responses=False)

    def outcome(self, *words):
        """The reply, and a digest of all keys afterwards."""
        self._client.send_command(*words)
        try:
            reply = self._client.read_response(disconnect_on_error=False)
        except ResponseError as error:
            reply = error
        if words[0] in CHANGE_CONNECTION:
            self._connect()
        digest = self._control.call("DEBUG", "DIGEST")
        if not isinstance(reply, ResponseError):
            self._fill()  # the digest does not cover everything, such as the groups of a stream
        return reply, digest


def each_of(rules):
    """The rules one by one; a part in parentheses is one rule."""
    while rules:
        end = rules.index(")") + 1 if rules.startswith("(") else (rules + " ").index(" ")
        yield rules[:end]
        rules = rules[end:].lstrip()


def denied(reply):
    return isinstance(reply, ResponseError) and code_of(reply) == "NOPERM"


@pytest.mark.parametrize("rules", RULES)
def test_user_may_do_under_the_lock_exactly_what_it_may_do_directly(server, rules):
    world = World(server, rules)
    for command in Random(f"{seed_of_run()} {rules}").sample(COMMANDS, drawn(len(COMMANDS))):
        alone, after_alone = world.outcome(*command.split())
        guarded, after_guarded = world.outcome("LOCK.GUARD", "k", "o", *command.split())
        if NOT_FOR_SCRIPTS in str(guarded):
            assert after_guarded == world.untouched, command
            continue
        assert denied(guarded) == denied(alone), f"{command}: {alone!r}, guarded {guarded!r}"
        if not command.startswith(DEPENDS_ON_THE_CLOCK):
            assert after_guarded == after_alone, command
        if denied(alone):
            assert after_guarded == world.untouched, command
        assert isinstance(guarded, ResponseError) == isinstance(alone, ResponseError), f"{command}: {alone!r}, guarded {guarded!r}"
