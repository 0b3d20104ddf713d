"""Limits, and rules that decide only in rare cases."""

from __future__ import annotations

import random

import pytest

from repoagent.git.files import FileChange
from repoagent.patch import apply_answer as entry
from repoagent.patch.render import canonical_diff
from tests.conftest import GitRepo
from tests.patch.helpers import APP, after, fenced, reasons


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


def test_prose_between_two_diffs_of_one_fence_withdraws_the_first() -> None:
    diff = "--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-import sys\n+import {}\n"
    answer = f"```diff\n{diff.format('os')}Scratch that, use this instead:\n\n{diff.format('re')}```\n"
    assert after(answer) == APP.replace(b"import sys", b"import re")


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (b"one\r\ntwo\nthree\n", b"one\r\nnew\r\ntwo\nthree\n"),
        (b"one\ntwo\r\nthree\r\n", b"one\nnew\ntwo\r\nthree\r\n"),
    ],
)
def test_an_insertion_ends_like_the_line_above(before: bytes, expected: bytes) -> None:
    assert after(fenced("@@\n one\n+new\n two\n"), before) == expected


def test_an_insertion_at_the_top_ends_like_the_line_below() -> None:
    assert after(fenced("@@ -1 +1,2 @@\n+new\n one\n"), b"one\r\ntwo\n") == b"new\r\none\r\ntwo\n"


@pytest.mark.parametrize(
    ("before", "result"),
    [
        (b"a\nx\nx\nb\n", b"a\nx\nx\nx\nb\n"),
        (b"a\nx\nx\nx\nb\n", b"a\nx\nx\nb\n"),
        (b"f\n\ng\n\nh\n", b"f\n\ng\n\ng\n\nh\n"),
        (b"{\n1\n}\n{\n2\n}\n", b"{\n1\n}\n{\n3\n}\n{\n2\n}\n"),
        (b"".join(b"%d\n" % n for n in range(20)), b"".join(b"%d\n" % n for n in range(20) if n != 8)),
        (b"a\n" * 9 + b"b\n", b"a\n" * 12 + b"b\n"),
    ],
)
def test_a_change_with_several_positions_is_placed_as_by_git(
    repo: GitRepo, before: bytes, result: bytes
) -> None:
    repo.commit("before", **{"f.txt": before})
    repo.write("f.txt", result)
    diff = repo.git("-c", "diff.indentHeuristic=false", "diff", "f.txt")
    change = FileChange("f.txt", "f.txt", before, result, "100644", "100644")
    shown = canonical_diff([change])
    assert [line for line in shown.split("\n") if line[:1] in "+-@"] == [
        line for line in diff.split("\n") if line[:1] in "+-@"
    ]
    repo.write("f.txt", before)
    repo.git("apply", "-", stdin=shown.encode())
    assert repo.read("f.txt") == result


def test_git_applies_a_binary_diff_of_many_rows(repo: GitRepo) -> None:
    before, result = (b"\0" + random.Random(seed).randbytes(500) for seed in range(2))
    repo.write("f.bin", before)
    diff = canonical_diff([FileChange("f.bin", "f.bin", before, result, "100644", "100644")])
    repo.git("apply", "-", stdin=diff.encode())
    assert repo.read("f.bin") == result


@pytest.mark.parametrize(
    ("source", "hunk", "expected"),
    [
        (  # context is one space short; `*` begins lines one column deeper, so the added line does too
            b"/*\n * a\n * b\n */\nx\n",
            "@@\n * a\n+* c\n * b\n",
            b"/*\n * a\n * c\n * b\n */\nx\n",
        ),
        (  # a tab of the file instead of spaces
            b"f {\n\tone\n\ttwo\n}\n",
            "@@\n f {\n     one\n+    new\n     two\n",
            b"f {\n\tone\n\tnew\n\ttwo\n}\n",
        ),
        (  # two spaces of the file instead of four, at two depths
            b"f {\n  one {\n    two\n  }\n}\n",
            "@@\n     one {\n         two\n+        new\n     }\n",
            b"f {\n  one {\n    two\n    new\n  }\n}\n",
        ),
    ],
)
def test_the_indentation_of_added_lines(source: bytes, hunk: str, expected: bytes) -> None:
    assert after(fenced(hunk), source) == expected
