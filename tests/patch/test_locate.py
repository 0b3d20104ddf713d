"""Each tolerance, and each way to decide between locations."""

from __future__ import annotations

import pytest

from repoagent.patch.refusal import READING
from tests.patch.helpers import APP, after, each, fenced, outcome, reasons, refused, run

CHANGED = APP.replace(b'"hello "', b'"hi "')
DOC, OLD, NEW = '     """Say hello."""', '-    return "hello " + name', '+    return "hi " + name'
GREET = (" def greet(name):", DOC, OLD, NEW)
BELOW = (" ", " ", " def part(name):")
TRAILING = APP.replace(b"def greet(name):\n", b"def greet(name):  \n")
TABS = APP.replace(b"    ", b"\t")
LINES = b"".join(b"line %d\n" % number for number in range(60))
TWICE = b"def a():\n    x = 1\n    return x\n\n\ndef b():\n    x = 1\n    return x\n"
SECOND = b"return 2".join(TWICE.rsplit(b"return x", 1))
FIRST = TWICE.replace(b"return x", b"return 2", 1)
RETURN = "     x = 1\n-    return x\n+    return 2\n"


def hunk(*lines: str) -> str:
    return fenced("@@\n" + "\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("tolerance", "lines", "source", "expected"),
    [
        ("trailing-space", GREET, TRAILING, TRAILING.replace(b'"hello "', b'"hi "')),
        ("punctuation", (DOC, "-    return “hello ” + name", NEW), APP, CHANGED),
        ("html", ("-if a &lt; b &amp;&amp; c:", "+if a &lt; b:", "     go()"), b"if a < b && c:\n    go()\n",
         b"if a < b:\n    go()\n"),
        ("whitespace", (" def greet(name):", DOC[2:], "-" + OLD[3:], "+  # short", "+" + NEW[3:]), TABS,
         TABS.replace(b'\treturn "hello "', b'\t# short\n\treturn "hi "')),
        *(
            ("elision", (" def greet(name):", dots, OLD, NEW), APP, CHANGED)
            for dots in (" ...", "...", " # ... existing code ...", "     # ... rest of the code", " …")
        ),
        ("split",
         (" line 3", "-line 4", "+LINE 4", " line 5", " line 49", "-line 50", "+LINE 50", " line 51"), LINES,
         LINES.replace(b"line 4\n", b"LINE 4\n").replace(b"line 50", b"LINE 50")),
        ("fuzzy-context", (" def greet(nam):", DOC.replace("Say", "Says"), OLD, NEW, *BELOW), APP, CHANGED),
        ("fuzzy-context", (DOC, "     log(name)", OLD, NEW, *BELOW), APP, CHANGED),  # a line is missing
        # the whole hunk is shifted
        ("whitespace", (" def f(self):", "     x = 1", "-    return x", "+    if x:", "+        return 2"),
         b"class A:\n    def f(self):\n        x = 1\n        return x\n",
         b"class A:\n    def f(self):\n        x = 1\n        if x:\n            return 2\n"),
        # only context lost a space
        ("whitespace", ("    x = 1", "+    w = 4", "    y = 2"),
         b"class A:\n    x = 1\n    y = 2\n    z = 3\n",
         b"class A:\n    x = 1\n    w = 4\n    y = 2\n    z = 3\n"),
        # an elision ends with its block
        ("elision", (" def a():", " ...", "-    return 1", "+    return 2"),
         b"def a():\n    x()\n    return 1\n\n\ndef b():\n    y()\n    return 1\n",
         b"def a():\n    x()\n    return 2\n\n\ndef b():\n    y()\n    return 1\n"),
        # an addition next to an elision goes to the line that it touches
        ("elision", (" def a():", " ...", "+    new()", "     four()"),
         b"def a():\n    one()\n    two()\n    four()\n",
         b"def a():\n    one()\n    two()\n    new()\n    four()\n"),
        # dots that are code
        ("exact", ("         ...", " ", "-    x = 1", "+    x = 2"),
         b"class P:\n    def f(self):\n        ...\n\n    x = 1\n",
         b"class P:\n    def f(self):\n        ...\n\n    x = 2\n"),
        ("whitespace", ('-s  =  "a b"', '+s = "a c"'), b's = "a b"\nt = 1\n', b's = "a c"\nt = 1\n'),
        ("exact", ("+import os",), b"", b"import os\n"),
    ],
)  # fmt: skip
def test_a_tolerance(tolerance: str, lines: tuple[str, ...], source: bytes, expected: bytes) -> None:
    applied = run(hunk(*lines), source)
    assert applied.changes[0].after == expected
    (placement,) = applied.placements
    assert placement.level == tolerance
    assert {*placement.tolerances} - READING.keys() == {tolerance} - {"exact"}


