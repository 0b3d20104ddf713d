"""One test for each tolerance, and for each way to decide between places."""

from __future__ import annotations

import pytest

from tests.patch.helpers import APP, after, fenced, level, reasons, refused, run

CHANGED = APP.replace(b'"hello "', b'"hi "')


def hunk(*lines: str) -> str:
    return fenced("@@\n" + "\n".join(lines) + "\n")


def test_exact_is_named_so_and_wins_over_a_looser_place() -> None:
    source = b"a\nkey = 1  \nb\nkey = 1\n"
    applied = run(hunk("-key = 1", "+key = 2"), source)
    assert applied.changes[0].after == b"a\nkey = 1  \nb\nkey = 2\n"
    assert (applied.placements[0].level, applied.placements[0].line) == ("exact", 4)


def test_trailing_space() -> None:
    source = APP.replace(b"def greet(name):\n", b"def greet(name):  \n")
    answer = hunk(
        " def greet(name):",
        '     """Say hello."""',
        '-    return "hello " + name',
        '+    return "hi " + name',
    )
    assert after(answer, source) == source.replace(b'"hello "', b'"hi "')
    assert level(answer, source) == "trailing-space"


def test_punctuation() -> None:
    answer = hunk('     """Say hello."""', "-    return “hello ” + name", '+    return "hi " + name')
    assert after(answer) == CHANGED
    assert level(answer) == "punctuation"


def test_html() -> None:
    source = b"if a < b && c:\n    go()\n"
    answer = hunk("-if a &lt; b &amp;&amp; c:", "+if a &lt; b:", "     go()")
    assert after(answer, source) == b"if a < b:\n    go()\n"
    assert level(answer, source) == "html"


def test_whitespace_with_the_indentation_of_the_file() -> None:
    answer = hunk(
        " def greet(name):",
        '   """Say hello."""',
        '-  return "hello " + name',
        "+  # short",
        '+  return "hi " + name',
    )
    assert after(answer, APP.replace(b"    ", b"\t")) == APP.replace(b"    ", b"\t").replace(
        b'\treturn "hello "', b'\t# short\n\treturn "hi "'
    )
    assert level(answer) == "whitespace"


def test_a_whole_hunk_shifted_is_rebased() -> None:
    source = b"class A:\n    def f(self):\n        x = 1\n        return x\n"
    answer = hunk(" def f(self):", "     x = 1", "-    return x", "+    if x:", "+        return 2")
    assert (
        after(answer, source)
        == b"class A:\n    def f(self):\n        x = 1\n        if x:\n            return 2\n"
    )


def test_one_space_lost_from_context_only_leaves_added_lines_alone() -> None:
    source = b"class A:\n    x = 1\n    y = 2\n    z = 3\n"
    answer = hunk("    x = 1", "+    w = 4", "    y = 2")
    assert after(answer, source) == b"class A:\n    x = 1\n    w = 4\n    y = 2\n    z = 3\n"


def test_an_indentation_that_can_not_be_told_is_refused() -> None:
    source = b"def f():\n      alpha()\n   beta()\n"
    assert reasons(hunk("     alpha()", "+     gamma()", "       beta()"), source) == {"indentation"}


@pytest.mark.parametrize(
    "dots", [" ...", "...", " # ... existing code ...", "     # ... rest of the code", " …"]
)
def test_elision(dots: str) -> None:
    answer = hunk(" def greet(name):", dots, '-    return "hello " + name', '+    return "hi " + name')
    assert after(answer) == CHANGED
    assert level(answer) == "elision"


def test_elision_stays_in_its_block() -> None:
    source = b"def a():\n    x()\n    return 1\n\n\ndef b():\n    y()\n    return 1\n"
    answer = hunk(" def a():", " ...", "-    return 1", "+    return 2")
    assert after(answer, source) == source.replace(b"return 1", b"return 2", 1)


