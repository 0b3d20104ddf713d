"""The part of a long file to show to a small model."""

from __future__ import annotations

import pytest

from repoagent.edit.small_models.excerpts import Window, file_excerpt, find_windows, rows_now, window_now
from repoagent.git.files import Content, Source
from tests.edit.long_file import SHOP

DATA = SHOP.encode()
NOTES = b"# Notes\n\nIntro.\n\n## Install it\n\nRun make.\n\n## Use it\n\nRun it.\n" + b"\nMore.\n" * 100
KEYS = b"a:\n  b: 1\nbuild_args:\n  c: 2\n"
PLAIN = b"one\ntwo\n\nthree\nfour\n\nfive\n"
HUGE = f"class Huge:\n{''.join(f'    def part_{n}(self):{chr(10)}        return {n}{chr(10) * 2}' for n in range(80))}"


@pytest.mark.parametrize(
    ("instruction", "places", "labels", "path", "data"),
    [
        # unclear: plain words, too many parts, not verbatim, too long
        ("make it faster", [], [], "shop.py", DATA),
        ("add a limit to the result", [], [], "shop.py", DATA),
        ("change task_1, task_5, task_9, task_13, task_17 and task_21", [], [], "shop.py", DATA),
        ("rename Task_1", [], [], "shop.py", DATA),
        ("x", [(1, 240)], [], "shop.py", DATA),
        # names and quotations
        ("total_price shall round", [], ["Basket.total_price 21-25"], "shop.py", DATA),
        ("in Basket.put_item refuse a negative price", [], ["Basket.put_item 16-19"], "shop.py", DATA),
        ("Basket needs a discount", [], ["Basket 9-25"], "shop.py", DATA),
        ("Basket.total_price uses put_item", [], ["Basket.put_item, Basket.total_price 16-25"], "shop.py", DATA),
        ('"text.splitlines()" keeps blank lines', [], ["read_names 238-240"], "shop.py", DATA),
        ("task_3() and task_20() return None", [], ["task_3 49-53", "task_20 168-172"], "shop.py", DATA),
        ("task_3 and `task_4`", [], ["task_3, task_4 49-60"], "shop.py", DATA),
        # lines of the user come first, and are extended to their definition
        ("x", [(22, 23)], ["Basket.total_price 21-25"], "shop.py", DATA),
        ("x", [(30, 36)], ["task_0, task_1 28-39"], "shop.py", DATA),
        ("total_price", [(3, 3)], [" 3-4"], "shop.py", DATA),
        # headings, keys, blank lines; a long class without most of its members
        ("say pip under Install it", [], ["Notes.Install it 5-7"], "n.md", NOTES),
        ("set build_args.c to 3", [], ["build_args 3-4"], "k.yaml", KEYS),
        ("x", [(5, 5)], [" 4-5"], "t.txt", PLAIN),
        ("Huge needs a new method", [], ["Huge.part_0 1-3"], "h.py", HUGE.encode()),
    ],
)  # fmt: skip
def test_the_parts_that_a_request_is_about(
    instruction: str, places: list[tuple[int, int]], labels: list[str], path: str, data: bytes
) -> None:
    windows = find_windows(path, data, instruction, places, 150)
    assert [f"{', '.join(w.names)} {w.first}-{w.last}" for w in windows] == labels


def test_a_window_moves_with_changes_around_it() -> None:
    before = list("abcdef")
    for after, rows in {
        "abcdef": (2, 4), "Xabcdef": (3, 5), "abcXdef": (2, 5), "abcdXYf": (2, 4), "abdef": (2, 3), "f": (0, 0)
    }.items():  # fmt: skip
        assert rows_now(Window("x", 3, 4), before, list(after)) == rows
        sources = [Source("x", Content("\n".join(text).encode()), "") for text in (before, after)]
        moved = window_now(Window("x", 3, 4), *sources)
        assert (moved.first, moved.last) == (rows[0] + 1, max(rows[1], rows[0] + 1))


def test_an_example_to_follow_is_not_selected_even_if_named_first() -> None:
    text = b"services:\n  postgres:\n    image: pg\n    healthcheck: x\n\n  redis:\n    image: redis\n\n  web:\n    image: web\n"
    source = Source("c.yml", Content(text), "")
    for request in (
        "Give redis a healthcheck like the one of postgres",
        "Like postgres, redis needs a healthcheck",
    ):
        (window,) = find_windows("c.yml", text, request, [], 100)
        assert window.names == ("services.redis",)
        assert "services.postgres of c.yml, only to read:\n" in file_excerpt(source, [window], request)
    assert "only to read" not in file_excerpt(source, [window], "as postgres does")
