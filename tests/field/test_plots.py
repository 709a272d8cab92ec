"""The plots of `make bench-field`: the same data makes the same bytes, and they are readable on white and on black."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "field"))

from runner import model, plots, scalepage  # noqa: E402

QUANTILES = [i**2 / 10 + 1 for i in range(201)]
COSTS = model.Costs(pair_us=20, handoff_us=10, held_bytes=200, waiter_bytes=50_000)

PLOTS = {
    "latency": (plots.latency, {"Java": [("ours", True, QUANTILES), ("theirs", False, QUANTILES)], "Go": []}),
    "handoff": (plots.handoffs, {"Java": [("ours", True, {2: (50, 80), 1000: (90, 900)})]}),
    "lateness": (plots.lateness, [("ours", True, [-0.5, 0.2, 3.0])], 1000),
    "scale": (plots.scale, *scalepage.lines(COSTS)),
}


@pytest.fixture(params=PLOTS)
def drawn(request):
    return plots.drawn(*PLOTS[request.param])


@pytest.mark.parametrize("name", PLOTS)
def test_the_same_data_makes_the_same_bytes(name):
    assert plots.drawn(*PLOTS[name]) == plots.drawn(*PLOTS[name])


def test_plots_contain_no_date(drawn):
    assert not re.search(r"<dc:date>|20\d\d-\d\d-\d\d", drawn)


def test_labels_are_text(drawn):
    assert "<text" in drawn


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(one, other):
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_every_colour_contrasts_with_white_and_with_black(drawn):
    used = set(re.findall(r"#[0-9a-f]{6}\b", drawn))
    # A dark page is not quite black.
    assert used and all(contrast(colour, "#ffffff") > 2.5 and contrast(colour, "#0d1117") > 2.5 for colour in used), used


def test_the_background_is_transparent():
    assert 'style="fill: #ffffff' not in plots.drawn(*PLOTS["scale"])
