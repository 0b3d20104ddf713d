"""The map of a repository: clusters, their names, and the page."""

from __future__ import annotations

import math
import random
import re
from array import array
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.history.cochange import HistoryCommit
from repoagent.history.graph import ADVANCE, TITLE_SIZE, Graph, columns, printable_line, shorten_middle
from repoagent.history.graph_output import render_html
from repoagent.history.repository_map import LARGEST, build_map, colour_folders
from tests.browser import needs_browser, rendered
from tests.history.test_graph import HOSTILE, check_page

FILES = b"net/a.py net/b.py net/c.py ui/x.py ui/y.py docs/z.md alone.txt".split()
NAMES = dict(enumerate(FILES, 1))
NET, UI = (1, 2, 3), (4, 5, 6)
KNOTS = [*combinations(NET, 2), *combinations(UI, 2)] * 4


def mapped(*commits: Sequence[int], names: Mapping[int, bytes] = NAMES, note: str = "") -> Graph:
    """The map of commits with these files, newest first."""
    history = [
        HistoryCommit(len(commits) - age, 1_700_000_000 - age, 1, len(files), array("I", files))
        for age, files in enumerate(commits)
    ]
    return build_map("<b>top", "a" * 40, history, names, note)


def large(groups: int = 8) -> Graph:
    """Groups of 3 to 60 files; each commit is of one group, some of two."""
    rng = random.Random(1)
    names: dict[int, bytes] = {}
    members: list[list[int]] = []
    for group in range(groups):
        own = range(len(names), len(names) + rng.choice((3, 5, 12, 30, 60)))
        names |= {file: b"folder%d/a_file_with_a_long_name_%d.c" % (group, file) for file in own}
        members.append([*own])
    commits = []
    for _ in range(6_000):
        files = rng.sample(rng.choice(members), 3)
        commits.append([*files, *rng.sample(rng.choice(members), 2)] if rng.random() < 0.1 else files)
    return mapped(*commits, names=names)


def areas(graph: Graph) -> dict[str, set[str]]:
    return {area.name: {graph.nodes[file].path for file in area.members} for area in graph.areas}


def test_files_that_change_together_are_a_cluster() -> None:
    graph = mapped(*KNOTS, (3, 4), (3, 5), (3, 4), (3, 5), (7,))
    assert areas(graph) == {
        "net/": {"net/a.py", "net/b.py", "net/c.py"},
        "ui/": {"ui/x.py", "ui/y.py", "docs/z.md"},
    }
    summaries = {node.path: node.summary for node in graph.nodes}
    assert summaries["net/c.py"] == "12 commits, in the cluster net/"
    assert summaries["alone.txt"] == "1 commits, in no cluster"


@pytest.mark.parametrize(
    ("commits", "paths", "links"),
    [
        ([tuple(range(LARGEST + 1))] * 2, range(LARGEST + 1), False),
        ([tuple(range(LARGEST))] * 2, range(LARGEST), True),
        ([(1, 2), (1, 2)], [1], False),
        ([], [], False),
    ],
)
def test_a_large_commit_and_a_file_that_is_gone_link_nothing(
    commits: list[Sequence[int]], paths: Sequence[int], links: bool
) -> None:
    graph = mapped(*commits, names={file: b"%d" % file for file in paths})
    assert bool(graph.links) is links and len(graph.nodes) == len(paths)


def test_a_folder_with_half_of_all_files_gives_way_to_those_in_it() -> None:
    folders, colours = colour_folders([b"src/a/1", b"src/a/2", b"src/b/3", b"src/4", b"docs/5", b"6"])
    assert folders == [b"src/a/", b"src/b/", b"src/", b"docs/", b"./"]
    assert colours == [0, 0, 1, 2, 3, 4]


@given(st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=5, unique=True), max_size=40))
def test_every_file_is_in_one_cluster_at_most(commits: list[list[int]]) -> None:
    graph = mapped(*commits)
    members = [file for area in graph.areas for file in area.members]
    assert len(members) == len({*members}) and len(graph.rows) == len(graph.nodes)
    assert all(graph.nodes[row].path for row, _ in graph.rows)
    assert graph == mapped(*commits)


def test_discs_titles_and_dots_do_not_overlap() -> None:
    graph = large(40)
    assert len(graph.areas) >= 30
    for one, other in combinations(graph.areas, 2):
        assert math.dist((one.x, one.y), (other.x, other.y)) >= one.radius + other.radius
        half = [columns(shorten_middle(area.name, 22)) * TITLE_SIZE * ADVANCE / 2 for area in (one, other)]
        down = abs((one.y - one.radius) - (other.y - other.radius))
        assert abs(one.x - other.x) >= sum(half) or down >= TITLE_SIZE
    for area in graph.areas:
        spots = [(graph.nodes[file].x, graph.nodes[file].y) for file in area.members]
        assert all(math.dist(spot, (area.x, area.y)) <= area.radius for spot in spots)
        assert len({*spots}) == len(spots)


def test_hostile_names_are_text_on_the_page_and_each_file_is_listed() -> None:
    commits = [*combinations(range(4), 2), *combinations(range(4, 8), 2), (0, 4), (0, 5)] * 3
    text = render_html(mapped(*commits, names=dict(enumerate(HOSTILE)), note="a <note>"))
    page = check_page(text, HOSTILE)
    assert "<b>top" not in text and "a &lt;note&gt;" in text
    assert len([1 for _, attributes in page.tags if "data-node" in attributes]) == 8
    assert all(a["tabindex"] == "0" and a["aria-label"] for _, a in page.tags if "data-area" in a)
    small = render_html(mapped((1,), names={1: b"README"}))
    assert "README" in small and "0 clusters" in small


TRY = """
const hits = () => document.getElementById("hits").textContent;
const panel = () => document.querySelector("#evidence h2").textContent;
const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const find = document.getElementById("find");
const result = [];
find.value = "folder1/";
find.dispatchEvent(new Event("input"));
result.push(hits(), document.querySelectorAll(".node.on").length);
press(find, "Enter");
result.push(panel(), document.querySelectorAll("#own line").length > 0);
press(document, "Escape");
result.push(panel(), document.querySelectorAll(".node.on").length);
const disc = document.querySelector("[data-area]");
press(disc, "ArrowRight");
result.push(disc.querySelector("title").textContent.startsWith(panel()));
document.title = JSON.stringify(result);
"""


@needs_browser
def test_a_browser_searches_and_walks_the_map(tmp_path: Path) -> None:
    graph = large()
    own = [node for node in graph.nodes if node.path.startswith("folder1/")]
    clustered = [node for node in own if "in no cluster" not in node.summary]
    text = re.sub(r"<meta http-equiv[^>]*>", "", render_html(graph))  # else it would refuse the test's script
    page = tmp_path / "map.html"
    page.write_text(text.replace("</body>", f"<script>{TRY}</script></body>"), encoding="utf-8")
    seen = rendered(page)
    title = re.search(r"<title>(\[.*\])</title>", seen)
    assert title is not None and 'data-ready="1"' in seen
    first = printable_line(own[0].path)
    assert title[1] == f'["{len(own)} files",{len(clustered)},"{first}",true,"Evidence",0,true]'