def test_an_addition_beside_an_elision_goes_to_the_line_that_it_touches() -> None:
    source = b"def a():\n    one()\n    two()\n    three()\n    four()\n"
    assert after(hunk(" def a():", " ...", "+    new()", "     four()"), source) == source.replace(
        b"    four", b"    new()\n    four"
    )
    assert reasons(hunk(" def a():", " ...", "+    new()", " ...", "     four()"), source) == {"not-found"}


def test_dots_that_are_code_are_code() -> None:
    source = b"class P:\n    def f(self):\n        ...\n\n    x = 1\n"
    assert level(hunk("         ...", " ", "-    x = 1", "+    x = 2"), source) == "exact"


def test_two_places_run_together_in_one_hunk() -> None:
    source = b"".join(b"line %d\n" % number for number in range(60))
    answer = hunk(" line 3", "-line 4", "+LINE 4", " line 5", " line 49", "-line 50", "+LINE 50", " line 51")
    assert after(answer, source) == source.replace(b"line 4\n", b"LINE 4\n").replace(b"line 50", b"LINE 50")
    assert level(answer, source) == "split"


def test_fuzzy_context() -> None:
    answer = hunk(
        " def greet(nam):",
        '     """Says hello."""',
        '-    return "hello " + name',
        '+    return "hi " + name',
        " ",
        " ",
        " def part(name):",
    )
    assert after(answer) == CHANGED
    assert level(answer) == "fuzzy-context"


def test_context_that_is_not_there_is_dropped() -> None:
    answer = hunk(
        '     """Say hello."""',
        "     log(name)",
        '-    return "hello " + name',
        '+    return "hi " + name',
        " ",
        " ",
        " def part(name):",
    )
    assert after(answer) == CHANGED


def test_a_deleted_line_must_be_there() -> None:
    error = refused(
        hunk(
            " def greet(name):",
            '     """Say hello."""',
            '-    return "hello, " + name',
            '+    return "hi " + name',
        )
    )
    assert error.reasons == {"deleted-line-missing"}
    assert '     6      return "hello " + name' in str(error)


def test_an_addition_needs_a_line_beside_it() -> None:
    source = b"alpha beta\ngamma delta\nepsilon\n"
    assert reasons(hunk(" alpha beta", " something", "+new", " other thing", " epsilon"), source) == {
        "not-found"
    }


def test_close_runners_up_are_ambiguous() -> None:
    block = b"def f%d():\n    first()\n    second()\n    third()\n\n\n"
    source = b"".join(block % number for number in range(2))
    answer = hunk(" def g():", "     first()", "+    between()", "     second()", "     third()")
    assert reasons(answer, source) == {"ambiguous"}


TWICE = b"def a():\n    x = 1\n    return x\n\n\ndef b():\n    x = 1\n    return x\n"
RETURN = "     x = 1\n-    return x\n+    return 2\n"


def test_two_equal_places_are_refused_with_their_lines() -> None:
    error = refused(fenced(f"@@\n{RETURN}"), TWICE)
    assert error.reasons == {"ambiguous"}
    assert "lines 2, 7" in str(error)


def second(source: bytes) -> bytes:
    head, tail = source.rsplit(b"return x", 1)
    return head + b"return 2" + tail


def test_the_heading_decides_and_a_number_does_not_overrule_it() -> None:
    assert after(fenced(f"@@ def b():\n{RETURN}"), TWICE) == second(TWICE)
    assert after(fenced(f"@@ -1,2 +1,2 @@ def b():\n{RETURN}"), TWICE) == second(TWICE)
    assert after(fenced(f"@@ -2,9 +2,9 @@ def b():\n{RETURN}"), TWICE) == second(TWICE)


def test_a_heading_and_a_right_header_that_name_two_places_are_refused() -> None:
    assert reasons(fenced(f"@@ -2,2 +2,2 @@ def b():\n{RETURN}"), TWICE) == {"ambiguous"}