def test_an_exact_location_wins_over_a_looser_one() -> None:
    source = b"a\nkey = 1  \nb\nkey = 1\n"
    applied = run(hunk("-key = 1", "+key = 2"), source)
    assert applied.changes[0].after == b"a\nkey = 1  \nb\nkey = 2\n"
    assert (applied.placements[0].level, applied.placements[0].line) == ("exact", 4)


@pytest.mark.parametrize(
    ("reason", "lines", "source"),
    [
        ("indentation", ("     alpha()", "+     gamma()", "       beta()"),
         b"f:\n      alpha()\n   beta()\n"),
        # an addition between two elisions
        ("not-found", (" def a():", " ...", "+    new()", " ...", "     four()"),
         b"def a():\n    one()\n    two()\n    three()\n    four()\n"),
        # an addition without a matching neighbour
        ("not-found", (" alpha beta", " something", "+new", " other thing", " epsilon"),
         b"alpha beta\ngamma delta\nepsilon\n"),
        # a neighbour of the addition is nearby, but not next to the other one
        ("not-found", (" first line", " alpha one", "+new line", " beta two", " delta end", " omega last"),
         b"first line\nalpha one\ngamma mid\nbeta two\ndelta end\nomega last\n"),
        # the line above the location is the added one
        ("not-found", (" something else", "+new line here", " beta two", " gamma three"),
         b"top\nnew line here\nbeta two\ngamma three\n"),
        ("not-found", ('-s = "a  b"', '+s = "a  c"'), b's = "a b"\nt = 1\n'),  # white space inside a string
        # also in a line that is deleted and added again
        ("not-found", ('-s  =  "a  b"', '+s  =  "a  b"', "-t = 1", "+t = 2"), b's = "a b"\nt = 1\n'),
        # a runner-up is close
        ("ambiguous", (" def g():", "     first()", "+    between()", "     second()", "     third()"),
         b"".join(b"def f%d():\n    first()\n    second()\n    third()\n\n\n" % n for n in range(2))),
        ("no-context", ("+import os",), APP),
        ("no-context", (" ", "+import os", " "), APP),
        ("already-applied", GREET, CHANGED),
        ("already-applied", (" import sys", "+import os", " ", " "),
         APP.replace(b"import sys\n", b"import sys\nimport os\n")),
        ("already-applied", (" import sys", "+import os"), b"import sys\nimport os\n"),
        ("already-applied", ("+import os", " import sys"), b"import os\nimport sys\n"),
        # a deletion needs context on both sides
        ("already-applied", (" import sys", "-import os", " ", " ", " def greet(name):"), APP),
        ("deleted-line-missing", (" import sys", "-import os"), APP),
        ("deleted-line-missing", ("-import os", " import sys"), APP),
    ],
)  # fmt: skip
def test_a_refusal(reason: str, lines: tuple[str, ...], source: bytes) -> None:
    assert reasons(hunk(*lines), source) == {reason}


@pytest.mark.parametrize("lines", [" import sys\n+import os", "+import os\n import sys"])
def test_an_insertion_at_an_end_of_the_file_is_applied_once(lines: str) -> None:
    diff = fenced(f"@@ -1 +1,2 @@\n{lines}")
    assert reasons(diff, after(diff, b"import sys\n")) == {"already-applied"}


