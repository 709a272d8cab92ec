"""Each scenario, with each flavour of each language."""

from conftest import runner_of


def test(play, flavour, scenario, kind):
    language, name = flavour
    play([str(runner_of(language)), name], scenario, kind)
