"""Style sheets."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.syntax.documents import sheet_symbols
from repoagent.syntax.outline import outline
from repoagent.syntax.parser import parse
from tests.syntax.outline.test_outline import check_ranges, names


def test_rules_comments_and_nesting() -> None:
    text = (
        "/* far */\n\n/* near\n   two */\na,\nb /* c */ > d {\n  e: f;\n  /* in */\n  &:hover { g: h }\n}\n"
        "@media (min-width: 1px) {\n  x { y: z }\n}\n@keyframes k { from { a: b } to { a: c } }\n@layer one, two;\n"
    )
    assert names("a.css", text) == [
        ("selector", "a, b > d", 3, 10),
        ("selector", "a, b > d.&:hover", 8, 9),
        ("rule", "@media (min-width: 1px)", 11, 13),
        ("selector", "@media (min-width: 1px).x", 12, 12),
        ("rule", "@keyframes k", 14, 14),
        ("rule", "@layer one, two", 15, 15),
    ]


def test_an_interpolation_opens_no_block() -> None:
    text = b"a-#{$n} { b: c }\n"
    assert [s.name for s in sheet_symbols(parse(text, "css").root_node, text)] == ["a-#{$n}"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(["a {", "}", "@media x {", ";", "/* c */\n", "\n", "b: c;", "'", "#{"]), max_size=25
    )
)
def test_any_sheet(parts: list[str]) -> None:
    data = "".join(parts).encode()
    check_ranges(outline("a.css", data), data)
