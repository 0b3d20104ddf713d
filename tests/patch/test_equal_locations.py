"""Locations that fit equally well, and equal hunks: never guess between them."""

from __future__ import annotations

import pytest

from tests.patch.helpers import after, reasons, run

BLOCK = [
    "def work(items):", "    total = compute_the_total(items)", "    result = 0", "    for item in items:",
    "        result += item.price", "    return result", "", "",
]  # fmt: skip
STALE = "    total = compute_the_sum(items)"
HUNK = (
    "--- a/app.py\n+++ b/app.py\n@@{}\n def work(items):\n     total = compute_the_sum(items)\n     result = 0\n"
    "     for item in items:\n-        result += item.price\n+        result += item.cost\n     return result\n"
)


def source() -> list[str]:
    lines = [f"x{n} = {n}" for n in range(30)]
    return [*lines, *BLOCK, *(f"y{n} = {n}" for n in range(30)), *BLOCK, *(f"z{n} = {n}" for n in range(30))]


def text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize("offset", [-5, -1, 7, 10])
@pytest.mark.parametrize("block", [30, 68])
def test_an_exact_line_near_one_of_two_loose_matches_does_not_decide(block: int, offset: int) -> None:
    lines = source()
    lines.insert(block + offset, STALE)
    assert reasons(HUNK.format(""), text(lines)) == {"ambiguous"}


@pytest.mark.parametrize("first", [31, 69])
def test_the_line_number_decides_between_equal_loose_matches(first: int) -> None:
    lines = source()
    changed = [*lines]
    changed[first + 3] = "        result += item.cost"
    assert after(HUNK.format(f" -{first},6 +{first},6 @@"), text(lines)) == text(changed)


def test_a_line_number_of_no_match_or_of_the_worse_one_does_not_decide() -> None:
    lines = source()
    assert reasons(HUNK.format(" -3,6 +3,6 @@"), text(lines)) == {"ambiguous"}
    lines[70] = "    result = 1"
    assert reasons(HUNK.format(" -69,6 +69,6 @@"), text(lines)) == {"ambiguous"}


LOOP = "@@{}\n     for item in items:\n-        old(item)\n+        new(item)\n"
FILE = (
    "def a(items):\n    for item in items:\n        old(item)\n\n\n"
    "def b(items):\n    for item in items:\n        done(item)\n"
)
HEAD = "--- a/app.py\n+++ b/app.py\n"
ONE, TWO = LOOP.format(" -2,2 +2,2 @@ def a(items):"), LOOP.format(" -7,2 +7,2 @@ def b(items):")


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + ONE + TWO,
        HEAD + LOOP.format(" -2,2 +2,2 @@") + LOOP.format(" -7,2 +7,2 @@"),
        HEAD + LOOP.format(" def a(items): @@") + LOOP.format(" def b(items): @@"),
        f"```diff\n{HEAD}{ONE}{HEAD}{TWO}```\n",
        f"```diff\n{HEAD}{ONE}```\nand\n```diff\n{HEAD}{TWO}```\n",
    ],
)
def test_equal_hunks_for_two_locations_of_which_one_exists(answer: str) -> None:
    assert reasons(answer, FILE.encode()) == {"overlap"}
    both = FILE.replace("done", "old").encode()
    assert after(answer, both) == both.replace(b"old", b"new")


def test_two_changes_of_the_same_lines_at_one_number_are_for_one_location() -> None:
    source = b"".join(b"a\nb\nc\n%d\n" % number for number in range(2))
    one, other = (f"@@ -1,3 +1,3 @@\n a\n-b\n+{new}\n c\n" for new in ("x", "y"))
    assert "overlap" in reasons(f"```diff\n--- a/app.py\n+++ b/app.py\n{one}{other}```\n", source)


def function(name: str, shift: int, last: int) -> str:
    body = f"    y = x + {shift}\n    if y:\n        return y\n    return {last}\n"
    return f"def {name}(x):\n{body}"


BETTER = (  # only the first line of context is not in `f2`
    "--- a/app.py\n+++ b/app.py\n@@{}\n     return 0\n def f2(x):\n     y = x + 0\n-    if y:\n+    changed()\n"
    "         return y\n     return 0\n"
)


def test_the_heading_does_not_choose_a_worse_loose_match() -> None:
    for last in (0, 3):
        parts = [function("f1", 2, last), function("f91", 0, 0), "\n" * 9, function("f2", 0, 0)]
        source = "".join(parts).encode()
        assert reasons(BETTER.format(" -5,6 +5,6 @@ def f1(x):"), source) == {"ambiguous"}
        parts[3] = parts[3].replace("if y:", "changed()")
        assert after(BETTER.format(" def f91(x): @@"), source) == "".join(parts).encode()


def test_the_end_of_the_file_does_not_choose_a_worse_loose_match() -> None:
    parts = [function("f1", 2, 3), function("f2", 0, 0), "\n", function("f3", 1, 0), function("f91", 0, 0)]
    source = "".join(parts).removesuffix("\n").encode()
    assert reasons(BETTER.format("") + "\\ No newline at end of file\n", source) == {"ambiguous"}


def test_equal_hunks_do_not_choose_unequal_loose_matches() -> None:
    lines = source()
    lines[70] = "    result = 1"
    one, two = (f" -{row},6 +{row},6 @@" for row in (31, 69))
    answer = HUNK.format(one) + HUNK.format(two).split("app.py\n")[-1]
    assert reasons(answer, text(lines)) == {"ambiguous"}


def search_replace(old: str, new: str, fence: str = "") -> str:
    block = f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"
    return f"app.py\n{fence}{block}{fence}"


@pytest.mark.parametrize(
    ("first", "between"),
    [
        (search_replace("x", "z"), search_replace("y", "w")),
        (search_replace("x", "z", "```\n"), search_replace("y", "w", "```\n")),
        ("@@\n-x\n+z\n", "@@\n-y\n+w\n"),
    ],
)
def test_equal_hunks_without_numbers_are_for_one_location_each(first: str, between: str) -> None:
    head = HEAD if first.startswith("@@") else ""
    assert after(head + first + first, b"x\ny\nx\n") == b"z\ny\nz\n"
    assert after(head + first + between + first, b"x\ny\nx\n") == b"z\nw\nz\n"
    assert after(head + first + between + first, b"x\ny\n") == b"z\nw\n"
    assert reasons(head + first + first, b"x\ny\nx\nx\n") == {"ambiguous"}


def test_a_hunk_that_prose_repeats_is_one_hunk() -> None:
    block = search_replace("x", "z", "```\n")
    assert reasons(f"{block}\nAgain, the change is:\n\n{block}", b"x\ny\nx\n") == {"ambiguous"}
    other = block.replace("app.py", "b.py")
    files = {"app.py": b"x\ny\nx\n", "b.py": b"x\n"}
    assert reasons(f"{block}\nAltogether:\n\n{other}{block}", files) == {"ambiguous"}
    for source, numbers in ((b"x\ny\n", [1]), (b"x\nx\n", [1, 2])):
        assert [placement.hunk for placement in run(block * 2, source).placements] == numbers
    titled = HEAD + "@@ def a():\n-    x\n+    z\n" * 2
    source = b"def a():\n    x\ndef b():\n    x\n"
    assert after(titled, source) == source.replace(b"x", b"z", 1)
