"""Pictures of neighbors: groups, positions, the SVG image and the page; names from a repository are nothing but text."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from html.parser import HTMLParser
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.history import graph as graph_module
from repoagent.history.cochange import Neighbor
from repoagent.history.graph import (
    Graph,
    Node,
    clusters,
    columns,
    neighbors_graph,
    printable_line,
    shorten_middle,
)
from repoagent.history.graph_output import render_html, svg
from repoagent.history.neighbors import Edge, Neighborhood
from repoagent.history.render import CommitHeader, day
from tests.browser import needs_browser, rendered

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = (
    b"</script><img src=x onerror=alert(1)>.py",
    b"\"><svg onload=alert(2)>&amp;'.c",
    b"line\nbreak\tand \x1b[31mcolour\\n.txt",
    b"not-utf8-\xff\xfe.bin",
    "naïve/ünï/文件名非常长的一个例子.md".encode(),
    "dir/\u202egnp.exe\u200b".encode(),
    b"]]><!--.xml",
    b"-dash --> n0 [label=x].dot",
)
EVIL = "Fix <b>&</b> \x1b[0m \u202e it"
HEADERS = {
    "a" * 40: CommitHeader("a" * 40, "aaaaaaa", "Ada </script>", "2026-01-02T03:04:05Z", EVIL),
    "b" * 40: CommitHeader("b" * 40, "bbbbbbb", "Bob", "2026-01-01T03:04:05Z", ""),
}


def graph(paths: Sequence[bytes], *, query: Sequence[bytes] = (b"src/app.py",), chain: bool = True) -> Graph:
    """Each path is a neighbor, surer than the next; with `chain` two of three pairs have changed together."""
    facts = (3, 10, 1_700_000_000, (1, 2), ("together", "folder"))
    rows = tuple(Neighbor(n, path, 0.9 / (1 + n), *facts) for n, path in enumerate(paths))
    edges = [Edge(one, row.path, row.score, 3, 10, (1,)) for one in query for row in rows]
    if chain:
        edges += [Edge(*pair, 0.3, 2, 5, (2,)) for number, pair in enumerate(pairwise(paths)) if number % 3]
    ids = {1: "a" * 40, 2: "b" * 40}
    whole = Neighborhood(tuple(query), "HEAD", "a" * 40, rows, "whole", "a note", 10, ids, tuple(edges))
    return neighbors_graph(whole, HEADERS)


def many(count: int) -> list[bytes]:
    return [f"some/folder{number % 4}/file_number_{number}.py".encode() for number in range(count)]


KNOTS = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]


@pytest.mark.parametrize(
    ("count", "weights", "groups"),
    [
        (0, {}, []),
        (3, {}, [[0], [1], [2]]),
        (7, dict.fromkeys(KNOTS, 1.0) | {(2, 3): 0.1}, [[0, 1, 2], [3, 4, 5], [6]]),
        (4, dict.fromkeys(combinations(range(4), 2), 1.0), [[0, 1, 2, 3]]),
    ],
)
def test_clusters(count: int, weights: dict[tuple[int, int], float], groups: list[list[int]]) -> None:
    assert clusters(count, weights) == groups


pairs = st.tuples(st.integers(0, 11), st.integers(0, 11)).filter(lambda pair: pair[0] < pair[1])


@given(st.dictionaries(pairs, st.floats(0.01, 1.0), max_size=40))
def test_each_node_is_in_one_cluster_whatever_the_order(weights: dict[tuple[int, int], float]) -> None:
    groups = clusters(12, weights)
    assert sorted(node for group in groups for node in group) == list(range(12))
    assert groups == sorted(groups) == clusters(12, dict(reversed(weights.items())))
    linked = {node for pair in weights for node in pair}
    assert all(len(group) == 1 for group in groups if not set(group) & linked)


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        ([[b"a/b/1", b"a/b/2", b"c/3"], [b"x"]], ["a/b/", "x"]),
        ([[b"a/1", b"a/2"], [b"a/3", b"a/4"]], ["1", "3"]),
        ([[b"a/1", b"b/2"]], ["1"]),
        ([[b"a\n/1"]], ["a^J/"]),
    ],
)
def test_a_group_is_named_by_its_folder_or_first_file(groups: list[list[bytes]], names: list[str]) -> None:
    assert graph_module.group_names(groups) == names


@given(st.binary(max_size=60))
def test_any_name_is_one_line_of_valid_xml(name: bytes) -> None:
    text = printable_line(name)
    assert text.isprintable()
    assert ElementTree.fromstring(f"<a>{escape(text)}</a>").text == (text or None)


@given(st.text(max_size=80), st.integers(2, 40))
def test_a_shortened_name_fits_and_keeps_its_ends(text: str, limit: int) -> None:
    text = printable_line(text)
    short = shorten_middle(text, limit)
    assert columns(short) <= limit
    if columns(text) <= limit:
        assert short == text
    else:
        start, _, end = short.rpartition("…")
        assert text.startswith(start.partition("…")[0]) and text.endswith(end)


def test_names_and_days() -> None:
    assert printable_line(b"a\nb\x1b\xff\x7f") == "a^Jb^[<FF>^?" and printable_line("\u202ex") == "<U+202E>x"
    assert columns("文件") == 4 and columns("e\u0301") == 1
    assert shorten_middle("文件文件文件", 5) == "文…件"
    assert not shorten_middle("abcdefghe\u0301\u0301\u0301", 3).endswith("…\u0301\u0301\u0301")
    assert [day(0), day(None), day(1 << 62)] == ["1970-01-01", "", "?"]


def box(node: Node) -> tuple[float, float, float, float]:
    """Left, top, right, bottom of a node with its label."""
    if not node.side:
        return node.x - node.reach, node.y - 15, node.x + node.reach, node.y + 15
    ends = sorted((node.x - node.side * 10, node.x + node.side * (node.reach - 1)))
    bottom = node.y + (13 + graph_module.FOLDER_SIZE * 0.3 if node.label[1] else 10.0)
    return ends[0], node.y - max(graph_module.NAME_SIZE, 10.0), ends[1], bottom


LONG = [b"a/very/long/path/of/folders/that/never/ends/" + b"x" * 60 + str(n).encode() for n in range(12)]
WIDE = [("文" * 30 + f"/{n}文件.md").encode() for n in range(9)]


@pytest.mark.parametrize("queries", [1, 2, 6])
@pytest.mark.parametrize(
    "paths", [many(n) for n in (0, 1, 2, 3, 5, 20, 30, 60)] + [LONG, WIDE, list(HOSTILE)], ids=len
)
def test_labels_do_not_overlap_and_are_in_the_picture(paths: list[bytes], queries: int) -> None:
    drawn = graph(paths, query=[b"src/query%d.py" % n for n in range(queries)])
    boxes = [box(node) for node in drawn.nodes]
    for one, other in combinations(boxes, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one, other)
    wide, high = drawn.size[0] / 2, drawn.size[1] / 2
    for left, top, right, bottom in boxes:
        assert -wide <= left and right <= wide and -high <= top and bottom <= high


def test_a_group_stays_together() -> None:
    drawn = graph(many(24))
    around = sorted(drawn.nodes[1:], key=lambda node: (-(node.side or 0), (node.side or 0) * node.y))
    groups = [node.group for node in around]  # clockwise from the top
    changes = sum(one != other for one, other in pairwise(groups))
    assert len(drawn.groups) > 1 and changes == len(set(groups)) - 1


@pytest.mark.parametrize("paths", [[], many(1), many(3), many(30), list(HOSTILE)], ids=len)
def test_the_image_is_well_formed_and_nothing_in_it_runs_or_loads(paths: list[bytes]) -> None:
    text = svg(graph(paths))
    elements = list(ElementTree.fromstring(text.encode()).iter())
    drawn = {"svg", "title", "style", "rect", "text", "g", "path", "circle"}
    assert {element.tag.removeprefix(SVG) for element in elements} <= drawn
    attributes = {name for element in elements for name in element.attrib}
    assert not [name for name in attributes if name.startswith("on") or "href" in name or name == "style"]
    assert "url(" not in text and "@import" not in text
    assert text == svg(graph(paths))


def test_tooltips_show_the_evidence() -> None:
    root = ElementTree.fromstring(svg(graph(HOSTILE)))
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    for name in HOSTILE:
        (text,) = [title for title in titles if title.startswith(printable_line(name) + ": ")]
        assert "3 of 10 commits (30%)" in text and "together, same folder" in text
        assert "2026-01-02 aaaaaaa Ada </script>: Fix <b>&</b> ^[[0m <U+202E> it" in text
    assert [title for title in titles if title.startswith("src/app.py and ")]


def test_surer_is_thicker() -> None:
    widths = {}
    for link in ElementTree.fromstring(svg(graph(many(8), chain=False))).iter(f"{SVG}g"):
        if "data-link" in link.attrib:
            (path,) = [one for one in link.iter(f"{SVG}path") if "stroke-width" in one.attrib]
            title = link.findtext(f"{SVG}title") or ""
            widths[title.partition(":")[0]] = float(path.attrib["stroke-width"])
    ordered = [widths[f"src/app.py and {name.decode()}"] for name in many(8)]
    assert ordered == sorted(ordered, reverse=True) and ordered[0] > 2 * ordered[-1]


class Page(HTMLParser):
    """Tags, attributes and texts of a page as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self._raw = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._raw = tag if tag in self.inside else ""
        if self._raw:
            self.inside[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._raw = ""

    def handle_data(self, data: str) -> None:
        if self._raw:
            self.inside[self._raw][-1] += data
        else:
            self.texts.append(data)


def check_page(text: str, paths: Sequence[bytes]) -> Page:
    """Check that a page loads nothing, runs its own script alone and shows all of `paths` as text."""
    page = Page(text)
    names = {name for _, attributes in page.tags for name in attributes}
    assert not [name for name in names if name.startswith("on") or name in {"src", "href", "style", "srcset"}]
    assert not {tag for tag, _ in page.tags} & {"img", "a", "link", "iframe", "object", "base", "form"}
    assert {printable_line(path) for path in paths} <= set(page.texts)
    assert text.count("<script") == 2 == text.count("</script>")
    assert "\x1b" not in text and "\u202e" not in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    (policy,) = [a["content"] or "" for tag, a in page.tags if tag == "meta" and a.get("http-equiv")]
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    for kind, code in (("script-src", page.inside["script"][1]), ("style-src", page.inside["style"][0])):
        assert f"{kind} 'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'" in policy
    return page


def test_the_page_has_all_of_the_evidence_and_is_reached_by_keyboard() -> None:
    drawn = graph(HOSTILE)
    page = check_page(render_html(drawn), HOSTILE)
    data = json.loads(page.inside["script"][0])
    assert [node[0] for node in data["nodes"]] == ["src/app.py", *map(printable_line, HOSTILE)]
    commit = ["2026-01-02", "aaaaaaa", "Ada </script>", "Fix <b>&</b> ^[[0m <U+202E> it"]
    assert data["nodes"][1][4][0] == commit
    assert len(data["links"]) == len(drawn.links)
    rows = [a["data-row"] for tag, a in page.tags if tag == "tr" and "data-row" in a]
    assert rows == [str(number) for number in range(1, 9)]
    nodes = [attributes for _, attributes in page.tags if "data-node" in attributes]
    assert len(nodes) == 9
    assert all(node["tabindex"] == "0" and node["role"] == "button" and node["aria-label"] for node in nodes)


@needs_browser
@pytest.mark.soak
def test_a_browser_runs_its_script_and_no_other(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    evil = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\"></body>"
    page.write_text(render_html(graph(HOSTILE)).replace("</body>", evil), encoding="utf-8")
    seen = rendered(page)
    assert "<title>What changes with src/app.py</title>" in seen and 'data-ready="1"' in seen
    assert seen.count("<img") == 1  # the one that this test has put there
