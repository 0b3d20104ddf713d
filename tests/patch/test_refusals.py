"""All or nothing: what may not happen to a file, and several patches of one file."""

from __future__ import annotations

import pytest

from repoagent.patch.apply_file import apply_answer
from repoagent.patch.errors import PatchRefused
from repoagent.patch.model import SourceText
from tests.patch.helpers import APP, after, fenced, reasons, refused, run

LONG = b"".join(b"def f%d(): return %d\n" % (number, number) for number in range(20))


def test_one_bad_hunk_refuses_all_files_and_every_problem_is_told() -> None:
    diff = "--- a/{0}\n+++ b/{0}\n@@\n-{1}\n+x\n"
    files = [diff.format("a", "one"), "@@\n-gone\n+x\n", diff.format("b", "lost"), diff.format("c", "one")]
    answer = "```diff\n" + "".join(files) + "```\n"
    with pytest.raises(PatchRefused) as caught:
        apply_answer(answer, {name: SourceText(b"one\n") for name in "abc"})
    assert [(p.path, p.hunk, p.reason) for p in caught.value.problems] == [
        ("a", 2, "deleted-line-missing"),
        ("b", 1, "deleted-line-missing"),
    ]


def test_emptying_a_file_needs_a_deletion() -> None:
    assert reasons(fenced("@@ -1 +0,0 @@\n-one\n"), b"one\n") == {"empties-file"}
    assert reasons("app.py\n```\n```\n", b"one\n") == {"empties-file"}
    assert reasons(fenced("@@ -1 +0,0 @@\n-one\n"), b"\xef\xbb\xbfone\n") == {"empties-file"}


def test_a_whole_file_that_lost_most_of_it() -> None:
    assert reasons("app.py\n```python\ndef f1(): return 2\n```\n", LONG) == {"empties-file"}
    assert reasons("app.py\n```python\n" + "other()\n" * 20 + "```\n", LONG) == {"empties-file"}


def test_a_small_part_of_a_small_file_is_not_the_whole_of_it() -> None:
    assert reasons("app.py\n```\ny = 2\n```\n", b"x = 1\ny = 2\nz = 3\n") == {"empties-file"}


def test_a_whole_file_with_code_left_out() -> None:
    text = LONG.decode().replace("def f5(): return 5\n", "# ... existing code ...\n")
    assert reasons(f"app.py\n```python\n{text}```\n", LONG) == {"elided"}
    assert reasons(fenced("@@\n def greet(name):\n+    # ... rest of the code ...\n"), APP) == {"elided"}


@pytest.mark.parametrize(
    "line",
    [
        "    #     # the rest of your code goes here...",  # in an example that a comment gives
        "....",  # begins a block of AsciiDoc
        "    # variant: name omitted, must be a keyword, @command(cls=Other, ...)",
    ],
)
def test_what_only_looks_like_code_left_out(line: str) -> None:
    assert line.encode() in after(fenced(f"@@\n def greet(name):\n+{line}\n"), APP)


def test_a_cut_answer() -> None:
    assert reasons(f"app.py\n```python\n{LONG.decode()[:300]}", LONG) == {"cut-off"}
    assert reasons("```diff\n--- a/app.py\n+++ b/app.py\n@@ -1,3 +1,3 @@\n-import sys\n+import o") == {
        "cut-off"
    }
    assert reasons("--- a/app.py\n+++ b/app.py\n@@ -1,3 +1,3 @@\n-import sys\n+import o") == {"cut-off"}
    complete = "```diff\n--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-import sys\n+import os\n"
    assert after(complete) == APP.replace(b"import sys", b"import os")


def test_hunks_that_change_the_same_lines() -> None:
    assert reasons(fenced("@@\n-import sys\n+import os\n@@\n-import sys\n+import re\n")) == {"overlap"}


def test_a_hunk_sent_twice_counts_once() -> None:
    assert after(fenced("@@\n-import sys\n+import os\n@@\n-import sys\n+import os\n")) == APP.replace(
        b"import sys", b"import os"
    )


def test_no_change() -> None:
    assert reasons(fenced("@@\n-import sys\n+import sys\n")) == {"no-change"}
    assert reasons(f"app.py\n```python\n{APP.decode()}```\n") == {"no-change"}


def test_a_parser_has_the_last_word() -> None:
    seen: list[tuple[str, bytes, bytes]] = []

    def worse(path: str, before: bytes, result: bytes) -> str | None:
        seen.append((path, before, result))
        return "It does not parse any more (line 1)." if b"import(" in result else None

    assert reasons(fenced("@@\n-import sys\n+import(\n"), parses_worse=worse) == {"parses-worse"}
    assert run(fenced("@@\n-import sys\n+import os\n"), parses_worse=worse).changes
    assert [path for path, _, _ in seen] == ["app.py", "app.py"]


