"""The image: well-formed whatever the names are, self-contained, with the evidence in it."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.history.graph import shown
from repoagent.history.graph_output import svg
from tests.history.graph.samples import HOSTILE, graph, many

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = {"svg", "title", "style", "rect", "text", "g", "path", "circle"}


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.encode("utf-8"))


def titles(root: ElementTree.Element) -> list[str]:
    return [title.text or "" for title in root.iter(f"{SVG}title")]


@pytest.mark.parametrize("paths", [[], many(1), many(3), many(30), list(HOSTILE)], ids=len)
def test_it_is_well_formed_and_holds_nothing_that_runs_or_loads(paths: list[bytes]) -> None:
    text = svg(graph(paths))
    root = parsed(text)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= DRAWN
    attributes = {name for element in root.iter() for name in element.attrib}
    assert not [name for name in attributes if name.startswith("on") or "href" in name or name == "style"]
    assert "url(" not in text and "@import" not in text
    assert text == svg(graph(paths))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.binary(min_size=1, max_size=40).filter(lambda name: name != b"src/asked.py"),
        unique=True,
        max_size=6,
    )
)
def test_any_names_make_a_well_formed_image(paths: list[bytes]) -> None:
    root = parsed(svg(graph(paths)))
    nodes = [element for element in root.iter(f"{SVG}g") if "data-node" in element.attrib]
    assert len(nodes) == len(paths) + 1


def test_hovering_a_file_or_a_line_shows_the_evidence() -> None:
    found = titles(parsed(svg(graph(HOSTILE))))
    for name in HOSTILE:
        (said,) = [title for title in found if title.startswith(shown(name) + ": ")]
        assert "3 of 10 commits (30%)" in said
        assert "2026-01-02 aaaaaaa Ada </script>: Fix <b>&</b> ^[[0m <U+202E> it" in said
    assert [title for title in found if title.startswith("src/asked.py and ")]


def test_surer_is_thicker() -> None:
    root = parsed(svg(graph(many(8), chain=False)))
    widths = {}
    for link in root.iter(f"{SVG}g"):
        if "data-link" in link.attrib:
            title = link.findtext(f"{SVG}title") or ""
            (path,) = [one for one in link.iter(f"{SVG}path") if "stroke-width" in one.attrib]
            widths[title.partition(":")[0]] = float(path.attrib["stroke-width"])
    ordered = [widths[f"src/asked.py and {name.decode()}"] for name in many(8)]
    assert ordered == sorted(ordered, reverse=True)
    assert ordered[0] > 2 * ordered[-1]


def test_light_and_dark_have_their_colours() -> None:
    text = svg(graph(many(9)))
    light, dark = text.split("@media (prefers-color-scheme:dark)")
    for part in (light, dark):
        assert re.search(r"\.ground\{fill:#[0-9a-f]{6}\}", part)
    classes = set(re.findall(r'class="[^"]*\b(g\d)\b', text))
    assert classes and all(f".{name} .spot" in light and f".{name} .spot" in dark for name in classes)