def test_two_equal_locations_are_refused_with_their_lines() -> None:
    error = refused(fenced(f"@@\n{RETURN}"), TWICE)
    assert error.reasons == {"ambiguous"}
    for text in ("lines 2, 7", "Around line 2:\n     1  def a():\n     2      x = 1\n"):
        assert text in str(error)


@pytest.mark.parametrize(
    ("diff", "source", "expected"),
    [
        (f"@@ def b():\n{RETURN}", TWICE, SECOND),  # the heading, also against a wrong line number
        (f"@@ -1,2 +1,2 @@ def b():\n{RETURN}", TWICE, SECOND),
        (f"@@ -2,9 +2,9 @@ def b():\n{RETURN}", TWICE, SECOND),
        (f"@@ -2,2 +2,2 @@ def b():\n{RETURN}", TWICE, None),  # a correct header that contradicts it
        (f"@@ -7,2 +7,2 @@\n{RETURN}", TWICE, SECOND),  # the number, if the header is correct
        (f"@@ -6,2 +6,2 @@\n{RETURN}", TWICE, None),
        (f"@@ -7,9 +7,2 @@\n{RETURN}", TWICE, None),
        # the shift of another hunk
        (f"@@ -1,1 +1,1 @@\n-def a():\n+def c():\n@@ -7,2 +7,2 @@\n{RETURN}", b"top\n" + TWICE,
         b"top\n" + SECOND.replace(b"def a", b"def c")),
        # the order of hunks
        (f"@@\n-def b():\n+def c():\n@@\n{RETURN}", TWICE, SECOND.replace(b"def b", b"def c")),
        *(  # the section of a heading ends at a line at its depth that begins with a name, not at a bracket
            (f"@@ def a():\n{RETURN}", b"def a():\n" + line + TWICE.partition(b"\n")[2], expected)
            for line, expected in (
                (b"_end = 1\n", None),
                (b"}\n", b"def a():\n}\n" + FIRST.partition(b"\n")[2]),
            )
        ),
        # the first line of a hunk is above that of the next one, and the last line below that of the one before
        (f"@@\n{RETURN}@@\n     x = 1\n     return x\n-c\n+d\n", TWICE + b"c\n", FIRST + b"d\n"),
        (f"@@\n-def a():\n+def c():\n     x = 1\n     return x\n@@\n{RETURN}", TWICE,
         SECOND.replace(b"a()", b"c()")),
        *(  # a heading has at least three characters
            (f"@@ {heading}\n{RETURN}", TWICE.replace(b"def b():", heading.encode()), expected)
            for heading, expected in (("g:", None), ("gg:", SECOND.replace(b"def b():", b"gg:")))
        ),
        # as many equal hunks as locations
        (f"@@ -1 +1 @@\n{RETURN}@@ -2 +2 @@\n{RETURN}", TWICE, TWICE.replace(b"return x", b"return 2")),
    ],
)  # fmt: skip
def test_what_decides_between_equal_locations(diff: str, source: bytes, expected: bytes | None) -> None:
    assert outcome(fenced(diff), source) == (expected or "ambiguous")


@pytest.mark.parametrize("shared", [3, 4])
def test_hunks_in_order_share_at_most_three_lines(shared: int) -> None:
    block = "line 0\nline 1\nline 2\nline 3\nline 4\n"
    context = each(" ", block)
    first = "".join(context.splitlines(keepends=True)[:shared])
    answer = fenced(f"@@\n-head\n+HEAD\n{first}@@\n{context}-line 5\n+LINE 5\n")
    before = f"head\n{block}line 5\ngap\n{block}line 5\n".encode()
    changed = f"HEAD\n{block}line 5\ngap\n{block}LINE 5\n".encode()
    assert outcome(answer, before) == (changed if shared == 4 else "ambiguous")


