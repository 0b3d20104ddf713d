"""Correct patches with a small mistake that is tolerated, and similar ones that are refused."""

from __future__ import annotations

import time

import pytest

from repoagent.patch.apply_answer import apply_answer
from repoagent.patch.errors import NoPatch
from repoagent.patch.model import SourceText
from tests.patch.helpers import after, reasons, refused, run

HEAD = "--- a/app.py\n+++ b/app.py\n"
SHOP = """def total(items):
    result = 0
    for item in items:
        result += item.price
        log(item)

    return result


def report(items):
    print(total(items))
"""
TWICE = SHOP.replace("item.price", "item.price * 2").encode()
FIX = """@@ -3,3 +3,3 @@
     for item in items:
-        result += item.price
+        result += item.price * 2
         log(item)
"""
TABS = SHOP.replace("    ", "\t")


# Indentation


@pytest.mark.parametrize(
    ("source", "hunk", "result"),
    [
        (  # the deleted line at column 0 is exact, a line of context has lost a space
            SHOP,
            "@@ -1,2 +1,3 @@\n-def total(items):\n+def total(items, start):\n+    check(items)\n    result = 0\n",
            SHOP.replace("def total(items):\n", "def total(items, start):\n    check(items)\n"),
        ),
        (  # one line of context flush left, the deleted line exact
            SHOP,
            "@@ -8,4 +8,4 @@\n \n \n-def report(items):\n+def report(items, *more):\n print(total(items))\n",
            SHOP.replace("report(items)", "report(items, *more)"),
        ),
        (  # all context flush left, the addition as deep as its neighbours in the file
            SHOP,
            "@@ -4,2 +4,3 @@\n for item in items:\n result += item.price\n+        count += 1\n log(item)\n",
            SHOP.replace("item.price\n", "item.price\n        count += 1\n"),
        ),
        (  # a bracket of the context is another one, all else exact
            "f {\n\tif a {\n\t\tx()\n\t}\n\n\trun()\n\tend()\n}\n",
            "@@ -4,4 +4,8 @@\n \t\t}\n \n+\tif b {\n+\t\ty()\n+\t}\n+\n \trun()\n \tend()\n",
            "f {\n\tif a {\n\t\tx()\n\t}\n\n\tif b {\n\t\ty()\n\t}\n\n\trun()\n\tend()\n}\n",
        ),
        (  # a file with tabs, quoted with spaces, the addition with the file's tabs
            TABS,
            "@@ -3,3 +3,3 @@\n     for item in items:\n-        result += item.price\n+\t\tresult += 2\n         log(item)\n",
            TABS.replace("item.price", "2"),
        ),
        (  # only the deleted line is less deep than in the file
            SHOP,
            "@@ -3,3 +3,3 @@\n     for item in items:\n-    result += item.price\n+        result += 2\n         log(item)\n",
            SHOP.replace("item.price", "2"),
        ),
    ],
)
def test_an_added_line_with_the_indentation_of_the_file(source: str, hunk: str, result: str) -> None:
    assert after(HEAD + hunk, source.encode()).decode() == result


def test_an_ambiguous_indentation_is_refused() -> None:
    # Everything is flush left, so the new line may belong at column 0 or into the function.
    flush = "@@ -10,2 +10,3 @@\n-def report(items):\n+def report(items, *more):\n+check(items)\n print(total(items))\n"
    assert reasons(HEAD + flush, SHOP.encode()) == {"indentation"}
    # The addition is as deep as lines of context whose indentation differs from the file.
    moved = "@@ -3,3 +3,4 @@\n for item in items:\n result += item.price\n+count += 1\n         log(item)\n"
    assert reasons(HEAD + moved, SHOP.encode()) == {"indentation"}


# Line numbers


@pytest.mark.parametrize(
    "gutter", ["{}\t", "{}\u2192", "{:>6}\t", "{:>6}\u2192", "{}\u2502", "{}: ", "{} | "]
)
@pytest.mark.parametrize("sign", [" ", ""])
@pytest.mark.parametrize("loop", ["for item in items:", "for thing in items:"], ids=["exact", "stale"])
def test_numbers_only_on_quoted_lines(gutter: str, sign: str, loop: str) -> None:
    three, four, five = (gutter.format(number) for number in (3, 4, 5))
    hunk = (
        f"@@ -3,3 +3,3 @@\n{sign}{three}    {loop}\n-{four}        result += item.price\n"
        f"+        result += item.price * 2\n{sign}{five}        log(item)\n"
    )
    assert after(HEAD + hunk, SHOP.encode()) == TWICE


