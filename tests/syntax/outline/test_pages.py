"""HTML pages: headings with what they head, landmarks, ids."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.syntax.outline import find_symbols, outline
from tests.syntax.outline.test_outline import check_ranges, names


def test_a_heading_reaches_to_the_next_of_its_level() -> None:
    text = (
        "<body>\n<h1>Top &amp; all</h1>\n<p>a\n<h2 id=one>One <b>two</b></h2>\n<p>b\n<h3>Deep</h3>\n"
        '<div class="head">\n<h2>Two<a href="#two">¶</a></h2>\n</div>\n<p>c\n</body>\n'
    )
    assert names("a.html", text) == [
        ("heading", "Top & all", 2, 10),
        ("heading", "Top & all.One two", 4, 6),
        ("heading", "Top & all.One two.Deep", 6, 6),
        ("heading", "Top & all.Two", 8, 10),
    ]
    found = outline("a.html", text.encode())
    assert [symbol.signature for symbol in found] == [
        "<h1> Top & all",
        '<h2 id="one"> One two',
        "<h3> Deep",
        "<h2> Two",
    ]
    assert find_symbols("a.html", text.encode(), "#one")[0].first_line == 4


def test_a_heading_ends_with_the_section_or_the_element_with_an_id_that_holds_it() -> None:
    text = (
        '<section>\n<h2>In</h2>\n</section>\n<p>x\n<div id="d">\n<h3>Held</h3>\ntext\n</div>\n'
        '<h2>Last</h2>\n<div id="e">\n<h4>Low</h4>\n<h1>High</h1>\n</div>\n<p>end\n'
    )
    assert names("a.html", text) == [
        ("heading", "In", 2, 2),
        ("element", "#d", 5, 8),
        ("heading", "#d.Held", 6, 7),
        ("heading", "Last", 9, 9),
        ("element", "#e", 10, 13),
        ("heading", "#e.Low", 11, 11),
        ("heading", "#e.High", 12, 12),
    ]


def test_landmarks_are_shown_and_places_to_jump_to_are_not() -> None:
    text = (
        "<nav>\n<ul><li><a id='toc-1' href='#1'>1</a></ul>\n</nav>\n<footer>one line</footer>\n"
        "<script>\nfunction f() {}\n</script>\n<p><span id=x></span><input\n  id='q' name='q'>\n"
    )
    assert names("a.html", text) == [
        ("element", "nav", 1, 3),
        ("element", "script", 5, 7),
        ("element", "#q", 8, 9),
    ]
    assert outline("a.html", text.encode())[2].signature == "<input id='q' name='q'>"


PARTS = [
    "<h1>a</h1>",
    "<h2>b",
    "</h2>",
    "<h3 id=c>d</h3>",
    "<div id=e>",
    "</div>",
    "<section>",
    "</section>",
    "\n",
]


@pytest.mark.parametrize("ending", ["", "\n"])
@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=25))
def test_any_page(ending: str, parts: list[str]) -> None:
    data = ("".join(parts) + ending).encode()
    check_ranges(outline("a.html", data), data)
