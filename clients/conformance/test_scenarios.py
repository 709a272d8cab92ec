"""Every scenario, with every flavour of every language."""

from conftest import runner_of


def test(play, flavour, scenario, kind):
    language, name = flavour
    play([str(runner_of(language)), name], scenario, kind)
