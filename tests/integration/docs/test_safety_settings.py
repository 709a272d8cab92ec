"""The settings of docs/safety.md that are to be copied."""

import re
from contextlib import closing
from pathlib import Path

import pytest

from harness.connect import HOST, new_client
from harness.ports import free_port
from harness.process import PORT_TAKEN
from harness.sentinel import SentinelProcess

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "safety.md").read_text()
BLOCKS = dict(re.findall(r"```conf\n# (.*)\n([^`]*)```", PAGE))


def settings_of(name):
    """The lines of a block, as a dict: option -> value."""
    return dict(line.split(" ", 1) for line in BLOCKS[name].splitlines())


def test_blocks_of_the_page():
    assert sorted(BLOCKS) == ["redis.conf, both", "redis.conf, careful", "redis.conf, fast", "sentinel.conf"]


def test_both_is_fast_and_careful():
    assert settings_of("redis.conf, both") == settings_of("redis.conf, fast") | settings_of("redis.conf, careful")


@pytest.mark.parametrize("name", ["redis.conf, careful", "redis.conf, both"])
def test_quarantine_is_as_long_as_the_formula_says(name):
    number = {option: int(value) for option, value in settings_of(name).items() if value.isdigit()}
    assert "lock.quarantine = lock.max-lease + min-replicas-max-lag + 3 s + W + D\n" in PAGE
    assert "W is `repl-timeout` + 1 s" in PAGE
    assert "D is 1 s in the settings below" in PAGE
    under_way = number["repl-timeout"] + 1
    reckoned = number["lock.max-lease"] + (number["min-replicas-max-lag"] + 3 + under_way + 1) * 1000
    assert number["lock.quarantine"] == reckoned
    assert number["lock.default-lease"] <= number["lock.max-lease"]


def start_sentinel(launch, folder, lines):
    """Returns the process, which monitors its master by then, and its port."""
    conf = folder / "sentinel.conf"
    for _ in range(10):
        port = free_port()
        conf.write_text(f"port {port}\nbind {HOST}\ndir {folder}\n{lines}")
        sentinel = SentinelProcess(launch, conf, folder / "log", "sentinel")
        if sentinel.wait_ready():
            return sentinel, port
        assert PORT_TAKEN in sentinel.log(), sentinel.last_words()
    raise AssertionError("found no free port")


def test_sentinel_accepts_its_lines(make_server, tmp_path):
    master = make_server()
    lines = BLOCKS["sentinel.conf"].replace("10.0.0.1 6379", f"{HOST} {master.port}")
    assert str(master.port) in lines
    sentinel, port = start_sentinel(master.launch, tmp_path, lines)
    try:
        with closing(new_client(port)) as client:
            told = client.sentinel_master("locks")
        said = (told["quorum"], told["down-after-milliseconds"], told["failover-timeout"], told["parallel-syncs"])
        assert said == (2, 5000, 30000, 2)
    finally:
        sentinel.kill()
