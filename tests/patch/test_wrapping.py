"""Diffs that are quoted, numbered, indented, in a list or coloured."""

from __future__ import annotations

from itertools import product

import pytest

from repoagent.patch.parse.blocks import patch_spans
from repoagent.patch.parse.markers import is_signature, without_numbers
from repoagent.patch.refusal import NoPatch, PatchRefused
from tests.patch.helpers import APP, after, each, reasons, run

CHANGED = APP.replace(b'"hello "', b'"hi "').replace(b"import sys\n", b"import os\nimport sys\n")
HUNKS = '''\
@@ -1,3 +1,4 @@
+import os
 import sys
_
_
@@ -4,4 +5,4 @@ import sys
 def greet(name):
     """Say hello."""
-    return "hello " + name
+    return "hi " + name
_
'''.replace("_\n", " \n")
DIFF = f"--- a/app.py\n+++ b/app.py\n{HUNKS}"


def numbered(style: str, text: str = DIFF) -> str:
    return "".join(style.format(n, line) + "\n" for n, line in enumerate(text.split("\n")[:-1], 1))


def hunks_numbered(style: str) -> str:
    """The diff with line numbers of the file before the lines of hunks, but not before headers.

    `first` is the old number if there is one, `last` the new one.
    """
    lines, old, new = [], 0, 0
    for line in DIFF.splitlines():
        if line.startswith("@@"):
            old, new = (4, 5) if "-4" in line else (1, 1)
            lines.append(line)
        elif line.startswith(("---", "+++")):
            lines.append(line)
        else:
            left, right = old if line[0] != "+" else "", new if line[0] != "-" else ""
            lines.append(
                style.format(old=left, new=right, first=left or right, last=right or left, line=line)
            )
            old, new = old + (line[0] != "+"), new + (line[0] != "-")
    return "\n".join(lines) + "\n"


def fence(text: str, info: str = "diff") -> str:
    return f"```{info}\n{text}```\n"