def test_strict_accepts_only_exact_matches() -> None:
    answer = hunk(" def greet(name):", f"-{DOC[1:]}", '+    """Say hi."""')
    answer = answer.replace("@@", "@@ -4,2 +4,2 @@")
    assert reasons(answer, TRAILING, strict=True) == {"not-found"}
    assert after(answer, TRAILING) != TRAILING


def test_an_exact_location_is_not_certain_if_the_rest_of_the_answer_is_shifted() -> None:
    source = b"class A:\n    def f(self):\n        go()\n        stop()\n\n\ngo()\nstop()\n"
    shifted = "@@\n def f(self):\n-    go()\n+    run()\n"
    assert after(fenced("@@\n-stop()\n+end()\n"), source).endswith(b"\ngo()\nend()\n")
    assert reasons(fenced(f"{shifted}@@\n-stop()\n+end()\n"), source) == {"ambiguous"}


@pytest.mark.parametrize(
    ("hunk", "source", "expected"),
    [
        ("@@\n x = \u201ca\u201d\n+y = \u201cb\u201d\n", b'x = "a"\n', b'x = "a"\ny = "b"\n'),
        ("@@\n run \u2014all\n+run \u2014one \u2013 x\n", b"run --all\n", b"run --all\nrun --one -- x\n"),
        ("@@\n if a &lt; b:\n+    c &amp;&amp; d\n", b"if a < b:\n", b"if a < b:\n    c && d\n"),
        ("@@\n a &lt; b\n+c &lt; d\n@@\n-two\n", b"a < b\none\ntwo\n", b"a < b\nc < d\none\n"),
        ("@@\n one\n+a &lt; b\n@@\n c &gt; d\n-two\n", b"one\nx\nc > d\ntwo\n", b"one\na < b\nx\nc > d\n"),
        ("@@\n &amp;lt;\n+&amp;gt;\n", b"&lt;\n", b"&lt;\n&gt;\n"),
        ("@@\n &lt;\n+&gt;\n", b"&lt;\n", b"&lt;\n&gt;\n"),
        ("@@\n-one\n+say \u201chi\u201d\n", b"one\n", "say \u201chi\u201d\n".encode()),
        ("@@\n x = 'a'\n+y = \u201cb\u201d\n", b"x = 'a'\n", "x = 'a'\ny = \u201cb\u201d\n".encode()),
        (  # the file has one of the quoted lines as written
            "@@\n x = \u201ca\u201d\n+z = \u201cc\u201d\n@@\n y = \u201cb\u201d\n-w\n+v\n",
            'x = \u201ca\u201d\ny = "b"\nw\n'.encode(),
            'x = \u201ca\u201d\nz = \u201cc\u201d\ny = "b"\nv\n'.encode(),
        ),
        ("@@\n if a &lt; b:\n-    x\n+    y < z\n", b"if a < b:\n    x\n", b"if a < b:\n    y < z\n"),
        ("@@\n &copy;\n+a &lt; b\n", b"&copy;\n", b"&copy;\na &lt; b\n"),
        ("@@\n one\n+r('<', '&lt;')\n", b"one\n", b"one\nr('<', '&lt;')\n"),
        ("@@\n one\n+a &lt; b\n", b"one\n", "escaped"),  # nothing explains it
        ("@@\n one\n+a &lt; b\n", b"one\n&gt;\n", b"one\na &lt; b\n&gt;\n"),
        (  # escapes only in context do not change added lines
            "@@\n x = \u201ca\u201d\n-y = 'b'\n+y = \u201cc\u201d\n",
            b"x = \"a\"\ny = 'b'\n",
            'x = "a"\ny = \u201cc\u201d\n'.encode(),
        ),
    ],
)
def test_escapes_shown_by_old_lines_are_decoded_in_added_lines(
    hunk: str, source: bytes, expected: bytes | str
) -> None:
    assert outcome(fenced(hunk), source) == expected