def test_numbers_that_are_text_or_not_consecutive() -> None:
    listed = b"1\tone\n2\ttwo\n3\tthree\n"
    hunk = "@@ -1,3 +1,3 @@\n 1\tone\n-2\ttwo\n+2\tdos\n 3\tthree\n"
    assert after(HEAD + hunk, listed) == listed.replace(b"two", b"dos")
    jumps = "@@ -3,3 +3,3 @@\n 3\t    for item in items:\n-9\t        result += item.price\n+        x()\n"
    assert reasons(HEAD + jumps, SHOP.encode()) == {"deleted-line-missing"}
    some = "@@ -3,2 +3,3 @@\n 3\u2192    for item in items:\n-4\u2192        result += item.price\n+4\u2192        x()\n+        y()\n"
    assert reasons(HEAD + some, SHOP.encode()) == {"deleted-line-missing"}
    stale = "@@ -3,3 +3,3 @@\n 3\t    for item in items:\n-4\t        result += thing.price\n+        x()\n 5\t        log(item)\n"
    assert reasons(HEAD + stale, SHOP.encode()) == {"deleted-line-missing"}


# Hunks


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


@pytest.mark.parametrize("counts", [(3, 4), (4, 3), (5, 4)])
def test_a_hunk_of_context_that_claims_a_line_is_skipped(counts: tuple[int, int]) -> None:
    assert after(HEAD + IDLE.format(*counts) + FIX, SHOP.encode()) == TWICE
    assert after(HEAD + FIX + IDLE.format(*counts), SHOP.encode()) == TWICE


def test_a_hunk_of_context_is_not_skipped_if_it_lost_a_sign_or_is_alone() -> None:
    assert reasons(HEAD + IDLE.format(3, 4), SHOP.encode()) == {"malformed"}
    assert reasons(HEAD + IDLE.format(3, 2) + FIX, SHOP.encode()) == {"malformed"}  # `-` lost
    assert reasons(HEAD + IDLE.format(2, 3) + FIX, SHOP.encode()) == {"malformed"}  # `+` lost
    other = IDLE.format(3, 4).replace("result = 0", "result = 1")
    assert reasons(HEAD + other + FIX, SHOP.encode()) == {"malformed"}
    assert reasons(HEAD + IDLE.format(3, 4) + FIX, SHOP.encode(), strict=True) == {"strict"}


# Forms


FILES = {"src/app.py": SourceText(SHOP.encode()), "src/other.py": SourceText(b"x = 1\n")}


@pytest.mark.parametrize(
    "sentence",
    [
        "Here's the full updated `app.py`:",
        "I fixed it. Here is the complete `src/app.py` with the fix:",
        "The entire contents of **src/app.py**:",
        "Below is the whole corrected file `src/app.py`:",
    ],
)
def test_a_whole_file_that_a_sentence_presents(sentence: str) -> None:
    (change,) = apply_answer(f"{sentence}\n\n```python\n{TWICE.decode()}```\n", FILES).changes
    assert (change.path, change.after) == ("src/app.py", TWICE)


@pytest.mark.parametrize(
    "sentence",
    [
        "Here's the updated `app.py`:",
        "Here's the full output of `app.py`:",
        "Here's the full updated `app.py` with only the changed parts:",
        "Here's the full original `app.py`:",
        "Here's the full updated `gone.py`:",
        "The full updated app.py:",
    ],
)
def test_sentences_that_do_not_present_a_whole_file(sentence: str) -> None:
    with pytest.raises(NoPatch):
        apply_answer(f"{sentence}\n\n```python\n{TWICE.decode()}```\n", FILES, may_create=lambda path: True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SHOP.partition("\n\n\n")[0] + "\n", "empties-file"),  # its end is missing
        (SHOP.partition("    for")[2].join(["    for", ""]), "empties-file"),  # its beginning
        (SHOP.replace("    result = 0\n    for item in items:\n", "    # ... existing code ...\n"), "elided"),
        ("print(1)\n" * 8, "empties-file"),
    ],
)
def test_a_part_that_a_sentence_calls_whole(text: str, reason: str) -> None:
    answer = f"Here's the full updated `app.py`:\n\n```python\n{text}```\n"
    assert reasons(answer, SHOP.encode()) == {reason}


# Headings


ROLES = """class Base:
    def role(self):
        return None

    def name(self):
        return None


class Writer(Base):
    def role(self):
        return None

    def name(self):
        return None
"""


@pytest.mark.parametrize(
    ("heading", "line"),
    [
        ("class Base > def role(self):", 3),
        ("class Writer > def role(self):", 11),
        ("class Writer(Base) > name", 14),
        ("Base.name", 6),
        ("Writer.role", 11),
        ("Writer::role(self)", 11),
        ("def Writer.name(self):", 14),
    ],
)
def test_a_heading_that_names_one_definition_in_another(heading: str, line: int) -> None:
    answer = f"{HEAD}@@ {heading} @@\n-        return None\n+        return 1\n"
    (placement,) = run(answer, ROLES.encode()).placements
    assert placement.line == line


@pytest.mark.parametrize(
    "heading", ["Base.gone", "Other.role", "Writer > def gone(self):", "self.role", "Base", "a > b"]
)
def test_a_heading_that_names_no_such_definition(heading: str) -> None:
    answer = f"{HEAD}@@ {heading} @@\n-        return None\n+        return 1\n"
    assert reasons(answer, ROLES.encode()) == {"ambiguous"}


