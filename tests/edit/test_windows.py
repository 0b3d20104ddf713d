"""The part of a long file to show; nothing outside of it can change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.edit.small_models.excerpts import (
    Window,
    answered_windows,
    file_excerpt,
    find_windows,
    question,
    rows_now,
)
from repoagent.git.files import Source
from repoagent.patch.apply_answer import apply_patches
from repoagent.patch.errors import PatchRefused
from repoagent.patch.model import FilePatch, SourceText, decode
from tests.edit.long_file import SHOP

DATA = SHOP.encode()


def found(instruction: str, *places: tuple[int, int], data: bytes = DATA, path: str = "shop.py") -> list[str]:
    labels = []
    for window in find_windows(path, data, instruction, places, 150):
        lines = (
            f"lines {window.first}-{window.last}" if window.last > window.first else f"line {window.first}"
        )
        labels.append(f"{' and '.join(window.names)} ({lines})" if window.names else lines)
    return labels


@pytest.mark.parametrize(
    "instruction",
    [
        "make it faster",
        "add a limit to the result",  # plain words
        "change task_1, task_5, task_9, task_13, task_17 and task_21",  # too many parts
        "rename Task_1",  # not verbatim
    ],
)
def test_no_part_is_shown_if_the_request_is_unclear(instruction: str) -> None:
    assert found(instruction) == []


@pytest.mark.parametrize(
    ("instruction", "labels"),
    [
        ("total_price shall round", ["Basket.total_price (lines 21-25)"]),
        ("in Basket.put_item refuse a negative price", ["Basket.put_item (lines 16-19)"]),
        ("Basket needs a discount", ["Basket (lines 9-25)"]),
        ("Basket.total_price uses put_item", ["Basket.put_item and Basket.total_price (lines 16-25)"]),
        ('"text.splitlines()" keeps blank lines', ["read_names (lines 238-240)"]),
        ("task_3() and task_20() return None", ["task_3 (lines 49-53)", "task_20 (lines 168-172)"]),
        ("task_3 and `task_4`", ["task_3 and task_4 (lines 49-60)"]),
    ],
)
def test_names_and_quotations_select_definitions(instruction: str, labels: list[str]) -> None:
    assert found(instruction) == labels


def test_lines_are_extended_to_their_definition() -> None:
    assert found("x", (22, 23)) == ["Basket.total_price (lines 21-25)"]
    assert found("x", (30, 36)) == ["task_0 and task_1 (lines 28-39)"]
    assert found("total_price", (3, 3)) == ["lines 3-4"]  # lines that the user names take precedence
    assert found("x", (1, 240)) == []


def test_text_is_cut_at_headings_keys_and_blank_lines() -> None:
    notes = b"# Notes\n\nIntro.\n\n## Install it\n\nRun make.\n\n## Use it\n\nRun it.\n" + b"\nMore.\n" * 100
    assert found("say pip under Install it", data=notes, path="n.md") == ["Notes.Install it (lines 5-7)"]
    keys = b"a:\n  b: 1\nbuild_args:\n  c: 2\n"
    assert found("set build_args.c to 3", data=keys, path="k.yaml") == ["build_args (lines 3-4)"]
    plain = b"one\ntwo\n\nthree\nfour\n\nfive\n"
    assert found("x", (5, 5), data=plain, path="t.txt") == ["lines 4-5"]


def test_a_long_class_is_shown_without_most_of_its_members() -> None:
    members = "".join(f"    def part_{n}(self):\n        return {n}\n\n" for n in range(80))
    data = f"class Huge:\n{members}".encode()
    assert found("Huge needs a new method", data=data, path="h.py") == ["Huge.part_0 (lines 1-3)"]


def test_the_answer_of_the_model_selects_the_part() -> None:
    assert "Basket.total_price\n" in question("shop.py", DATA, "make it faster")
    assert question("notes.txt", b"words\n", "x") == ""
    named = answered_windows("shop.py", DATA, "- `Basket.total_price`\n- read_names\n", 150)
    assert [window.names for window in named] == [("Basket.total_price",), ("read_names",)]
    assert answered_windows("shop.py", DATA, "I can't tell.", 150) == ()


def test_a_window_moves_with_changes_around_it() -> None:
    before = list("abcdef")
    window = Window("x", 3, 4)
    assert rows_now(window, before, before) == (2, 4)
    assert rows_now(window, before, list("Xabcdef")) == (3, 5)
    assert rows_now(window, before, list("abcXdef")) == (2, 5)
    assert rows_now(window, before, list("abcdXYf")) == (2, 4)
    assert rows_now(window, before, list("abdef")) == (2, 3)
    assert rows_now(window, before, list("f")) == (0, 0)


LINES = st.lists(
    st.tuples(st.text(alphabet="ab é\t", max_size=4), st.sampled_from(["\n", "\r\n"])), min_size=1
)


@given(LINES, st.booleans(), st.sampled_from(["utf-8", "latin-1", "utf-16"]), st.data())
def test_nothing_outside_the_rows_changes(
    lines: list[tuple[str, str]], final: bool, encoding: str, data: st.DataObject
) -> None:
    whole = "".join(line + end for line, end in lines)
    raw = (whole if final else whole.rstrip("\r\n")).encode(encoding)
    text = decode(raw)
    assert text is not None
    count = len(text.lines)
    if count == 0:
        return
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first + 1, count))
    old = "".join(f"{line}\n" for line in text.lines[first:last])
    sources = {"f": SourceText(raw)}
    with pytest.raises(PatchRefused, match="no changes: "):
        apply_patches([FilePatch(None, "f", "whole-file", whole=old, rows=(first, last))], sources)
    new = data.draw(st.lists(st.text(alphabet="xyè", min_size=1, max_size=3), min_size=1, max_size=5))
    patch = FilePatch(None, "f", "whole-file", whole="".join(f"{line}\n" for line in new), rows=(first, last))
    (change,) = apply_patches([patch], sources).changes
    after = decode(change.after or b"")
    assert after is not None
    assert after.lines[:first] == text.lines[:first]
    assert after.endings[:first] == text.endings[:first]
    assert after.lines[first : len(after.lines) - (count - last)] == tuple(new)
    assert after.lines[len(after.lines) - (count - last) :] == text.lines[last:]
    assert after.endings[len(after.endings) - (count - last) :] == text.endings[last:]
    assert (after.bom, after.final_newline) == (text.bom, text.final_newline)


def test_an_example_to_follow_is_not_selected_even_if_named_first() -> None:
    text = b"services:\n  postgres:\n    image: pg\n    healthcheck: x\n\n  redis:\n    image: redis\n\n  web:\n    image: web\n"
    source = Source("c.yml", text, "100644", "")
    for request in (
        "Give redis a healthcheck like the one of postgres",
        "Like postgres, redis shall have a healthcheck",
    ):
        (window,) = find_windows("c.yml", text, request, [], 100)
        assert window.names == ("services.redis",)
        assert "services.postgres of c.yml, only to read:\n" in file_excerpt(source, [window], request)
    assert "only to read" not in file_excerpt(source, [window], "as postgres does")
