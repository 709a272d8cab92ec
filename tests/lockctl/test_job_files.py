"""The files of docs/lockctl: the page shows them as they are, they can be parsed, and their command lines work."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from harness import wait_for
from runs import NOT_HAD, PROGRAM, environment, holders, is_free, wait_waiting

TOP = Path(__file__).resolve().parents[2]
FILES = TOP / "docs" / "lockctl"
UNITS = sorted(path.name for path in FILES.glob("*.service")) + ["nightly-report.timer"]


def fields_of(unit):
    """{name: value} of a unit file of systemd, in which no name is repeated."""
    lines = (FILES / unit).read_text().splitlines()
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")]
    found = dict(pairs)
    assert len(found) == len(pairs)
    return found


def pod_of(name):
    document = yaml.safe_load((FILES / name).read_text())
    assert document["apiVersion"] == "batch/v1"
    job = document["spec"]["jobTemplate"]["spec"] if document["kind"] == "CronJob" else document["spec"]
    return document, job["template"]["spec"]


def words_of(name):
    """The command line in a file."""
    if name.endswith(".yaml"):
        [container] = pod_of(name)[1]["containers"]
        return container["command"] + container["args"]
    if name.endswith(".service"):
        return shlex.split(fields_of(name)["ExecStart"])
    return shlex.split(cron_line().split(None, 5)[5])


def cron_line():
    [line] = [line for line in (FILES / "crontab").read_text().splitlines() if not line.startswith("#") and "=" not in line.split()[0]]
    return line


def lockctl_words(name, command):
    """The words with this program for lockctl, and another command."""
    words = words_of(name)
    assert Path(words[0]).name == "lockctl" and words[1] == "run"
    return [PROGRAM, *words[1 : words.index("--") + 1], *command]


ALL = ["crontab", "nightly-report.service", "worker.service", "cronjob.yaml", "job.yaml"]
ONCE = ["crontab", "nightly-report.service", "cronjob.yaml"]


def test_the_page_shows_all_files_as_they_are():
    page = (TOP / "docs" / "lockctl.md").read_text()
    names = sorted(path.name for path in FILES.iterdir())
    assert names == sorted([*ALL, "nightly-report.timer"])
    for name in names:
        assert f"](lockctl/{name})" in page, name
        assert (FILES / name).read_text() in page, name


@pytest.mark.parametrize("name", ALL)
def test_the_command_line_works(server, name):
    key = words_of(name)[words_of(name).index("--") - 1]
    done = subprocess.run(lockctl_words(name, ["sh", "-c", 'echo "$LOCK_KEY"; exit 7']), env=environment(server), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (7, f"{key}\n", "")


@pytest.mark.parametrize("name", ONCE)
def test_a_second_host_does_not_run_it_and_has_not_failed(server, name):
    words = lockctl_words(name, ["echo", "ran"])
    runs = [subprocess.run(words, env=environment(server), capture_output=True, text=True, timeout=60) for _ in range(2)]
    assert [run.stdout for run in runs] == ["ran\n", ""]
    assert [run.stderr for run in runs] == ["", ""]
    expected = int(fields_of(name)["SuccessExitStatus"]) if name.endswith(".service") else 0
    assert runs[1].returncode == expected and expected in (0, NOT_HAD)


@pytest.mark.parametrize("name", ["worker.service", "job.yaml"])
def test_another_one_waits(server, name, tmp_path):
    key = words_of(name)[words_of(name).index("--") - 1]
    server.control.execute_command("LOCK.ACQUIRE", key, "o", "PX", 3_600_000)
    waiter = subprocess.Popen(lockctl_words(name, ["true"]), env=environment(server))
    wait_waiting(server, key)
    server.control.execute_command("LOCK.RELEASE", key, "o")
    assert waiter.wait(60) == 0
    wait_for(lambda: is_free(server, key), what="the lock to be free")
    assert holders(server, key) == []


def test_the_crontab():
    assert re.fullmatch(r"[\d*]+ [\d*]+ \* \* \* +lockctl run .*", cron_line())
    assert "%" not in cron_line(), "cron makes a newline of it"


@pytest.mark.parametrize("name", ["cronjob.yaml", "job.yaml"])
def test_the_pods(name):
    document, pod = pod_of(name)
    assert document["kind"] == {"cronjob.yaml": "CronJob", "job.yaml": "Job"}[name]
    assert pod["restartPolicy"] == "Never"
    assert pod["terminationGracePeriodSeconds"] > 5  # --grace
    [container] = pod["containers"]
    assert container["env"][0]["name"] == "LOCKCTL_URL"


def test_the_services():
    assert fields_of("worker.service")["NotifyAccess"] == "all"  # the main process is lockctl
    for unit in UNITS[:-1]:
        assert fields_of(unit)["KillMode"] == "mixed" and int(fields_of(unit)["TimeoutStopSec"]) > 5


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_accepts_the_units(tmp_path):
    for unit in UNITS:
        text = (FILES / unit).read_text()
        (tmp_path / unit).write_text(re.sub(r"^ExecStart=/usr/local/bin/lockctl", f"ExecStart={PROGRAM}", text, flags=re.M))
    done = subprocess.run(["systemd-analyze", "verify", *(tmp_path / unit for unit in UNITS)], capture_output=True, text=True, timeout=60)
    assert [line for line in done.stderr.splitlines() if str(tmp_path) in line or any(unit in line for unit in UNITS)] == []
    assert done.returncode == 0, done.stderr