def stripped(text: str) -> str:
    """The text without trailing white space, as some mail programs send it."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


WRAPPED = {
    "quoted": each("> ", DIFF),
    "quoted, tight": each(">", DIFF),
    "quoted twice": each("> > ", DIFF),
    "quoted twice, tight": each(">>", DIFF),
    "quoted, inside the fence": fence(each("> ", DIFF)),
    "quoted, with its fence": each("> ", fence(DIFF)),
    "quoted, with its fence and prose": each("> ", f"Here it is:\n\n{fence(DIFF)}\nThat is all.\n"),
    "quoted twice, with its fence": each(">> ", fence(DIFF)),
    "quoted, trailing space gone": stripped(each("> ", DIFF)),
    "numbered, bar": fence(numbered("{:>3} | {}")),
    "numbered, bar, left": fence(numbered("{} | {}")),
    "numbered, bar, no space": fence(numbered("{}|{}")),
    "numbered, colon": fence(numbered("{}: {}")),
    "numbered, spaces": fence(numbered("{:>4}  {}")),
    "numbered, tab": fence(numbered("{}\t{}")),
    "numbered, cat -n": fence(numbered("{:>6}\t{}")),
    "numbered, trailing space gone": fence(stripped(numbered("{:>3} | {}"))),
    "numbered, bare": numbered("{:>3} | {}"),
    "numbered, tab, bare": numbered("{:>6}\t{}"),
    "numbered, no language": fence(numbered("{:>3} | {}"), ""),
    "file's numbers, bar": fence(hunks_numbered("{first} | {line}")),
    "file's numbers, colon": fence(hunks_numbered("{last}: {line}")),
    "file's numbers, tab": fence(hunks_numbered("{last}\t{line}")),
    "file's numbers, spaces": fence(hunks_numbered("{last:>4} {line}")),
    "two columns": fence(hunks_numbered("{old:>4} {new:>4} {line}")),
    "two columns, wide": fence(hunks_numbered("{old:>4}  {new:>4}  {line}")),
    "two columns, bar": fence(hunks_numbered("{old:>4} {new:>4} | {line}")),
    "two columns, tabs": fence(hunks_numbered("{old}\t{new}\t{line}")),
    "file's numbers, bare": hunks_numbered("{first} | {line}"),
    "indented by 4": each("    ", DIFF),
    "indented by a tab": each("\t", DIFF),
    "indented by 2 in a fence": fence(each("  ", DIFF)),
    "indented, trailing space gone": stripped(each("    ", DIFF)),
    "list, fenced": "1. Do this:\n\n" + each("   ", fence(DIFF)) + "2. Then that.\n",
    "list, fenced by 2": "- Do this:\n" + each("  ", fence(DIFF)) + "- Then that.\n",
    "list, fenced by 4": "10. Do this:\n" + each("    ", fence(DIFF)) + "11. Then that.\n",
    "list, fence after the mark": "- ```diff\n" + each("  ", DIFF) + "  ```\n- And so on\n",
    "list, fence after the number": "1. ```diff\n" + each("   ", DIFF) + "   ```\n2. And so on\n",
    "list, bare": "1. Do this:\n\n" + each("   ", DIFF) + "2. Then that.\n",
    "list, fence closes at 0": "1. Do this:\n   ```diff\n" + each("   ", DIFF) + "```\nThat is all.\n",
    "list, fence closes too deep": "1. Do this:\n  ```diff\n" + each("  ", DIFF) + "    ```\nThat is all.\n",
    "list, fence's lines at 0": "1. Do this:\n   ```diff\n" + DIFF + "   ```\nThat is all.\n",
    "fence closes at 3": "```diff\n" + DIFF + "   ```\nThat is all.\n",
    "list in a quotation": each("> ", "1. Do this:\n\n" + each("   ", fence(DIFF))),
    "quotation in a list": "1. Do this:\n\n" + each("   > ", DIFF),
    "numbered in a quotation": each("> ", numbered("{:>3} | {}")),
    "numbered in a quotation, fenced": each("> ", fence(numbered("{:>3} | {}"))),
    "numbered, indented": each("    ", numbered("{:>3} | {}")),
    "byte-order mark": "\ufeff" + DIFF,
    "byte-order mark in a list": "- So:\n\n  \ufeff```diff\n" + each("  ", DIFF) + "  ```\n",
    "zero-width space first": "\u200b" + DIFF,
}


@pytest.mark.parametrize("name", WRAPPED)
def test_each_wrapping(name: str) -> None:
    assert after(WRAPPED[name]) == after(WRAPPED[name].replace("\n", "\r\n")) == CHANGED
    before = "Here is the change.\n\n"
    answer = f"{before}{WRAPPED[name]}\nThat is all of it.\n"
    assert after(answer) == CHANGED
    (span,) = patch_spans(answer)
    assert span.start >= len(before)
    assert "That is all of it." not in answer[span.start : span.end]


def bare_context(text: str) -> str:
    return "".join(f"{line[1:] if line[0] == ' ' else line}\n" for line in text.splitlines())


@pytest.mark.parametrize(("wrap", "fenced"), list(product(["", "> ", "    "], [True, False])))
def test_context_that_lost_its_first_column(wrap: str, fenced: bool) -> None:
    text = bare_context(DIFF)
    assert after(each(wrap, fence(text) if fenced else text)) == CHANGED


def test_a_list_right_after_context_that_lost_its_first_column() -> None:
    change = '-    return "hello " + name\n+    return "hi " + name\n'
    hunk = f'@@ -1,6 +1,6 @@\n-import sys\n+import os\n\n\ndef greet(name):\n    """Say hello."""\n{change}'
    expected = APP.replace(b"import sys", b"import os").replace(b'"hello "', b'"hi "')
    assert after(f"--- a/app.py\n+++ b/app.py\n{hunk}- One more thing\n- Another one\n") == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["-- ", "2.39.5"], True),
        (["--", "2.39.5.windows.1", ""], True),
        (["-- ", "2.39.5", "```"], True),
        (["-- ", "2.39.5", "and more"], False),
        (["-- ", "two"], False),
        (["-- ", "2." + "3" * 58], True),
        (["-- ", "2." + "3" * 59], False),
        (["-- "], False),
    ],
)
def test_the_signature_of_a_mail(lines: list[str], expected: bool) -> None:
    assert is_signature(lines, 0) is expected


NOT_PATCHES = [
    "> I quote what you said:\n> - one thing\n> - another\n> + and this\n",
    "> @@ is an operator\n> so be it\n",
    "The log says:\n\n  12 | starting\n  13 | - done\n  14 | + more\n",
    "```\n12 | starting\n13 | - done\n14 | + more\n```\n",
    "```\n1: foo\n2: bar\n```\n",
    "- one\n- two\n+ three\n",
    "    - one\n    + two\n",
    "--- \nname\n--- \n+++ \n",
    "1. First\n2. Second --- and third\n",
    "> > > nested\n> > quotation\n> ends\n",
    "A rule:\n\n---\n\nand +++ that\n",
    "Title\n=====\n\nText\n-----\n",
    "> Wrote:\n> ```python\n> x = 1\n> ```\n",
    "A rule:\n--- and more",
    *("", "No change is needed.", "Run this:\n```sh\nmake\n```\n"),
    # similar to a header
    *(
        "diff --git\n",
        "Index: of terms\n",
        "--- a\n\n+++ b\n",
        "--- \n+++ \n",
        "rename from a\nrename to b\n",
    ),
]


@pytest.mark.parametrize("answer", NOT_PATCHES)
def test_text_that_is_not_a_patch(answer: str) -> None:
    assert not patch_spans(answer)
    with pytest.raises(NoPatch):
        run(answer)


HEADER = "--- a/app.py\n+++ b/app.py\n"


@pytest.mark.parametrize(
    ("hunks", "before", "expected"),
    [
        # context that is a list does not become a change
        ("@@ -1,3 +1,3 @@\n   - one\n   - two\n@@ -4 +4 @@\n-end: 1\n+end: 2\n",
         b"list:\n  - one\n  - two\nend: 1\n", b"list:\n  - one\n  - two\nend: 2\n"),
        ("@@ -1,2 +1,2 @@\n 1 - one\n 2 - two\n@@ -3 +3 @@\n-end\n+the end\n",
         b"1 - one\n2 - two\nend\n", b"1 - one\n2 - two\nthe end\n"),
        # numbers of the file itself stay
        ("@@ -1,3 +1,3 @@\n 1: one\n-2: two\n+2: zwei\n 3: three\n",
         b"1: one\n2: two\n3: three\n", b"1: one\n2: zwei\n3: three\n"),
        # numbered lines beyond the counts belong to the hunk
        ("@@ -1,2 +1,2 @@\n1 |  one\n2 | -two\n3 | -three\n2 | +zwei\n3 | +drei\n",
         b"one\ntwo\nthree\n", b"one\nzwei\ndrei\n"),
        # only additions, with wrong counts, and numbers that begin at the header's line, with only a space after them
        ("@@ -1,9 +1,9 @@\n  1 +import os\n  1  import sys\n  2  \n",
         APP, APP.replace(b"import sys\n", b"import os\nimport sys\n")),
    ],
)  # fmt: skip
def test_lines_that_begin_with_a_number_or_a_sign(hunks: str, before: bytes, expected: bytes) -> None:
    assert after(f"{HEADER}{hunks}", before) == expected
    assert after(fence(f"{HEADER}{hunks}"), before) == expected


@pytest.mark.parametrize(
    "rest", ["> @@ -1 +1 @@\n> -one\n> +eins\n> [...]\n@@ -3 +3 @@\n> -two\n> +zwei\n",
             "> @@\n> -one\n> +eins\n> ...\n@@\n>  two\n> +zwei\n"]
)  # fmt: skip
def test_a_hunk_in_prose_is_not_ignored(rest: str) -> None:
    assert reasons(f"> --- a/app.py\n> +++ b/app.py\n{rest}", b"one\n\ntwo\n") == {"malformed"}


def test_changed_lines_in_prose_are_not_ignored() -> None:
    header = "diff --git a/app.py b/b.py\nsimilarity index 95%\nrename from app.py\nrename to b.py\n"
    lines = " \n## License\n \n-Copyright 2018\n+Copyright 2022\n"
    answer = f"{header}--- a/app.py\n+++ b/b.py\n{lines}\nDone.\n"
    with pytest.raises(PatchRefused):
        run(answer, b"\n## License\n\nCopyright 2018\n", may_create=lambda path: True)


@pytest.mark.parametrize(
    ("lines", "counts", "expected"),
    [
        (["1|-a", "2|+b", "3|c"], None, ["-a", "+b", "c"]),
        (["  1 |  a", "  2 | -b", "", "  3 | +c"], None, [" a", "-b", "", "+c"]),
        (["3\t4\t a", "4\t\t-b", "\t5\t+c"], None, [" a", "-b", "+c"]),
        (["  3   4 |  a", "  4     | -b", "      5 | +c"], None, [" a", "-b", "+c"]),
        (["1 -a", "2 +b", "3 c"], None, None),  # after only a space, each line needs a sign
        (["2|-a", "1|-b", "3|+c"], None, None),  # the numbers of each kind increase
        (["1|-a", "1|+b"], None, ["-a", "+b"]),
        (["5  a", "6 -b"], None, None),  # one kind of sign proves nothing, but the counts of the header do
        (["5  a", "6 -b"], (2, 1), [" a", "-b"]),
        (["1 -a", "x"], None, None),
    ],
)
def test_numbers_are_removed_if_all_lines_have_them(
    lines: list[str], counts: tuple[int, int] | None, expected: list[str] | None
) -> None:
    assert without_numbers(lines, counts) == expected
