"""Options, servers, places and runners. README.md describes how to run the suite."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from places import PLACES
from play import Play
from programs import Program
from redlock_history import Judge
from redlock_ring import Ring
from runner import Runner

from harness import launching, scaled_ms
from harness.share import add_share_option, keep_share, leave_out
from harness.suite import add_slowness_option, make_server, pytest_runtest_makereport, set_limits

__all__ = ["make_server", "pytest_runtest_makereport"]

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
BUILD = TOP / "build"
LANGUAGES = json.loads((HERE / "languages.json").read_text())


def pytest_addoption(parser):
    group = parser.getgroup("clients")
    group.addoption("--languages", default=os.environ.get("LANGUAGES", ""), help="which languages: 'python go'; default: all that are built")
    group.addoption("--flavours", default=os.environ.get("FLAVOURS", ""), help="which of their flavours; default: all")
    group.addoption("--handoff", type=int, help="only the benchmark: this number of hand-offs of each flavour")
    add_share_option(group)
    add_slowness_option(group)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    set_limits(config, config.getoption("--slowness"), seconds=180)


# Which runners


def runner_of(language):
    return BUILD / "clients" / language / "runner"


def _flavours(config):
    """[(language, flavour)], those that the command line selects."""
    wanted = config.getoption("--languages").split() or [name for name in LANGUAGES if runner_of(name).exists()]
    flavours = config.getoption("--flavours").split()
    found = [(name, one) for name in wanted for one in LANGUAGES[name] if not flavours or one in flavours]
    missing = {name for name, _ in found if not runner_of(name).exists()}
    if missing or not found:
        raise pytest.UsageError(f"no runner for {sorted(missing) or 'anything'}: make client-LANGUAGE builds it")
    return found


def scenarios():
    """[(scenario, kind)] of all files."""
    found = []
    for path in sorted((HERE / "scenarios").glob("*.json")):
        for scenario in json.loads(path.read_text()):
            kinds = scenario["kinds"]
            found += [({**scenario, "topic": path.stem}, kind) for kind in kinds]
    return found


def pytest_generate_tests(metafunc):
    if "rounds" in metafunc.fixturenames:
        rounds = metafunc.config.getoption("--handoff")
        cases = [pytest.param(one, rounds, id="-".join(one)) for one in _flavours(metafunc.config)]
        metafunc.parametrize("flavour, rounds", cases)
    elif "flavour" in metafunc.fixturenames and "scenario" not in metafunc.fixturenames:
        cases = [one for one in _flavours(metafunc.config) if "redlock" not in LANGUAGES[one[0]][one[1]]["cannot"]]
        metafunc.parametrize("flavour", [pytest.param(one, id="-".join(one)) for one in cases])
    if "scenario" not in metafunc.fixturenames:
        return
    cases = [
        pytest.param((language, flavour), scenario, kind, id=f"{language}-{flavour}-{scenario['topic']}-{scenario['name']}-{kind}")
        for language, flavour in _flavours(metafunc.config)
        for scenario, kind in scenarios()
        if not set(scenario.get("needs", [])) & set(LANGUAGES[language][flavour]["cannot"])
    ]
    metafunc.parametrize("flavour, scenario, kind", cases)


def pytest_collection_modifyitems(config, items):
    is_benchmark = config.getoption("--handoff") is not None
    leave_out(config, items, lambda item: ("rounds" in item.fixturenames) != is_benchmark)
    keep_share(config, items)


def pytest_terminal_summary(terminalreporter, config):
    for line in config.stash.get(MEASURED, []):
        terminalreporter.write_line(line)


MEASURED = pytest.StashKey()

# Servers and places


@pytest.fixture(scope="session")
def launch():
    with launching("clients") as run:
        yield run


@pytest.fixture
def make_place(launch, make_server):
    """make_place("wire", {"lock_session_grace": 300}): a place for this test only."""
    made = []

    def make(name, config):
        made.append(PLACES[name](make_server, launch, config))
        return made[-1]

    yield make
    for place in made:
        place.end()


@pytest.fixture
def play(launch, make_place):
    """play(command, scenario, kind): plays a scenario with runners that the command starts."""

    def play(command, scenario, kind):
        config = scenario.get("config", {})
        config = {name: scaled_ms(value) if name.startswith("lock_") else value for name, value in config.items()}
        place = make_place(scenario["place"], config)
        folder = Path(tempfile.mkdtemp(dir=launch.root, prefix="runners-"))
        for node in scenario.get("nodes", [0]):
            place.node = node
            Play(scenario, kind, place, lambda name: Runner(command, name, folder)).run()

    return play


# RedLocks


@pytest.fixture(scope="session")
def judge(launch):
    """judge(holds): the kinds of faults that the checker of the torture test finds in them: `holder`, `token`."""
    if not shutil.which("go"):
        pytest.skip("the checker of histories is a Go program: tools/setup torture installs Go")
    program = launch.root / "torture"
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    subprocess.run(["go", "build", "-buildvcs=false", "-o", program, "."], cwd=TOP / "tests/torture", env=environment, check=True)
    return Judge(program, launch.root)


@pytest.fixture
def make_ring(make_server):
    """make_ring(lock_quarantine=1100): five independent servers, each behind a proxy."""
    rings = []

    def make(**config):
        rings.append(Ring(make_server, 5, True, config))
        return rings[-1]

    yield make
    for ring in rings:
        ring.end()


@pytest.fixture
def start_program(launch):
    """start_program(command, ring): a runner that is connected to the servers of the ring."""
    started, folder = [], Path(tempfile.mkdtemp(dir=launch.root, prefix="programs-"))

    def start(command, ring):
        started.append(Program(command, folder, ring))
        return started[-1]

    yield start
    for program in started:
        program.end()