FIRST = fenced('@@\n-    return "hello " + name\n+    return "hi " + name\n')
SECOND = fenced('@@\n-    return "hello " + name\n+    return "hey " + name\n')


def test_a_second_thought_replaces_the_first() -> None:
    assert after(f"{FIRST}\nWait, better:\n\n{SECOND}") == APP.replace(b'"hello "', b'"hey "')


def test_two_parts_are_both_taken() -> None:
    part = fenced("@@\n-import sys\n+import os\n")
    assert after(f"{FIRST}\nand\n\n{part}") == APP.replace(b'"hello "', b'"hi "').replace(
        b"import sys", b"import os"
    )


def test_steps_are_taken_one_after_another() -> None:
    step = fenced('@@\n-    return "hi " + name\n+    return f"hi {name}"\n')
    assert after(f"{FIRST}\nthen\n\n{step}") == APP.replace(b'"hello " + name', b'f"hi {name}"')


def test_a_last_part_alone_is_never_half_of_the_answer() -> None:
    broken = fenced("@@\n-import nothing\n+import os\n")
    assert reasons(f"{broken}\nand\n\n{FIRST}") == {"deleted-line-missing"}


def test_two_readings_with_different_results_are_refused() -> None:
    one = fenced("@@\n import sys\n+import alpha\n")
    two = fenced("@@\n import sys\n+import alpha_beta\n+import alpha\n")
    assert reasons(f"{one}\nno:\n\n{two}") == {"ambiguous"}


def test_error_texts_can_be_acted_on() -> None:
    error = refused(fenced('@@\n def greet(name):\n-    return "helo " + name\n+    return 1\n'))
    text = str(error)
    assert "app.py, hunk 1" in text
    assert '-    return "helo " + name' in text
    assert '     6      return "hello " + name' in text
    assert error.exit_code == 3


def test_new_file_lines_begin_with_plus() -> None:
    answer = "```diff\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+a\n b\n```"
    with pytest.raises(PatchRefused) as caught:
        apply_answer(answer, {}, may_create=lambda _: True)
    assert caught.value.reasons == {"malformed"}


def test_a_hunk_far_down_in_a_file_makes_no_new_file() -> None:
    answer = "```diff\n--- a/elsewhere/n.py\n+++ b/elsewhere/n.py\n@@ -34,0 +35 @@\n+a\n```"
    with pytest.raises(PatchRefused) as caught:
        apply_answer(answer, {"app.py": SourceText(APP)}, may_create=lambda _: True)
    assert caught.value.reasons == {"unknown-file"}


def test_a_copy_leaves_its_source() -> None:
    header = "diff --git a/app.py b/c.py\ncopy from app.py\ncopy to c.py\n"
    answer = f"```diff\n{header}@@\n-import sys\n+import os\n```"
    (change,) = run(answer, may_create=lambda path: path == "c.py").changes
    assert (change.old_path, change.path, change.after) == (
        None,
        "c.py",
        APP.replace(b"import sys", b"import os"),
    )


def test_a_file_without_a_change_of_it() -> None:
    assert reasons("```diff\n--- a/app.py\n+++ b/app.py\n```\n") == {"cut-off"}


def test_a_merge_conflict_is_no_answer() -> None:
    hunk = "@@\n one\n-two\n+<<<<<<< HEAD\n+zwei\n+=======\n+deux\n+>>>>>>> theirs\n"
    assert reasons(fenced(hunk), b"one\ntwo\n") == {"conflict-markers"}
    assert after(fenced("@@\n one\n+Title\n+=======\n"), b"one\ntwo\n") == b"one\nTitle\n=======\ntwo\n"
    source = b"<<<<<<< HEAD\n"
    assert after(fenced("@@\n <<<<<<< HEAD\n+a\n+=======\n+b\n+>>>>>>> x\n"), source).startswith(source)


def test_what_was_written_as_deleted_and_added_again_must_be_there() -> None:
    hunk = "@@\n name = 'a'\n-version = '0.15.2'\n+version = '0.15.2'\n-sum = 1\n+sum = 2\n"
    assert reasons(fenced(hunk), b"name = 'a'\nversion = '0.15.1'\nsum = 1\n") == {"deleted-line-missing"}


def test_a_newline_at_the_end_alone_goes_to_the_end() -> None:
    hunk = "@@\n a\n-b\n\\ No newline at end of file\n+b\n"
    assert after(fenced(hunk), b"a\nb\nc\na\nb") == b"a\nb\nc\na\nb\n"
