"""The page of the map: nothing overlaps, nothing is loaded, and a browser can search it."""

from __future__ import annotations

import math
import random
import re
from itertools import combinations
from pathlib import Path

from repoagent.history.graph import ADVANCE, columns, shown
from repoagent.history.map_html import TITLE_SIZE, map_page, place
from repoagent.history.repository_map import RepositoryMap, build_map
from tests.browser import needs_browser, rendered
from tests.history.graph.samples import HOSTILE
from tests.history.graph.test_html import Page, policy
from tests.history.test_repository_map import history


def large(seed: int = 1, groups: int = 40) -> RepositoryMap:
    """Groups of 3 to 60 files; each commit is of one group, some of two."""
    rng = random.Random(seed)
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
    return build_map("big", "a" * 40, history(*commits), names)


def hostile() -> RepositoryMap:
    names = dict(enumerate(HOSTILE))
    commits = [*combinations(range(4), 2), *combinations(range(4, 8), 2), (0, 4), (0, 5)] * 3
    return build_map("<b>top", "a" * 40, history(*commits), names, "a <note>")


def test_no_disc_and_no_title_lies_on_another_one() -> None:
    found = large()
    discs = place(found)
    assert len(discs) == len(found.clusters) >= 30
    for one, other in combinations(discs, 2):
        assert math.dist((one.x, one.y), (other.x, other.y)) >= one.radius + other.radius
    page = map_page(found)
    titles = [
        (float(x), float(y), columns(name) * TITLE_SIZE * ADVANCE / 2)
        for x, y, name in re.findall(r'<text class="head" x="([-\d.]+)" text-anchor="middle" y="([-\d.]+)">([^<]+)<', page)
    ]  # fmt: skip
    assert len(titles) == len(discs)
    for (x, y, wide), (x2, y2, wide2) in combinations(titles, 2):
        assert abs(x - x2) >= wide + wide2 or abs(y - y2) >= TITLE_SIZE


def test_each_file_of_a_cluster_is_a_dot_and_each_file_is_listed() -> None:
    found = large(groups=8)
    page = Page(map_page(found))
    dots = [int(a["data-file"] or "") for tag, a in page.tags if tag == "circle" and "data-file" in a]
    assert sorted(dots) == sorted(file for cluster in found.clusters for file in cluster.files)
    assert {shown(file.path) for file in found.files} <= set(page.texts)
    discs = [a for _, a in page.tags if "data-cluster" in a]
    assert all(disc["tabindex"] == "0" and disc["aria-label"] for disc in discs)


def test_hostile_names_are_text_and_nothing_is_loaded() -> None:
    text = map_page(hostile())
    page = Page(text)
    names = {name for _, attributes in page.tags for name in attributes}
    assert not [name for name in names if name.startswith("on") or name in {"src", "href", "style", "srcset"}]
    assert {shown(name) for name in HOSTILE} <= set(page.texts)
    assert policy(page).startswith("default-src 'none';") and "unsafe" not in policy(page)
    assert text.count("<script") == 2 == text.count("</script>")
    assert "\x1b" not in text and "\u202e" not in text and "<b>top" not in text


def test_a_repository_without_clusters_has_a_page_that_says_so() -> None:
    text = map_page(build_map("small", "a" * 40, history((1,)), {1: b"README"}))
    assert "No two files have changed together often enough" in text and "README" in text


def test_the_same_history_gives_the_same_page() -> None:
    assert map_page(large(groups=8)) == map_page(large(groups=8))


TRY = """
const hits = () => document.getElementById("hits").textContent;
const panel = () => document.querySelector("#evidence h2").textContent;
const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const find = document.getElementById("find");
const result = [];
find.value = "folder1/";
find.dispatchEvent(new Event("input"));
result.push(hits(), document.querySelectorAll(".dot.on").length);
press(find, "Enter");
result.push(panel(), document.querySelectorAll("#own line").length > 0);
press(document, "Escape");
result.push(panel(), document.querySelectorAll(".dot.on").length);
const disc = document.querySelector(".disc");
press(disc, "ArrowRight");
result.push(panel() === disc.querySelector("title").textContent);
document.title = JSON.stringify(result);
"""


@needs_browser
def test_a_browser_searches_and_walks_the_map(tmp_path: Path) -> None:
    found = large(groups=8)
    own = [shown(file.path) for file in found.files if file.path.startswith(b"folder1/")]
    clustered = [
        file for file in found.files if file.path.startswith(b"folder1/") and file.cluster is not None
    ]
    text = re.sub(r"<meta http-equiv[^>]*>", "", map_page(found))  # else it would refuse the test's script
    page = tmp_path / "map.html"
    page.write_text(text.replace("</body>", f"<script>{TRY}</script></body>"), encoding="utf-8")
    seen = rendered(page)
    title = re.search(r"<title>(\[.*\])</title>", seen)
    assert title is not None and 'data-ready="1"' in seen
    assert title[1] == (f'["{len(own)} files",{len(clustered)},"{own[0]}",true,"A place to look",0,true]')
