"""Long results: the shortened text, the file with all of it, and quoted pieces."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from repoagent.agent.actions import Action, Observation
from repoagent.agent.context_window.shorten_text import (
    Quoted,
    byte_length,
    cut_middle,
    fair_limit,
    piece_text,
    shorten,
    spill_long_results,
    spill_text,
    split_quoted,
)
from repoagent.agent.state import Tool
from repoagent.errors import Refused
from repoagent.llm.model import fence

ROWS = "".join(f"row {number}\n" for number in range(1, 2001))


def tool(text: str) -> Tool:
    return Tool("run", "", lambda action: Observation("run", text, ok=False, data={"exit": 3}))


def test_short_result_is_unchanged(tmp_path: Path) -> None:
    seen = spill_long_results(tool("short"), tmp_path / "output").perform(Action("run"))
    assert seen == Observation("run", "short", ok=False, data={"exit": 3})
    (tmp_path / "output").write_text("")
    with pytest.raises(Refused):  # the folder cannot be created
        spill_long_results(tool(ROWS), tmp_path / "output").perform(Action("run"))


def test_long_result_is_shortened_and_saved(tmp_path: Path) -> None:
    text = f"exit 3\n{fence(ROWS, 'output')}\nIt took 2 s."
    again = spill_long_results(tool(text), tmp_path / "output", shown_as=lambda path: f"out/{path.name}")
    seen = again.perform(Action("run"))
    assert byte_length(seen.text) <= 8192
    (file,) = (tmp_path / "output").iterdir()
    assert file.read_text() == ROWS
    assert seen.data == {"exit": 3, "spilled": [f"out/{file.name}"]}
    assert not seen.ok
    start, head, note, tail, end = split_quoted(seen.text)
    assert (start, end) == ("exit 3\n", "\nIt took 2 s.")
    assert isinstance(head, Quoted) and isinstance(tail, Quoted)
    match = re.search(r'Lines (\d+)-(\d+) of 2,000 .*<read path="out/\S+" lines="\1-\2"/>', str(note))
    assert match
    left = ROWS.splitlines(keepends=True)[int(match[1]) - 1 : int(match[2])]
    assert head.content + "".join(left) + tail.content == ROWS
    stamp = file.stat().st_mtime_ns
    assert again.perform(Action("run")) == seen
    assert file.stat().st_mtime_ns == stamp


def test_very_long_line_is_cut_inside(tmp_path: Path) -> None:
    text, (file,) = spill_text(fence("é" * 50_000, "output"), tmp_path)
    assert byte_length(text) <= 8192 and 'lines="1" characters="1-4000"' in text
    assert file.read_text() == "é" * 50_000 + "\n"


def test_several_pieces_share_the_limit(tmp_path: Path) -> None:
    text, files = spill_text(f"{fence('small', 'a')}\n{fence(ROWS, 'b')}\n{fence(ROWS * 2, 'c')}", tmp_path)
    assert byte_length(text) <= 8192 and len(files) == 2
    labels = [piece.label for piece in split_quoted(text) if isinstance(piece, Quoted)]
    assert labels == ["a", "b", "b", "c", "c"]


def test_of_many_pieces_the_first_are_shown(tmp_path: Path) -> None:
    whole_text = "\n".join(fence(f"{n}\n" * 60, f"p{n}") for n in range(100))
    text, (file,) = spill_text(whole_text, tmp_path)
    assert byte_length(text) <= 8192
    assert file.read_text() == whole_text
    *shown, _ = split_quoted(text)
    assert whole_text.startswith("".join(map(piece_text, shown)))


def test_invalid_fence_is_text() -> None:
    assert split_quoted('<a id="123456">\nx\n</a id="123456">') == ['<a id="123456">\nx\n</a id="123456">']
    inner = fence("x", "inner")
    assert split_quoted(fence(inner, "outer")) == [Quoted("outer", f"{inner}\n")]
    assert split_quoted("<a>\n<a>\nx\n</a>\n</a>")[0] == "<a>\n"  # a fence would have an id


CONTENT = st.one_of(
    st.text(max_size=60),
    st.builds(lambda word, count: word * count, st.sampled_from(["a\n", "é", "x y\n\n", fence("in", "b"), "</a>\n"]), st.integers(0, 900)),
)  # fmt: skip
TEXTS = st.lists(
    st.one_of(CONTENT, st.builds(fence, CONTENT, st.sampled_from(["output", 'file path="a"']))), max_size=10
).map("\n".join)


@given(TEXTS, st.integers(1_024, 6_000))
@settings(max_examples=30)
def test_fences_of_a_shortened_text(tmp_path_factory: pytest.TempPathFactory, text: str, limit: int) -> None:
    assert "".join(map(piece_text, split_quoted(text))) == text
    folder = tmp_path_factory.getbasetemp() / "spilled"
    made, files = spill_text(text, folder, limit=limit)
    assert byte_length(made) <= limit + 1_400 if files else made == text
    assert spill_text(text, folder, limit=limit) == (made, files)
    free = "".join(piece for piece in split_quoted(text) if isinstance(piece, str))
    for short in (made, shorten(text, limit, "[left out]")):
        for line in "".join(piece for piece in split_quoted(short) if isinstance(piece, str)).split("\n"):
            assert line in free or "left out" in line  # no quoted text has become free text
    assert byte_length(shorten(text, limit, "[left out]")) <= limit


@given(st.lists(st.integers(0, 5_000), max_size=8), st.integers(0, 20_000))
def test_shares_fill_the_limit(sizes: list[int], most: int) -> None:
    one = fair_limit(sizes, most)
    assert sum(min(size, one) for size in sizes) <= most
    assert one >= max(sizes, default=0) or sum(min(size, one + 1) for size in sizes) > most - len(sizes)


@given(CONTENT, st.integers(10, 500))
def test_head_and_tail_are_the_ends_of_the_content(content: str, most: int) -> None:
    assume(byte_length(content) > most)
    ends = cut_middle(content, most)
    assert byte_length(ends.head) + byte_length(ends.tail) <= most + 1
    assert content.startswith(ends.head) and content.endswith(ends.tail)
