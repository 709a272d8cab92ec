"""Plots as SVG. The same data makes the same bytes: no dates, no random names, text as text. The colours have medium
lightness and the background is transparent, so that the plots are readable on white and on black."""

import io

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter  # noqa: E402

TEXT = "#737880"
COLOURS = ["#2f81f7", "#e5534b", "#3fa45b", "#c08a1e", "#a371f7", "#d0609a", "#2aa5a0", "#8b949e"]
STYLE = {
    "svg.hashsalt": "lock.so",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": TEXT,
    "axes.edgecolor": TEXT,
    "axes.labelcolor": TEXT,
    "axes.titlecolor": TEXT,
    "axes.titlesize": 10,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
    "grid.color": TEXT,
    "grid.alpha": 0.25,
    "axes.grid": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "axes.prop_cycle": matplotlib.cycler(color=COLOURS),
}


def drawn(draw, *arguments):
    """The text of the SVG."""
    with plt.style.context("default"), plt.rc_context(STYLE):
        figure = draw(*arguments)
        out = io.BytesIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        plt.close(figure)
    # Spaces at the ends of lines are not visible in a plot.
    return "\n".join(line.rstrip() for line in out.getvalue().decode().splitlines()) + "\n"


def plain(axis):
    """1,000 and not 10³."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def legend_below(panel):
    """Below the panel the legend does not hide a line."""
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncol=2)


def panels(groups, height=4):
    """A panel for each group, two in a row."""
    rows = (len(groups) + 1) // 2
    figure, axes = plt.subplots(rows, 2, figsize=(9, height * rows), layout="constrained", squeeze=False)
    for axes_left in axes.flat[len(groups):]:
        axes_left.set_visible(False)
    return figure, list(axes.flat)


def curve(axes, numbers, **style):
    """A distribution: the percentage of the values up to each value."""
    share = [100 * i / (len(numbers) - 1) for i in range(len(numbers))]
    axes.plot(numbers, share, **style)


def latency(groups):
    """groups: {title: [(label, ours, quantiles in µs)]}"""
    figure, axes = panels(groups)
    for panel, (title, lines) in zip(axes, groups.items()):
        for label, ours, numbers in lines:
            curve(panel, numbers, label=label, linewidth=2.2 if ours else 1.2)
        panel.set(title=title, xscale="log", xlabel="µs for an uncontended acquire and release", ylabel="% of pairs")
        plain(panel.xaxis)
        legend_below(panel)
    return figure


def handoffs(groups):
    """groups: {title: [(label, ours, {waiters: (p50, p99)})]}"""
    figure, axes = panels(groups)
    for panel, (title, lines) in zip(axes, groups.items()):
        for label, ours, points in lines:
            waiters = sorted(points)
            width = 2.2 if ours else 1.2
            [line] = panel.plot(waiters, [points[n][0] for n in waiters], "o-", ms=3, label=label, linewidth=width)
            panel.plot(waiters, [points[n][1] for n in waiters], ":", color=line.get_color(), linewidth=width)
        asked = sorted({n for _, _, points in lines for n in points})
        panel.set(title=title, xscale="log", yscale="log", xlabel="waiters", ylabel="µs, p50 (dotted: p99)")
        panel.set_xticks(asked, [f"{n:,}" for n in asked])
        panel.minorticks_off()
        plain(panel.yaxis)
        legend_below(panel)
    return figure


def lateness(lines, rate):
    """lines: [(label, ours, quantiles in ms)]"""
    figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
    for label, ours, numbers in lines:
        curve(axes, numbers, label=label, linewidth=2.2 if ours else 1.2)
    axes.set(xscale="symlog", xlabel=f"lateness in ms, {rate:,} elements a second", ylabel="% of elements")
    plain(axes.xaxis)
    axes.legend(loc="lower right")
    return figure


def scale(every_s, lines, walls):
    """lines: [(label, clients for each of every_s)]; walls: [(label, clients)]: limits that do not depend on every_s"""
    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    for label, clients in lines:
        axes.plot(every_s, clients, label=label, linewidth=2)
    for i, (label, clients) in enumerate(walls):
        axes.axhline(clients, linestyle="--", linewidth=1.2, label=label, color=COLOURS[(len(lines) + i) % len(COLOURS)])
    axes.set(xscale="log", yscale="log", xlabel="each client requests a contended lock every … seconds", ylabel="clients")
    plain(axes.xaxis)
    plain(axes.yaxis)
    axes.legend(loc="best")
    return figure
