"""--share K/N: one of N parts of a suite's tests, for a run that has no time for all. By their names, so that a part stays
what it is."""

import zlib


def add_share_option(group):
    group.addoption("--share", type=_part, help="only the K-th of N parts of the tests, K/N, K from 0 on")


def _part(text):
    part, of = map(int, text.split("/"))
    if not 0 <= part < of:
        raise ValueError(text)
    return part, of


def keep_share(config, items):
    """Takes out of `items` what the option leaves out."""
    if config.getoption("--share"):
        part, of = config.getoption("--share")
        leave_out(config, items, lambda item: zlib.crc32(item.nodeid.encode()) % of != part)


def leave_out(config, items, unwanted):
    config.hook.pytest_deselected(items=[item for item in items if unwanted(item)])
    items[:] = [item for item in items if not unwanted(item)]
