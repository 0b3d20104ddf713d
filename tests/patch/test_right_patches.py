"""Correct patches with a small mistake that is tolerated, and similar ones that are refused."""

from __future__ import annotations

import time

import pytest

from repoagent.patch.refusal import NoPatch
from tests.patch.helpers import after, changed, reasons, refused, run
from tests.patch.test_near_locations import SHOP

HEAD = "--- a/app.py\n+++ b/app.py\n"
TWICE = SHOP.replace(b"item.price", b"item.price * 2")
FIX = """@@ -3,3 +3,3 @@
     for item in items:
-        result += item.price
+        result += item.price * 2
         log(item)
"""
MANY = "".join(
    f"def f{number}(x):\n    y = x + {number}\n    return y * {number}\n\n\n" for number in range(12)
)


def fused(*numbers: int) -> str:
    parts = (f" def f{n}(x):\n-    y = x + {n}\n+    y = x - {n}\n     return y * {n}\n" for n in numbers)
    return f"{HEAD}@@ -11,12 +11,12 @@\n{''.join(parts)}"


@pytest.mark.parametrize("numbers", [(2, 5, 9), (1, 4, 6, 8), (0, 2, 4, 6, 8, 10)])
def test_several_hunks_under_one_header(numbers: tuple[int, ...]) -> None:
    expected = MANY
    for number in numbers:
        expected = expected.replace(f"    y = x + {number}\n", f"    y = x - {number}\n")
    assert after(fused(*numbers), MANY.encode()).decode() == expected


def test_fused_hunks_out_of_order_or_with_an_ambiguous_part_are_refused() -> None:
    assert reasons(fused(2, 9, 5), MANY.encode()) == {"not-found"}
    twice = MANY + MANY.partition("def f6")[0].partition("def f5")[2].join(["def f5", ""])
    assert reasons(fused(2, 5, 9), twice.encode()) == {"not-found"}


IDLE = "@@ -1,{} +1,{} @@\n def total(items):\n     result = 0\n     for item in items:\n"


@pytest.mark.parametrize("hunks", [IDLE.format(3, 4), IDLE.format(3, 2) + FIX, FIX + IDLE.format(2, 3)])
def test_a_hunk_of_context_that_declares_a_change_lost_a_sign(hunks: str) -> None:
    assert reasons(HEAD + hunks, SHOP) == {"malformed"}


FILES = {"src/app.py": SHOP, "src/other.py": b"x = 1\n"}


@pytest.mark.parametrize(
    ("sentence", "is_whole"),
    [
        ("Here's the full updated `app.py`:", True),
        ("I fixed it. Here is the complete `src/app.py` with the fix:", True),
        ("The entire contents of **src/app.py**:", True),
        ("Below is the whole corrected file `src/app.py`:", True),
        ("Here's the updated `app.py`:", False),
        ("Here's the full output of `app.py`:", False),
        ("Here's the full updated `app.py` with only the changed parts:", False),
        ("Here's the full original `app.py`:", False),
        ("Here's the full updated `gone.py`:", False),
        ("The full updated app.py:", False),
    ],
)
def test_a_whole_file_that_a_sentence_presents(sentence: str, is_whole: bool) -> None:
    answer = f"{sentence}\n\n```python\n{TWICE.decode()}```\n"
    if is_whole:
        assert changed(answer, FILES) == {"src/app.py": TWICE}
    else:
        with pytest.raises(NoPatch):
            run(answer, FILES, may_create=lambda path: True)


BEGINNING = "    result = 0\n    for item in items:\n"
ELIDED = SHOP.decode().replace(BEGINNING, "    # ... existing code ...\n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SHOP.decode().partition("\n\n\n")[0] + "\n", "empties-file"),  # its end is missing
        (SHOP.decode().partition("    for")[2].join(["    for", ""]), "empties-file"),  # its beginning
        (ELIDED, "elided"),
        ("print(1)\n" * 8, "empties-file"),
    ],
)
def test_a_part_that_a_sentence_calls_whole(text: str, reason: str) -> None:
    answer = f"Here's the full updated `app.py`:\n\n```python\n{text}```\n"
    assert reasons(answer, SHOP) == {reason}


def test_a_heading_in_json_in_linear_time() -> None:
    entry = '  "k{}": {{\n    "name": "x",\n    "on": true\n  }},\n'
    entries = "".join(map(entry.format, range(4500)))
    text = f'{{\n{entries}  "z": 1\n}}\n'
    answer = f'{HEAD}@@ "k3000": {{\n-    "on": true\n+    "on": false\n'
    started = time.process_time()
    result = after(answer, text.encode()).decode()
    assert time.process_time() - started < 2
    entry = '"k3000": {\n    "name": "x",\n    "on": '
    assert result == text.replace(f"{entry}true", f"{entry}false")
    # there is no such line below it
    assert reasons(answer.replace("k3000", "z"), text.encode()) == {"ambiguous"}


