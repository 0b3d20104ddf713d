"""A change is cut into blocks that hold each changed line once, with what stands around it, within bounds."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.review.change import ChangedFile
from repoagent.review.checks.file_origin import Attributes
from repoagent.review.llm.chunks import (
    FILES,
    MOST_CHARACTERS,
    MOST_LINES,
    Block,
    FileView,
    blocks_of,
    list_names,
    pack,
    review_order,
    why_content_skipped,
    why_skipped,
)
from tests.review.llm.test_claims import view


def cut(shown: FileView) -> list[Block]:
    return blocks_of(shown)


def lines_of(blocks: list[Block], sign: str) -> list[int]:
    return [row.number for block in blocks for row in block.rows if row.sign == sign]


@pytest.mark.soak
@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 400), st.integers(0, 12))
def test_each_changed_line_is_in_one_block(rng: random.Random, size: int, edits: int) -> None:
    old = [f"def f{n}(): # {n}" if rng.random() < 0.05 else f"    line {n}" for n in range(size)]
    new = list(old)
    for _ in range(edits):
        at = rng.randint(0, len(new))
        new[at : at + rng.choice([0, 0, 1, 30])] = [
            f"    new {rng.random()}" for _ in range(rng.choice([0, 1, 3]))
        ]
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    if before == after:
        return
    shown = view(before, after, "a.py")
    blocks = cut(shown)
    assert lines_of(blocks, "+") == shown.changed(old=False)
    assert lines_of(blocks, "-") == shown.changed(old=True)
    for block in blocks:
        for row in block.rows:
            assert row.text == shown.side(old=row.sign == "-")[row.number]


def test_a_short_definition_is_shown_whole_and_a_long_one_is_not() -> None:
    def source(body: int, number: int) -> str:
        rest = "".join(f"    x{n} = {n}\n" for n in range(body))
        return f"import os\n\n\nclass A:\n    def f(self):\n        y = {number}\n{rest.replace('    ', '        ')}"

    short = cut(view(source(30, 1), source(30, 2), "a.py"))
    assert (short[0].rows[0].number, short[0].rows[-1].number) == (4, 36)
    long = cut(view(source(300, 1), source(300, 2), "a.py"))
    assert long[0].rows[-1].number == 14
    assert long[0].scope == "def f(self)"


@pytest.mark.soak
def test_a_large_new_file_is_cut_where_definitions_begin() -> None:
    parts = [f"def f{n}():\n" + f"    return {n}\n" * 20 for n in range(60)]
    shown = view("", "".join(parts), "a.py")
    blocks = cut(shown)
    assert len(blocks) > 3
    assert all(len(block.rows) <= MOST_LINES for block in blocks)
    assert all(block.rows[0].text.startswith("def ") for block in blocks)
    wide = cut(view("", "".join(f"{n:05}{'x' * 390}\n" for n in range(200)), "a.txt"))
    assert all(len(block.text) <= MOST_CHARACTERS + 500 for block in wide)
    assert len(cut(view("", "y" * 2_000_000 + "\n", "a.txt"))[0].text) < 500


def test_a_key_is_of_the_lines_wherever_they_stand() -> None:
    here = cut(view("a\nb\n" * 20, "a\nb\n" * 19 + "a\nc\n"))
    moved = cut(view("z\n" * 9 + "a\nb\n" * 20, "z\n" * 9 + "a\nb\n" * 19 + "a\nc\n"))
    other = cut(view("a\nb\n" * 20, "a\nb\n" * 19 + "a\nd\n"))
    assert here[0].key("x") == moved[0].key("x")
    assert len({here[0].key("x"), here[0].key("y"), other[0].key("x")}) == 3


def some(path: str, lines: int) -> Block:
    return cut(view("", f"{'word ' * 11}\n" * lines, path))[0]


def test_blocks_are_packed_by_file_within_the_budget() -> None:
    blocks = [some("a", 20), some("b", 20), some("c", 20), some("c", 20), some("d", 120)]
    each = blocks[0].tokens
    parts = pack(blocks, each * 3)
    assert [[block.path for block in part] for part in parts] == [["a", "b", "c"], ["c"], ["d"]] or [
        [block.path for block in part] for part in parts
    ] == [["a", "b"], ["c", "c"], ["d"]]
    assert [block for part in parts for block in part] == blocks
    assert pack([], 100) == []
    assert [len(part) for part in pack([some(str(n), 1) for n in range(FILES + 1)], 10**6)] == [FILES, 1]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("web/package-lock.json", "a lock file"),
        ("vendor/x/y.go", "vendored"),
        ("static/app.min.js", "generated"),
        ("api.pb.go", "generated"),
        ("made.go", "generated"),
        ("copied.go", "vendored"),
        (".env", "withheld"),
        ("src/vendor.py", None),
    ],
)
def test_what_is_skipped_by_name(path: str, reason: str | None) -> None:
    file = ChangedFile(path, "modified", path, "1", "2", "100644", "100644")
    attributes = Attributes(frozenset({"made.go"}), frozenset({"copied.go"}))
    found = why_skipped(file, attributes, lambda name: "no" if name == ".env" else None)
    assert (found or "").startswith(reason) if reason else found is None


def test_what_is_skipped_by_content_and_in_which_order_the_rest_comes() -> None:
    assert why_content_skipped(b"// Code generated by protoc. DO NOT EDIT.\n") == "generated"
    assert why_content_skipped(b"version https://git-lfs.github.com/spec/v1\n") == "a Git LFS pointer"
    assert "long lines" in (why_content_skipped(b"x" * 9000) or "")
    assert why_content_skipped(b"print('DO NOT')\n" * 1000) is None
    paths = ["README.md", "a/config.yaml", "tests/test_b.py", "src/b.py", "src/b_test.go", "b.spec.ts"]
    assert sorted(paths, key=review_order) == [
        "src/b.py", "b.spec.ts", "src/b_test.go", "tests/test_b.py", "a/config.yaml", "README.md",
    ]  # fmt: skip
    assert list_names([f"n{n}" for n in range(9)]) == "n0, n1, n2, n3, n4 and 4 more"
    assert list_names(["a\nb"]) == "'a\\nb'"
