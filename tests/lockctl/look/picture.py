"""Draws docs/lockctl-top.svg: some seconds of lockctl top for a server on which a few dozen clients contend.

    make picture

It shows real screens of a real server, so each run draws different ones. Where animations are off, the first one is shown.
"""

import os
import re
import shutil
import sys
import tempfile
import threading
import time
from html import escape
from itertools import count
from pathlib import Path

import redis

TOP = Path(__file__).resolve().parents[3]
sys.path += [str(TOP / "tests" / "integration"), str(Path(__file__).parent)]

from harness import Launch, Servers  # noqa: E402
from scene import LOCKCTL  # noqa: E402
from terminal import Terminal  # noqa: E402

# The lock, the command, the number of clients, and for how many milliseconds each client holds the lock.
WORK = [
    ("orders:import", "LOCK.FAIR", 9, 14),
    ("page:4711", "LOCK.RWWRITE", 4, 6),
    ("page:4711", "LOCK.RWREAD", 6, 3),
    ("nightly-report", "LOCK.ACQUIRE", 3, 90),
    ("cache:prices", "LOCK.ACQUIRE", 5, 1),
    ("käse", "LOCK.ACQUIRE", 2, 8),
]
COLUMNS, LINES = 80, 24
SCREENS = 8  # one second each
WIDTH, HEIGHT, MARGIN = 8.4, 18, 14
COLOURS = {"default": "#d8dee9", "red": "#ff6b6b", "brown": "#f6c177", "cyan": "#7fdbca", "green": "#9ece6a"}
BACKGROUND = "#1b1f2a"

numbers = count(1)


def contend(port, key, command, held_ms, over):
    client = redis.Redis(port=port)
    owner = f"worker-{next(numbers):02}"
    while not over.is_set():
        client.execute_command(command, key, owner, "PX", 30000, "BLOCK", 0)
        time.sleep(held_ms / 1000)
        client.execute_command("LOCK.RELEASE", key, owner)


def screens_of(port):
    """The screens that lockctl top shows, one for each of its updates, after some seconds of work."""
    terminal = Terminal(LOCKCTL, "top", LOCKCTL_URL=f"redis://127.0.0.1:{port}")
    end = time.monotonic() + 8
    terminal.shows(lambda lines: time.monotonic() > end, timeout=30)
    screens = []
    for _ in range(SCREENS):
        clock = terminal.lines[0]
        terminal.shows(lambda lines, clock=clock: lines[0] != clock)
        end = time.monotonic() + 0.3  # for the lines below the clock
        terminal.shows(lambda lines, end=end: time.monotonic() > end)
        screens.append(terminal.cells)
    terminal.type("q")
    terminal.end()
    terminal.close()
    return screens


def colours_of(cell):
    pair = COLOURS.get(cell.fg, COLOURS["default"]), BACKGROUND
    return pair[::-1] if cell.reverse else pair


def runs_of(line):
    """Runs of adjacent cells with the same style: the first column, one of the cells, and the text."""
    start = 0
    for column in range(1, len(line) + 1):
        if column == len(line) or (colours_of(line[column]), line[column].bold) != (
            colours_of(line[start]),
            line[start].bold,
        ):
            yield start, line[start], "".join(cell.data for cell in line[start:column])
            start = column


def draw(screens):
    width, height = COLUMNS * WIDTH + 2 * MARGIN, LINES * HEIGHT + 2 * MARGIN
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        'font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="14" xml:space="preserve">'
    )
    yield "<title>lockctl top, on a terminal of 80 columns and 24 lines</title>"
    yield from style()
    yield f'<rect width="{width:g}" height="{height:g}" rx="8" fill="{BACKGROUND}"/>'
    drawn = [[list(draw_line(number, line)) for number, line in enumerate(cells)] for cells in screens]
    same = [all(lines[number] == drawn[0][number] for lines in drawn) for number in range(LINES)]
    for number in range(LINES):
        if same[number]:
            yield from drawn[0][number]
    for screen, lines in enumerate(drawn):
        yield f'<g class="screen" style="animation-delay:{screen}s">'
        for number in range(LINES):
            if not same[number]:
                yield from lines[number]
        yield "</g>"
    yield "</svg>"


def style():
    """Shows each screen for a second, again and again; only the first one where animations are off."""
    yield "<style>"
    yield f"@keyframes show {{ 0% {{ visibility: visible }} {100 / SCREENS:g}%, to {{ visibility: hidden }} }}"
    yield f".screen {{ visibility: hidden; animation: show {SCREENS}s step-end infinite }}"
    yield ".screen:first-of-type { visibility: visible }"
    yield "@media (prefers-reduced-motion: reduce) { .screen { animation: none } }"
    yield "</style>"


def draw_line(number, line):
    y = MARGIN + number * HEIGHT
    for start, cell, text in runs_of(line):
        ink, paper = colours_of(cell)
        x, length = MARGIN + start * WIDTH, len(text) * WIDTH
        if paper != BACKGROUND:
            yield f'<rect x="{x:g}" y="{y}" width="{length:g}" height="{HEIGHT}" fill="{paper}"/>'
        if not text.strip():
            continue
        if set(text) <= {"q", "─"} and len(text) > 40:  # the rule
            yield f'<path d="M{x:g} {y + HEIGHT / 2:g}h{length:g}" stroke="{ink}"/>'
            continue
        weight = ' font-weight="bold"' if cell.bold else ""
        # Word by word, so that columns are aligned in any font.
        for word in re.finditer(r"\S+", text):
            x = MARGIN + (start + word.start()) * WIDTH
            yield (
                f'<text x="{x:g}" y="{y + 13}" fill="{ink}" textLength="{len(word.group()) * WIDTH:g}" '
                f'lengthAdjust="spacingAndGlyphs"{weight}>{escape(word.group())}</text>'
            )


def main():
    root = Path(tempfile.mkdtemp(prefix="picture-"))
    servers = Servers(Launch(os.path.abspath(shutil.which("redis-server")), TOP / "lock.so", root))
    server = servers.make()
    over = threading.Event()
    for key, command, clients, held_ms in WORK:
        for _ in range(clients):
            threading.Thread(target=contend, args=(server.port, key, command, held_ms, over), daemon=True).start()
    screens = screens_of(server.port)
    over.set()
    time.sleep(1)
    server.control.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    servers.end()
    shutil.rmtree(root)
    text = "\n".join(draw(screens)) + "\n"
    text = text.replace(f"127.0.0.1:{server.port}", "127.0.0.1:6379")
    (TOP / "docs" / "lockctl-top.svg").write_text(text)


main()