def test_an_elision_whose_first_line_matches_often_is_ambiguous() -> None:
    block = "def f():\n    x = 1\n{}    end()\n\n\n"
    text = "".join(block.format("    here()\n" if number in {10, 50} else "") for number in range(60))
    answer = f"{HEAD}@@\n def f():\n-    x = 1\n+    x = 2\n     ...\n     here()\n"
    assert reasons(answer, text.encode()) == {"ambiguous"}


def test_two_changes_at_one_location_are_reported_as_one_location() -> None:
    text = "if a:\n    v73 = 1\n\n\n        call(b)\n\n        v94 = 2\n    v71 = 7\n"
    hunk = "@@\n     v73 = 1\n \n \n+\n+        v4 = 6\n+\n \n         v94 = 2\n"
    problem = str(refused(HEAD + hunk, text.encode()))
    assert "fits equally well in 2 places (lines 4, 5)" in problem


def test_an_exact_diff_that_empties_a_file_is_accepted_in_strict_mode() -> None:
    assert after(f"{HEAD}@@ -1 +0,0 @@\n-one\n", b"one\n", strict=True) == b""
    assert reasons(f"{HEAD}@@ -1 +0,0 @@\n-one\n", b"one\n") == {"empties-file"}
    assert reasons(f"{HEAD}@@ -1,2 +0,0 @@\n-one\n", b"one\n", strict=True) == {"strict"}
    assert reasons("app.py\n```\n```\n", b"one\n", strict=True) == {"empties-file"}


@pytest.mark.parametrize("line", ["# Keep the connection open...", "..."])
def test_a_diff_with_a_line_like_an_elision_is_accepted_in_strict_mode(line: str) -> None:
    assert after(f"{HEAD}@@ -1 +1,2 @@\n one\n+{line}\n", b"one\n", strict=True) == f"one\n{line}\n".encode()
    new = f"--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+{line}\n"
    assert after(new, {}, strict=True, may_create=lambda path: True) == f"{line}\n".encode()
    whole = "app.py\n```\none\n# ... existing code ...\n```\n"
    block = f"app.py\n<<<<<<< SEARCH\none\n=======\none\n{line}\n>>>>>>> REPLACE\n"
    for other in (whole, block):
        assert reasons(other, b"one\n", strict=True) == {"elided"}


@pytest.mark.parametrize(
    ("header", "other", "path"),
    [
        ("diff --git a/my  b/my \n--- a/my \t\n+++ b/my \t\n", "x", "my "),
        ("--- a/my \n+++ b/my \n", "x", "my "),
        ("--- a/my\n+++ b/my\n", "my ", "my"),  # a trailing space distinguishes two files
        ("--- a/my \t\n+++ b/my \t\n", "my", "my "),
        ("diff --git a/dev/null b/dev/null\n--- a/dev/null\n+++ b/dev/null\n", "x", "dev/null"),
        ("--- a/dev/null\n+++ b/dev/null\n", "x", "dev/null"),
    ],
)
def test_odd_names_of_existing_files(header: str, other: str, path: str) -> None:
    answer = f"{header}@@ -1 +1 @@\n-one\n+two\n"
    assert changed(answer, {path: b"one\n", other: b"one\n"}) == {path: b"two\n"}


@pytest.mark.parametrize(
    ("header", "path"), [("--- a/x\n+++ b/dev/null", "x"), ("--- a/dev/null\n+++ /dev/null", "dev/null")]
)
def test_dev_null_is_no_file_next_to_another_name(header: str, path: str) -> None:
    files = {"dev/null": b"one\n", "x": b"one\n"}
    assert changed(f"{header}\n@@ -1 +0,0 @@\n-one\n", files) == {path: None}


DELETION = "diff --git a/app.py b/app.py\ndeleted file mode 100644\n--- a/app.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n"


def test_a_strict_deletion_quotes_every_line_exactly() -> None:
    for before, loose, reason in (
        (b"a\nb\n", (), ""),
        (b"a \n  b\n", ("whitespace",), "not-found"),
        (b"a\nb\nmore\n", (), "strict"),
    ):
        (placement,) = run(DELETION, before).placements
        assert (placement.level, placement.tolerances) == ("deleted", loose)
        if reason:
            assert reasons(DELETION, before, strict=True) == {reason}
        else:
            assert run(DELETION, before, strict=True).changes[0].path is None
    empty = DELETION.partition("---")[0]
    assert run(empty, b"", strict=True).changes[0].path is None
    assert reasons(empty, b"a\n", strict=True) == {"strict"}
    assert reasons(DELETION, b"a\nb\n\0\0\0\0") == {"binary"}
