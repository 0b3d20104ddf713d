"""Hunks that are slightly wrong: how their location and the indentation of added lines are determined."""

from __future__ import annotations

import pytest

from tests.patch.helpers import APP, after, fenced, reasons

ITEMS = b"class Q:\n\tx = 1\n\n\tdef f(self):\n\t\told()\n\t\tif self.x:\n\t\t\tgo()\n\t\treturn 1\n"


def hunk(*lines: str, header: str = "@@") -> str:
    return "\n".join(["```diff", "--- a/app.py", "+++ b/app.py", header, *lines, "```", ""])


def test_a_hunk_that_only_keeps_a_line_needs_an_existing_one() -> None:
    change = '@@\n-    return "hello " + name\n+    return "hi " + name\n'
    assert reasons(fenced(f"@@\n-import sis\n+import sis\n{change}")) == {"deleted-line-missing"}
    assert after(fenced(f"@@\n-import sys\n+import sys\n{change}")) == APP.replace(b'"hello "', b'"hi "')


def test_one_hunk_may_change_a_line_that_another_keeps() -> None:
    first = '@@\n def greet(name):\n-    """Say hello."""\n-    return "hello " + name\n+    """Say hi."""\n+    return "hello " + name\n'
    second = '@@\n-    """Say hello."""\n-    return "hello " + name\n+    """Say hello."""\n+    return "hi " + name\n'
    expected = APP.replace(b'"""Say hello', b'"""Say hi').replace(b'"hello "', b'"hi "')
    assert after(fenced(first + second)) == expected
    later = f"{fenced(first)}\nWait, leave the docstring alone:\n\n{fenced(second)}"
    assert after(later) == APP.replace(b'"hello "', b'"hi "')


def test_an_elision_that_is_deleted_and_added_again_stays() -> None:
    old = ["def greet(name):", "    # ... existing code ...", "def part(name):"]
    new = ["def greet(who):", "    # ... existing code ...", "def part(who):"]
    answer = hunk(*(f"-{line}" for line in old), *(f"+{line}" for line in new))
    assert after(answer) == APP.replace(b"greet(name):", b"greet(who):").replace(
        b"part(name):", b"part(who):"
    )


def test_lines_rewritten_at_another_depth_leave_that_of_new_ones_open() -> None:
    rewritten = ["-def f(self):", "-old()", "+def f(self):", "+old()", " \t\tif self.x:"]
    for added in (["+\t\t\tif self.y:", "+\t\t\t\tcome()"], ["+new()", "+\t\t\tcome()"]):
        answer = hunk(*rewritten, "-\t\t\tgo()", *added, " \t\treturn 1")
        assert reasons(answer, ITEMS) == {"indentation"}


INCLUDES = ["replay", "resolve", "revision", "sequencer", "setup", "strvec", "submodule", "symlinks"]
QUOTES = "    check()\n    print({0}a{0})\n    done()\n"


