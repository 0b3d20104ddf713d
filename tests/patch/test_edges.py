"""Limits, and rules that decide only in rare cases."""

from __future__ import annotations

import pytest

from repoagent.git.files import Content, FileChange
from repoagent.patch import apply_answer as entry
from repoagent.patch.render import canonical_diff
from tests.patch.helpers import APP, after, fenced, reasons, refused, run


def test_the_largest_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = fenced("@@\n-import sys\n+import os\n")
    monkeypatch.setattr(entry, "LARGEST", len(answer))
    assert after(answer) == APP.replace(b"import sys", b"import os")
    assert reasons(f"{answer}\n") == {"too-large"}


@pytest.mark.parametrize(("count", "accepted"), [(40, True), (41, False)])
def test_the_most_dividers_in_a_block(count: int, accepted: bool) -> None:
    text = "=======\n" * (count - 1)
    answer = f"app.py\n<<<<<<< SEARCH\nx\n=======\n{text}y\n>>>>>>> REPLACE\n"
    source = b"x\n" + b"=======\n" * (count // 2)
    if accepted:
        assert after(answer, source).endswith(b"y\n")
    else:
        assert reasons(answer, source) == {"malformed"}


@pytest.mark.parametrize("numbers", [":start_line:1\n", ":start_line:1\n:end_line:1\n", ":end_line:1\n"])
@pytest.mark.parametrize("rule", ["", "-------\n"])
def test_line_numbers_in_a_block_are_not_text(numbers: str, rule: str) -> None:
    block = f"<<<<<<< SEARCH\n{numbers}{rule}import sys\n=======\nimport os\n>>>>>>> REPLACE\n"
    assert after(f"app.py\n{block}") == APP.replace(b"import sys", b"import os")


@pytest.mark.parametrize(
    ("hunk", "before", "expected"),
    [
        ("@@\n one\n+new\n two\n", b"one\r\ntwo\nthree\n", b"one\r\nnew\r\ntwo\nthree\n"),
        ("@@\n one\n+new\n two\n", b"one\ntwo\r\nthree\r\n", b"one\nnew\ntwo\r\nthree\r\n"),
        ("@@ -1 +1,2 @@\n+new\n one\n", b"one\r\ntwo\n", b"new\r\none\r\ntwo\n"),  # nothing is above
        ("@@\n-one\n-two\n+1\n+2\n+3\n", b"one\r\ntwo\nx\r\n", b"1\r\n2\n3\nx\r\n"),
        ("@@\n x\n-two\n+2\n+3\n", b"x\r\ntwo", b"x\r\n2\r\n3"),
    ],
)
def test_the_endings_of_added_lines(hunk: str, before: bytes, expected: bytes) -> None:
    assert after(fenced(hunk), before) == expected


@pytest.mark.parametrize(
    ("source", "hunk", "expected"),
    [
        # context is one space short; `*` begins lines one column deeper, so the added line does too
        (b"/*\n * a\n * b\n */\nx\n", "@@\n * a\n+* c\n * b\n", b"/*\n * a\n * c\n * b\n */\nx\n"),
        # a tab of the file instead of spaces
        (b"f {\n\tone\n\ttwo\n}\n", "@@\n f {\n     one\n+    new\n     two\n",
         b"f {\n\tone\n\tnew\n\ttwo\n}\n"),
        # two spaces of the file instead of four, at two depths
        (b"f {\n  one {\n    two\n  }\n}\n", "@@\n     one {\n         two\n+        new\n     }\n",
         b"f {\n  one {\n    two\n    new\n  }\n}\n"),
    ],
)  # fmt: skip
def test_the_indentation_of_added_lines(source: bytes, hunk: str, expected: bytes) -> None:
    assert after(fenced(hunk), source) == expected


RENAME = "```diff\ndiff --git a/app.py b/new.py\nsimilarity index 100%\nrename from app.py\nrename to new.py\n```\n"


@pytest.mark.parametrize(
    ("header", "reason"), [(RENAME, "unknown-file"), (RENAME.replace("new.py", "app.py/x"), "bad-path")]
)
def test_a_file_is_renamed_only_to_an_allowed_name(header: str, reason: str) -> None:
    assert reasons(header) == {reason}
    assert run(RENAME, may_create=lambda path: path == "new.py").changes[0].path == "new.py"


def test_a_rename_without_changes_is_similar_by_100_percent() -> None:
    diff = run(RENAME, may_create=lambda path: True).diff
    assert "similarity index 100%\nrename from app.py\nrename to new.py\n" in diff
    changed = canonical_diff([FileChange("a", "b", Content(b"x\n" * 9), Content(b"x\n" * 9 + b"y\n"))])
    assert "similarity index 90%" in changed
    assert "similarity index 100%" in canonical_diff([FileChange("a", "b", Content(b""), Content(b""))])


def test_of_many_files_those_with_similar_names_are_listed() -> None:
    sources = dict.fromkeys([f"src/{name}.py" for name in [*"abcdefghijklm", "reader", "readers"]], APP)
    error = str(refused(fenced("@@\n-nothing\n+x\n", path="lib/readres.py"), sources))
    assert "src/reader" in error and error.count(".py") <= 7


@pytest.mark.parametrize("at_end", [True, False])
def test_prose_is_read_at_both_ends(at_end: bool) -> None:
    words, withdrawal = "All tests of this part pass. " * 600, "Scratch that, use this instead:"
    prose = f"{words}\n\n{withdrawal}" if at_end else f"{withdrawal}\n\n{words}"
    first, second = fenced("@@\n-import sys\n+import os\n"), fenced("@@\n-import sys\n+import re\n")
    assert after(f"{first}\n{prose}\n\n{second}") == APP.replace(b"import sys", b"import re")


def test_a_header_that_is_too_long_names_no_file() -> None:
    name = "x" * 5_000
    answer = f"```diff\ndiff --git a/{name} b/{name}\n@@ -1 +1 @@\n-import sys\n+import os\n```\n"
    assert after(answer) == APP.replace(b"import sys", b"import os")


@pytest.mark.parametrize(
    ("lines", "source", "expected"),
    [
        ("@@ -2,2 +2,1 @@\n-\n \n", b"a\n\n\nb\n", b"a\n\nb\n"),  # only a correct header locates blank lines
        ("@@ -2,9 +2,1 @@\n-\n \n", b"a\n\n\nb\n", None),
        ("@@ -3,2 +3,1 @@\n-\n \n", b"a\n\n\nb\n", None),
        ("@@\n-\n \n", b"a\n\n\nb\n", None),
    ],
)
def test_hunks_of_blank_lines(lines: str, source: bytes, expected: bytes | None) -> None:
    answer = f"```diff\n--- a/app.py\n+++ b/app.py\n{lines}```\n"
    if expected is None:
        assert reasons(answer, source) == {"no-context"}
    else:
        assert after(answer, source) == expected


def test_a_change_that_two_hunks_show_counts_once() -> None:
    assert after(fenced("@@\n a\n-b\n+B\n@@\n-b\n+B\n c\n"), b"a\nb\nc\n") == b"a\nB\nc\n"


@pytest.mark.parametrize("kept", [0, 1])
def test_a_whole_file_keeps_a_tenth_of_the_lines(kept: int) -> None:
    old, new = [f"old {number}\n" for number in range(10)], [f"new {number}\n" for number in range(9)]
    text = "".join([*old[:kept], *new])
    if kept:
        assert after(f"app.py\n```\n{text}```\n", "".join(old).encode()) == text.encode()
    else:
        assert reasons(f"app.py\n```\n{text}```\n", "".join(old).encode()) == {"empties-file"}
