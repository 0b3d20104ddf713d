"""The page: one file that loads nothing, in which a hostile name is nothing but text."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest

from repoagent.history.graph import shown
from repoagent.history.graph_output import html
from tests.browser import needs_browser, rendered
from tests.history.graph.samples import HOSTILE, graph, many

ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "p", "main", "div", "section", "table",
    "thead", "tbody", "tr", "th", "td", "button", "small", "svg", "rect", "g", "path", "circle", "text", "footer",
    "script",
}  # fmt: skip


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


def policy(page: Page) -> str:
    (found,) = [a["content"] for tag, a in page.tags if tag == "meta" and a.get("http-equiv")]
    return found or ""


def test_hostile_names_are_text_and_nothing_is_loaded() -> None:
    text = html(graph(HOSTILE[2:], asked=HOSTILE[:2]))
    page = Page(text)
    assert {tag for tag, _ in page.tags} <= ALLOWED
    names = {name for _, attributes in page.tags for name in attributes}
    assert not [name for name in names if name.startswith("on") or name in {"src", "href", "style", "srcset"}]
    assert {shown(name) for name in HOSTILE[2:]} <= set(page.texts)
    assert text.count("<script") == 2 == text.count("</script>")
    assert "\x1b" not in text and "\u202e" not in text


def test_only_its_own_script_and_rules_may_count() -> None:
    page = Page(html(graph(many(4))))
    said = policy(page)
    assert said.startswith("default-src 'none';") and "unsafe" not in said
    _, script = page.inside["script"]
    (rules,) = page.inside["style"]
    for kind, text in (("script-src", script), ("style-src", rules)):
        assert f"{kind} 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in said
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", html(graph(many(4))))


def test_the_script_is_given_all_of_the_evidence() -> None:
    drawn = graph(HOSTILE)
    page = Page(html(drawn))
    data = json.loads(page.inside["script"][0])
    assert [node["path"] for node in data["nodes"]] == ["src/asked.py", *map(shown, HOSTILE)]
    assert data["nodes"][1]["commits"][0] == [
        "2026-01-02", "aaaaaaa", "Ada </script>", "Fix <b>&</b> ^[[0m <U+202E> it",
    ]  # fmt: skip
    assert len(data["links"]) == len(drawn.links)


def test_a_row_for_each_neighbor_that_the_keyboard_reaches() -> None:
    page = Page(html(graph(many(5))))
    rows = [
        attributes["data-row"] for tag, attributes in page.tags if tag == "tr" and "data-row" in attributes
    ]
    assert rows == ["1", "2", "3", "4", "5"]
    nodes = [attributes for tag, attributes in page.tags if "data-node" in attributes]
    assert len(nodes) == 6
    assert all(node["tabindex"] == "0" and node["role"] == "button" and node["aria-label"] for node in nodes)


@needs_browser
@pytest.mark.soak
def test_a_browser_runs_its_script_and_no_other(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    hooked = html(graph(HOSTILE)).replace(
        "</body>",
        "<script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\"></body>",
    )
    page.write_text(hooked, encoding="utf-8")
    seen = rendered(page)
    assert "<title>What changes with src/asked.py</title>" in seen
    assert 'data-ready="1"' in seen
    assert seen.count("<img") == 1  # the one that this test has put there
