"""Tables fit the terminal: one column is cut, the others are not."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from repoagent.cli.ui.table import Column, Page
from repoagent.cli.ui.terminal_text import display_width

HEADS = (
    Column("file", cut="middle", least=20),
    Column("lines", right=True),
    Column("what", cut="end", least=12),
    Column("empty"),
    Column("more", dropped=1),
)
TEXT = st.text(st.sampled_from("ab/漢é ."), min_size=1, max_size=50).map(str.strip)


@given(
    rows=st.lists(st.tuples(TEXT, st.integers(0, 10**6), TEXT), min_size=1, max_size=6),
    width=st.sampled_from([60, 80, 120]),
    color=st.booleans(),
)
def test_a_table_fits_and_its_columns_are_aligned(
    rows: list[tuple[str, int, str]], width: int, color: bool
) -> None:
    cells = [
        ((path, "path"), (f"{number:,}",), (what, "dim"), ("",), ("abc",)) for path, number, what in rows
    ]
    shown = [
        re.sub(r"\x1b\[[0-9;]*m", "", line) for line in Page(width, color).table(HEADS, cells, {0: ["  x"]})
    ]
    assert len(shown) == len(rows) + 2 and shown[2] == "  x"
    assert max(map(display_width, shown)) <= width
    assert "empty" not in shown[0]
    end = display_width(shown[0][: shown[0].index("lines") + 5])
    for (_, number, _), line in zip(rows, [shown[1], *shown[3:]], strict=True):
        ends = [result.end() for result in re.finditer(f"{number:,}", line)]
        assert end in [display_width(line[:at]) for at in ends]  # whole, and where the head ends


def test_droppable_columns_go_before_others_are_cut() -> None:
    cells = [[("a" * 30,), ("1",), ("w" * 20,), ("",), ("more",)]]
    assert next(Page(None).table(HEADS, cells)).split() == ["file", "lines", "what", "more"]
    head, row = Page(44).table(HEADS, cells)
    assert head.split() == ["file", "lines", "what"] and len(row) <= 44
    assert "…" in row.split()[0] and row.split()[1] == "1" and row.split()[2].endswith("w…")
    assert "..." in list(Page(44, ascii=True).table(HEADS, cells))[1]


def test_a_pipe_gets_the_whole_values_and_the_head_is_dim_on_a_terminal() -> None:
    cells = [[("src/" + "a" * 25, "path"), ("1",), ("w" * 300, "green"), ("",), ("",)]]
    assert list(Page(None).table(HEADS, cells))[1].split() == [cell[0] for cell in cells[0] if cell[0]]
    head, row = Page(80, color=True).table(HEADS, cells)
    assert head.startswith("\x1b[2mfile") and row.startswith("\x1b[2msrc/\x1b[m") and "\x1b[32mww" in row