def test_the_number_decides_if_the_header_is_right_in_every_way() -> None:
    assert after(fenced(f"@@ -7,2 +7,2 @@\n{RETURN}"), TWICE) == second(TWICE)
    assert reasons(fenced(f"@@ -6,2 +6,2 @@\n{RETURN}"), TWICE) == {"ambiguous"}
    assert reasons(fenced(f"@@ -7,9 +7,2 @@\n{RETURN}"), TWICE) == {"ambiguous"}


def test_the_shift_of_a_placed_hunk_decides() -> None:
    source = b"top\n" + TWICE
    answer = fenced(f"@@ -1,1 +1,1 @@\n-def a():\n+def c():\n@@ -7,2 +7,2 @@\n{RETURN}")
    assert after(answer, source) == second(source).replace(b"def a", b"def c")


def test_the_order_of_hunks_decides() -> None:
    answer = fenced(f"@@\n-def b():\n+def c():\n@@\n{RETURN}")
    assert after(answer, TWICE) == second(TWICE).replace(b"def b", b"def c")


def test_the_same_hunk_for_each_of_its_places() -> None:
    assert after(fenced(f"@@ -1 +1 @@\n{RETURN}@@ -2 +2 @@\n{RETURN}"), TWICE) in {
        TWICE.replace(b"return x", b"return 2")
    }


def test_nothing_to_be_found_by() -> None:
    assert reasons(hunk("+import os")) == {"no-context"}
    assert reasons(hunk(" ", "+import os", " ")) == {"no-context"}
    assert after(hunk("+import os"), b"") == b"import os\n"


def test_already_applied() -> None:
    answer = hunk(
        " def greet(name):",
        '     """Say hello."""',
        '-    return "hello " + name',
        '+    return "hi " + name',
    )
    assert reasons(answer, CHANGED) == {"already-applied"}
    insertion = hunk(" import sys", "+import os", " ", " ")
    assert reasons(insertion, APP.replace(b"import sys\n", b"import sys\nimport os\n")) == {"already-applied"}
    assert reasons(hunk(" import sys", "+import os"), b"import sys\nimport os\n") == {"already-applied"}


def test_strict_takes_only_what_fits_exactly() -> None:
    source = APP.replace(b"def greet(name):\n", b"def greet(name):  \n")
    answer = hunk(" def greet(name):", '-    """Say hello."""', '+    """Say hi."""').replace(
        "@@", "@@ -4,2 +4,2 @@"
    )
    assert reasons(answer, source, strict=True) == {"not-found"}
    assert after(answer, source) != source


def test_white_space_inside_a_string_is_not_blinked_at() -> None:
    assert reasons(hunk('-s = "a  b"', '+s = "a  c"'), b's = "a b"\nt = 1\n') == {"not-found"}
    assert after(hunk('-s  =  "a b"', '+s = "a c"'), b's = "a b"\nt = 1\n') == b's = "a c"\nt = 1\n'


def test_an_exact_place_is_not_sure_when_the_rest_of_the_answer_is_shifted() -> None:
    source = b"class A:\n    def f(self):\n        go()\n        stop()\n\n\ngo()\nstop()\n"
    shifted = "@@\n def f(self):\n-    go()\n+    run()\n"
    assert after(fenced("@@\n-stop()\n+end()\n"), source).endswith(b"\ngo()\nend()\n")
    assert reasons(fenced(f"{shifted}@@\n-stop()\n+end()\n"), source) == {"ambiguous"}


@pytest.mark.parametrize(
    ("hunk", "source", "expected"),
    [
        ("@@\none\n+ two\n-three\n+drei\n", b"one\n+ two\nthree\n", b"one\n+ two\ndrei\n"),
        ("@@\n- a\n- b\n+- x\n- c\n", b"- a\n- b\n- c\n", b"- a\n- b\n- x\n- c\n"),
        ("@@\nlist:\n- a\n-- b\n+- x\n- c\n", b"list:\n- a\n- b\n- c\n", b"list:\n- a\n- x\n- c\n"),
    ],
)
def test_context_without_its_first_column_can_begin_with_a_sign(
    hunk: str, source: bytes, expected: bytes
) -> None:
    assert after(fenced(hunk), source) == expected
