"""Groups of servers that Sentinels watch."""

import pytest

from harness.sentinel import SentinelGroup


@pytest.fixture
def make_group(launch, make_server):
    """make_group(lock_quarantine=…): a master and two replicas with this configuration, and three Sentinels."""
    groups = []

    def make(**config):
        groups.append(SentinelGroup(launch, make_server, **config))
        return groups[-1]

    yield make
    problems = [text for group in groups for text in group.end()]
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)