@pytest.mark.parametrize(
    ("source", "answer", "old", "new"),
    [
        (  # an added line that begins like a line of the file gets its depth
            b"/**\n * @method one()\n * @method two()\n */\nclass A {\n}\n",
            hunk(" * @method one()", "+* @method more()", " * @method two()", header="@@ -2,2 +2,3 @@"),
            b" * @method two", b" * @method more()\n * @method two",
        ),
        (  # lines without their first column next to others at column 0
            b"import a\nimport b\n\n/**\n * Says it.\n */\n",
            hunk("import a", " import b", "+import c", " ", " /**", " * Says it."),
            b"import b\n", b"import b\nimport c\n",
        ),
        (  # all context without its first column around an elision
            b"### New\n\n  * one\n  * two\n  * three\n  * four\n\n### Old\n",
            hunk("### New", "", "  * one", "  # ... existing code ...", "  * four", "+  * five", "", "### Old"),
            b"  * four\n", b"  * four\n  * five\n",
        ),
        (  # an addition that repeats its neighbours, between two existing lines
            b"switch (x) {\n  case 'config':\n    config = shift(args);\n    break;\n  case 'help':\n    help();\n}\n",
            hunk("   case 'config':", "     value = shift(args);", "     break;", "+  case 'none':", "+    break;",
                 "   case 'help':", "     help();"),
            b"  case 'help'", b"  case 'none':\n    break;\n  case 'help'",
        ),
        (  # of two blank lines the one next to the change is matched
            b"const a = require('a');\nconst b = require('b');\n\nconst codes = new Set([1]);\n\nrun(codes);\n",
            hunk(" const a = require('a');", " const b = require('b');", "+const c = require('c');", " ", " "),
            b"('b');\n", b"('b');\nconst c = require('c');\n",
        ),
        (  # an existing line does not match a similar one
            "".join(f'#include "{name}.h"\n' for name in INCLUDES).encode(),
            hunk(*(f' #include "{name}.h"' for name in INCLUDES[2:3] + INCLUDES[4:5]), '+#include "sparse-index.h"',
                 *(f' #include "{name}.h"' for name in INCLUDES[5:])),
            b'#include "strvec', b'#include "sparse-index.h"\n#include "strvec',
        ),
        (  # a no-break space in a string of a deleted line
            b'\tpanic("at least one handler")\n\treturn\n',
            hunk('-panic("at\u00a0least one handler")', '+panic("no handler")', " return"),
            b"at least one handler", b"no handler",
        ),
        (  # the location with the same quotes is preferred
            f"def one():\n{QUOTES.format(chr(8221))}\n\ndef two():\n{QUOTES.format(chr(34))}".encode(),
            hunk(" check()", '-print("a")', '+print("b")', " done()"),
            b'"a"', b'"b"',
        ),
        (  # context one space short next to lines at column 0
            b"load().then(() => {\n  show();\n  hide();\n});\n\nfunction f() {\n}\n",
            hunk("  show();", "  hide();", "+}).catch(() => {", "+  fail();", " });", " ", " function f() {"),
            b"  hide();\n", b"  hide();\n}).catch(() => {\n  fail();\n",
        ),
        (  # the end of hunk and file, and their beginning
            b"func a() {\n\tname := b()\n\treturn name\n}\n",
            hunk(" \tname := b()", " }", "+", "+func c() {}"),
            b"\n}\n", b"\n}\n\nfunc c() {}\n",
        ),
        (
            b"/**\n * Parts.\n */\n\nvar one = require('one');\nvar two = require('two');\n",
            hunk("+/*! Licence. */", "+", " /**", " * Parts.", "  */", " ", " var one = reuqire('one');"),
            b"/**", b"/*! Licence. */\n\n/**",
        ),
        (  # a bare blank line between additions in a hunk with a line too many
            b"class A {\n\tbody: any;\n\tcode: int;\n\tcache?: bool;\n\treq: any;\n}\n",
            hunk(" # end of block", " class A {", " \tbody: any;", " \tcode: int;", "+", "+\t/** The address.", "",
                 "+\tNot always there. */", "+\tip: string;", "+", " \tcache?: bool;", " \treq: any;"),
            b"\tcache", b"\n\t/** The address.\n\n\tNot always there. */\n\tip: string;\n\n\tcache",
        ),
        (  # the blank line is an added one even if only one more follows
            b"class A {\n\treq: any;\n}\n",
            hunk(" class A {", "+\tone;", "", "+\ttwo;", " \treq: any;", header="@@ -1,9 +1,9 @@"),
            b"\treq", b"\tone;\n\n\ttwo;\n\treq",
        ),
        (  # context without its depth does not shift changed lines that have theirs
            b"env:\n  - a\n  - b\n  - c\nend:\n",
            hunk(" - a", "-  - b", "+#  - b", " - c", header="@@ -2,3 +2,3 @@"),
            b"  - b", b"#  - b",
        ),
    ],
)  # fmt: skip
def test_a_hunk_that_is_slightly_wrong(source: bytes, answer: str, old: bytes, new: bytes) -> None:
    assert after(answer, source) == source.replace(old, new)


def test_with_context_one_space_short_a_line_gets_the_depth_of_similar_lines() -> None:
    source = b"/* One.\n* two\n */\n\n/*\n * Says it.\n * So.\n */\nint f();\n"
    expected = source.replace(b" * So", b" * Again.\n * So")
    assert after(hunk(" * Says it.", "+* Again.", " * So."), source) == expected
    assert after(hunk(" /*", " * Says it.", "+* Again.", " * So."), source) == expected
    assert reasons(hunk(" /*", " * Says it.", "+int g();", " * So."), source + b" int g();\n") == {
        "indentation"
    }


def test_an_index_line_with_letters_for_hashes_in_a_bare_diff() -> None:
    head = "diff --git a/app.py b/app.py\nindex XXXXXXX..YYYYYYY 100644\n--- a/app.py\n+++ b/app.py\n"
    assert after(f"{head}@@ -1 +1 @@\n-import sys\n+import os\n") == APP.replace(b"sys\n", b"os\n", 1)


def test_indented_lines_in_a_flat_file_are_refused() -> None:
    before = b"use a;\n\nmod one;\nmod two;\n\nmod three;\n"
    answer = fenced("@@\n   mod one;\n+    mod other;\n   mod two;\n")
    assert reasons(answer, before) == {"indentation"}


def test_lines_with_an_unexplained_shift_are_refused() -> None:
    before = b"one\n{\n  {\n      call();\n    }\n  }\n}\nend\n"
    answer = fenced("@@\n       call();\n   }\n-}\n+}\n+#endif\n")
    assert reasons(answer, before) <= {"indentation", "ambiguous"}