def test_a_heading_in_json_in_linear_time() -> None:
    entries = "".join(
        f'  "k{number}": {{\n    "name": "x",\n    "on": true\n  }},\n' for number in range(4500)
    )
    text = f'{{\n{entries}  "z": 1\n}}\n'
    answer = f'{HEAD}@@ "k3000": {{\n-    "on": true\n+    "on": false\n'
    started = time.process_time()
    result = after(answer, text.encode()).decode()
    assert time.process_time() - started < 2
    entry = '"k3000": {\n    "name": "x",\n    "on": '
    assert result == text.replace(f"{entry}true", f"{entry}false")
    assert reasons(answer.replace("k3000", "z"), text.encode()) == {
        "ambiguous"
    }  # there is no such line below it


# Elision


def test_a_block_after_an_elision_with_many_matches() -> None:
    text = "".join(
        f"def f{number}():\n    x = {number}\n"
        + f"    y = {number}\n" * 30
        + "    call()\n    done()\n    return\n\n\n"
        for number in range(60)
    )
    answer = f"{HEAD}@@\n def f50():\n     ...\n     call()\n-    done()\n+    finished()\n"
    head, name, tail = text.partition("def f50():")
    assert after(answer, text.encode()).decode() == head + name + tail.replace("done()", "finished()", 1)


def test_an_elision_whose_first_line_matches_often_is_ambiguous() -> None:
    block = "def f():\n    x = 1\n{}    end()\n\n\n"
    text = "".join(block.format("    here()\n" if number in {10, 50} else "") for number in range(60))
    answer = f"{HEAD}@@\n def f():\n-    x = 1\n+    x = 2\n     ...\n     here()\n"
    assert reasons(answer, text.encode()) == {"ambiguous"}


# Refusals and names


def test_two_changes_at_one_location_are_reported_as_one_location() -> None:
    text = "if a:\n    v73 = 1\n\n\n        call(b)\n\n        v94 = 2\n    v71 = 7\n"
    hunk = "@@\n     v73 = 1\n \n \n+\n+        v4 = 6\n+\n \n         v94 = 2\n"
    problem = str(refused(HEAD + hunk, text.encode()))
    assert "fits equally well at 2 places (lines 4, 5)" in problem


def test_the_exact_one_of_two_loose_matches() -> None:
    text = "\n        v9 = 5\n        return x\n    return x\n\nv92 = 4\n        end\nbeta\n"
    hunk = "@@\n \n         v9 = 5\n     zzz changed\n-    return x\n+        more()\n \n v92 = 4\n         end\n"
    assert after(HEAD + hunk, text.encode()).decode() == text.replace(
        "\n    return x\n", "\n        more()\n"
    )


def test_an_exact_diff_that_empties_a_file_is_accepted_in_strict_mode() -> None:
    assert after(f"{HEAD}@@ -1 +0,0 @@\n-one\n", b"one\n", strict=True) == b""
    assert reasons(f"{HEAD}@@ -1 +0,0 @@\n-one\n", b"one\n") == {"empties-file"}
    assert reasons(f"{HEAD}@@ -1,2 +0,0 @@\n-one\n", b"one\n", strict=True) == {"strict"}
    assert reasons("app.py\n```\n```\n", b"one\n", strict=True) == {"empties-file"}


CHANGE = "@@ -1 +1 @@\n-one\n+two\n"


@pytest.mark.parametrize(
    ("header", "path"),
    [
        ("diff --git a/my  b/my \n--- a/my \t\n+++ b/my \t\n", "my "),
        ("--- a/my \n+++ b/my \n", "my "),
        ("diff --git a/dev/null b/dev/null\n--- a/dev/null\n+++ b/dev/null\n", "dev/null"),
        ("--- a/dev/null\n+++ b/dev/null\n", "dev/null"),
    ],
)
def test_odd_names_of_existing_files(header: str, path: str) -> None:
    (change,) = apply_answer(header + CHANGE, {path: SourceText(b"one\n"), "x": SourceText(b"one\n")}).changes
    assert (change.old_path, change.path, change.after) == (path, path, b"two\n")


def test_a_trailing_space_distinguishes_two_files() -> None:
    files = {"my": SourceText(b"one\n"), "my ": SourceText(b"one\n")}
    for header, path in (("--- a/my\n+++ b/my\n", "my"), ("--- a/my \t\n+++ b/my \t\n", "my ")):
        (change,) = apply_answer(header + CHANGE, files).changes
        assert change.path == path


def test_dev_null_is_no_file_next_to_another_name() -> None:
    files = {"dev/null": SourceText(b"one\n"), "x": SourceText(b"one\n")}
    (gone,) = apply_answer("--- a/x\n+++ b/dev/null\n@@ -1 +0,0 @@\n-one\n", files).changes
    assert (gone.old_path, gone.path) == ("x", None)
    (gone,) = apply_answer("--- a/dev/null\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n", files).changes
    assert (gone.old_path, gone.path) == ("dev/null", None)
