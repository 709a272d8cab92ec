"""Two nodes, and a key on the first of them."""

import pytest

from model.cluster_scene import HALF, Pairs


def _end(servers):
    problems = servers.end()
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


@pytest.fixture(scope="module")
def _pairs(launch):
    pairs = Pairs(launch)
    yield pairs
    _end(pairs)


@pytest.fixture
def nodes(_pairs):
    """Two masters that know each other: the first serves the slots up to HALF, the second the rest."""
    servers, nodes = _pairs.take()
    yield nodes
    _end(servers)


@pytest.fixture
def key(nodes):
    """A key of the first node's, and its slot."""
    one, _ = nodes
    name = next(name for name in map(str, range(1000)) if one.cluster("KEYSLOT", name) <= HALF)
    return name, one.cluster("KEYSLOT", name)
