"""The documentation of lockctl: --help, the page, the manual page and the completion name the same options."""

import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
LOCKCTL = TOP / "build" / "lockctl" / "lockctl"
OPTION = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)")
# Every program has them, so they need not be in each place.
COMMON = {"help", "version"}


def options_in(text):
    return set(OPTION.findall(text)) - COMMON


@pytest.fixture(scope="module")
def options():
    usage = subprocess.run([LOCKCTL, "--help"], capture_output=True, text=True, check=True).stdout
    found = options_in(usage)
    assert {"wait", "lease", "session", "semaphore", "json", "once", "url", "timeout"} <= found
    return found


def test_the_program_knows_them_and_no_others(options):
    source = (TOP / "lockctl" / "options.c").read_text()
    known = set(re.findall(r'\{"([a-z-]+)", (?:no|required)_argument', source)) - COMMON
    assert known == options


def test_page(options):
    assert options <= options_in((TOP / "docs" / "lockctl.md").read_text())


def test_manual(options):
    manual = (TOP / "lockctl" / "lockctl.1").read_text()
    named = set(re.findall(r"Fl -([a-z]+(?:-[a-z]+)*)", manual)) - COMMON
    assert named == options


def test_completion(options):
    assert options_in((TOP / "lockctl" / "completion.bash").read_text()) == options


def test_statuses_are_the_same_everywhere():
    # 71, no memory or no process, is not documented for users; 127 follows 126 in the header.
    statuses = {"64", "69", "75", "76", "126", "127"}
    header = (TOP / "lockctl" / "base" / "failure.h").read_text()
    page = (TOP / "docs" / "lockctl.md").read_text()
    manual = (TOP / "lockctl" / "lockctl.1").read_text()
    for status in statuses:
        assert re.search(rf"\b{status}\b", page) and re.search(rf"\b{status}\b", manual), status
    numbers = set(re.findall(r"FAILURE_\w+ = (\d+)", header)) | {"127"}
    assert numbers - {"71"} == statuses


def complete(*words):
    """The completions that bash would offer for the last of these words."""
    script = f"""
        source {TOP}/lockctl/completion.bash
        lockctl() {{ {LOCKCTL} "$@"; }}
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lockctl; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    "words, offered",
    [
        (["lockctl", "r"], ["run"]),
        (["lockctl", "run", "--wa"], ["--wait"]),
        (["lockctl", "ls", "--j"], ["--json"]),
        (["lockctl", "top", "--on"], ["--once"]),
        (["lockctl", "run", "--wait", "5", "key", "--", "sleep"], ["sleep"]),
        (["lockctl", "run", "--wait", ""], []),
    ],
)
def test_completion_offers(words, offered):
    found = complete(*words)
    assert found == offered or (offered == ["sleep"] and "sleep" in found)


def test_completion_offers_locks(server, monkeypatch):
    server.control.execute_command("LOCK.ACQUIRE", "orders", "o", "PX", 3_600_000)
    monkeypatch.setenv("LOCKCTL_URL", f"redis://127.0.0.1:{server.port}")
    assert complete("lockctl", "run", "or") == ["orders"]
