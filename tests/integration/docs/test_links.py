"""Every link between the pages points to a page that exists, and to a heading that exists."""

import os
import re
from functools import cache
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[3]


def pages():
    """All pages, except generated and downloaded ones: to walk through those takes seconds."""
    for folder, folders, files in os.walk(TOP):
        folders[:] = [name for name in folders if name not in ("build", "node_modules", "target") and name[0] != "."]
        yield from (Path(folder, name) for name in files if name.endswith(".md"))


PAGES = sorted(pages())
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
FENCE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)


@cache
def headings(page):
    """The anchors of a page's headings, as GitHub generates them."""
    found = []
    for heading in re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.M):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
    return found


def faults(page):
    for target, anchor in LINK.findall(FENCE.sub("", page.read_text())):
        there = (page.parent / target).resolve() if target else page
        if not there.exists():
            yield f"no {target}"
        elif anchor and there.suffix == ".md" and anchor not in headings(there):
            yield f"no #{anchor} in {there.name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_links_point_to_existing_pages_and_headings(page):
    assert list(faults(page)) == []
