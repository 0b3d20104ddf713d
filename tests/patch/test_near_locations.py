"""Hunks that are slightly wrong: how their location and the indentation of added lines are determined."""

from __future__ import annotations

import pytest

from tests.patch.helpers import APP, after, fenced, reasons

ITEMS = b"class Q:\n\tx = 1\n\n\tdef f(self):\n\t\told()\n\t\tif self.x:\n\t\t\tgo()\n\t\treturn 1\n"
SHOP = b"""def total(items):
    result = 0
    for item in items:
        result += item.price
        log(item)

    return result


def report(items):
    print(total(items))
"""


def hunk(*lines: str, header: str = "@@") -> str:
    return "\n".join(["```diff", "--- a/app.py", "+++ b/app.py", header, *lines, "```", ""])


def test_one_hunk_may_change_a_line_that_another_keeps() -> None:
    first = '@@\n def greet(name):\n-    """Say hello."""\n-    return "hello " + name\n+    """Say hi."""\n+    return "hello " + name\n'
    second = '@@\n-    """Say hello."""\n-    return "hello " + name\n+    """Say hello."""\n+    return "hi " + name\n'
    expected = APP.replace(b'"""Say hello', b'"""Say hi').replace(b'"hello "', b'"hi "')
    assert after(fenced(first + second)) == expected
    later = f"{fenced(first)}\nWait, leave the docstring alone:\n\n{fenced(second)}"
    assert after(later) == APP.replace(b'"hello "', b'"hi "')


INCLUDES = ["replay", "resolve", "revision", "sequencer", "setup", "strvec", "submodule", "symlinks"]
REWRITTEN = ["-def f(self):", "-old()", "+def f(self):", "+old()", " \t\tif self.x:", "-\t\t\tgo()"]
LETTERS = b"/* One.\n* two\n */\n\n/*\n * Says it.\n * So.\n */\nint f();\n"
HI = ["@@", '-    return "hello " + name', '+    return "hi " + name']
INDEX = "diff --git a/app.py b/app.py\nindex XXXXXXX..YYYYYYY 100644\n--- a/app.py\n+++ b/app.py\n"
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
        (  # a part below an elision has spaces instead of tabs
            APP.replace(b"    ", b"\t"), hunk(" def greet(name):", " ...", *HI[1:]), b'"hello "', b'"hi "',
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
        (  # all context is at column 0, and the file is indented by tabs, too
            b"func a() {\n\tgo()\n}\n",
            hunk(" }", "+", "+func c() {", "+\tgo()", "+}"),
            b"\n}\n", b"\n}\n\nfunc c() {\n\tgo()\n}\n",
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
        (  # context is one space short, and a line gets the depth of similar ones
            LETTERS, hunk(" * Says it.", "+* Again.", " * So."), b" * So", b" * Again.\n * So",
        ),
        (
            LETTERS, hunk(" /*", " * Says it.", "+* Again.", " * So."), b" * So", b" * Again.\n * So",
        ),
        (  # `*` begins lines one column deeper, so the added line does, too
            b"/*\n * a\n * b\n */\nx\n", hunk(" * a", "+* c", " * b"), b" * b", b" * c\n * b",
        ),
        (  # a tab of the file instead of spaces
            b"f {\n\tone\n\ttwo\n}\n", hunk(" f {", "     one", "+    new", "     two"), b"\ttwo", b"\tnew\n\ttwo",
        ),
        (  # two spaces of the file instead of four, at two depths
            b"f {\n  one {\n    two\n  }\n}\n", hunk("     one {", "         two", "+        new", "     }"),
            b"    two\n", b"    two\n    new\n",
        ),
        (  # only the deleted line is less deep than in the file
            SHOP, hunk("     for item in items:", "-    result += item.price", "+        result += 2", "         log(item)"),
            b"item.price", b"2",
        ),
        (  # an elision that is deleted and added again stays
            APP,
            hunk("-def greet(name):", "-    # ... existing code ...", "-def part(name):",
                 "+def greet(who):", "+    # ... existing code ...", "+def part(who):"),
            b"(name):", b"(who):",
        ),
        (  # of two loose matches the exact one
            b"\n        v9 = 5\n        return x\n    return x\n\nv92 = 4\n        end\nbeta\n",
            hunk(" ", "         v9 = 5", "     zzz changed", "-    return x", "+        more()", " ", " v92 = 4", "         end"),
            b"\n    return x\n", b"\n        more()\n",
        ),
        (  # a line that a hunk only keeps must exist
            APP, hunk("-import sys", "+import sys", *HI), b'"hello "', b'"hi "',
        ),
        (
            APP, INDEX + "@@ -1 +1 @@\n-import sys\n+import os\n", b"import sys", b"import os",
        ),
    ],
)  # fmt: skip
def test_a_hunk_that_is_slightly_wrong(source: bytes, answer: str, old: bytes, new: bytes) -> None:
    assert after(answer, source) == source.replace(old, new)


@pytest.mark.parametrize(
    ("reason", "source", "answer"),
    [
        ("deleted-line-missing", APP, hunk("-import sis", "+import sis", *HI)),
        # lines that are rewritten at another depth leave that of new ones open
        ("indentation", ITEMS, hunk(*REWRITTEN, "+\t\t\tif self.y:", "+\t\t\t\tcome()", " \t\treturn 1")),
        ("indentation", ITEMS, hunk(*REWRITTEN, "+new()", "+\t\t\tcome()", " \t\treturn 1")),
        ("indentation", LETTERS + b" int g();\n", hunk(" /*", " * Says it.", "+int g();", " * So.")),
        # indented lines in a flat file
        ("indentation", b"use a;\n\nmod one;\nmod two;\n", hunk("   mod one;", "+    mod other;", "   mod two;")),
        # the shift is not explained
        ("indentation", b"one\n{\n  {\n      call();\n    }\n  }\n}\nend\n",
         hunk("       call();", "   }", "-}", "+}", "+#endif")),
        # everything is flush left, so the new line may belong at column 0 or into the function
        ("indentation", SHOP,
         hunk("-def report(items):", "+def report(items, *more):", "+check(items)", " print(total(items))")),
        # flush left below context that has its depth
        ("indentation", SHOP,
         hunk("     for item in items:", "-result += item.price", "+result += 2", "         log(item)")),
        # the addition is as deep as context whose indentation differs from the file
        ("indentation", SHOP,
         hunk(" for item in items:", " result += item.price", "+count += 1", "         log(item)")),
    ],
)  # fmt: skip
def test_a_hunk_that_is_too_wrong(reason: str, source: bytes, answer: str) -> None:
    assert reasons(answer, source) == {reason}
