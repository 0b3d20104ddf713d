"""All or nothing: changes that must not happen to a file, and several patches of one file."""

from __future__ import annotations

import pytest

from repoagent.patch.refusal import MOST_SHOWN
from tests.patch.helpers import APP, after, changed, fenced, outcome, reasons, refused, run

LONG = b"".join(b"def f%d(): return %d\n" % (number, number) for number in range(20))
HEADER = "--- a/app.py\n+++ b/app.py\n"
IMPORTS_OS = APP.replace(b"import sys", b"import os")
CONFLICT = "@@\n one\n-two\n+<<<<<<< HEAD\n+zwei\n+=======\n+deux\n+>>>>>>> theirs\n"
NO_NEWLINE = "\\ No newline at end of file\n"
AGAIN = "@@\n name = 'a'\n-version = '0.15.2'\n+version = '0.15.2'\n-sum = 1\n+sum = 2\n"
MARKED = b"<<<<<<< HEAD\na\n=======\n>>>>>>> x\n"


def whole(text: str) -> str:
    return f"app.py\n```python\n{text}```\n"


@pytest.mark.parametrize(
    ("reason", "answer", "source"),
    [
        ("empties-file", fenced("@@ -1 +0,0 @@\n-one\n"), b"one\n"),
        ("empties-file", whole(""), b"one\n"),
        ("empties-file", fenced("@@ -1 +0,0 @@\n-one\n"), b"\xef\xbb\xbfone\n"),
        ("empties-file", whole("def f1(): return 2\n"), LONG),
        ("empties-file", whole("other()\n" * 20), LONG),
        ("empties-file", whole("y = 2\n"), b"x = 1\ny = 2\nz = 3\n"),
        ("elided", whole(LONG.decode().replace("def f5(): return 5", "# ... existing code ...")), LONG),
        ("elided", fenced("@@\n def greet(name):\n+    # ... rest of the code ...\n"), APP),
        ("cut-off", f"app.py\n```python\n{LONG.decode()[:300]}", LONG),
        ("cut-off", f"```diff\n{HEADER}@@ -1,3 +1,3 @@\n-import sys\n+import o", APP),
        ("cut-off", f"{HEADER}@@ -1,3 +1,3 @@\n-import sys\n+import o", APP),
        ("cut-off", f"```diff\n{HEADER}```\n", APP),
        ("cut-off", "```diff\n--- /dev/null\n+++ b/new.py\n", APP),
        ("overlap", fenced("@@\n-import sys\n+import os\n@@\n-import sys\n+import re\n"), APP),
        ("no-change", fenced("@@\n-import sys\n+import sys\n"), APP),
        ("no-change", whole(APP.decode()), APP),
        ("conflict-markers", fenced(CONFLICT), b"one\ntwo\n"),
        # a line that is deleted and added again must exist
        ("deleted-line-missing", fenced(AGAIN), b"name = 'a'\nversion = '0.15.1'\nsum = 1\n"),
        ("malformed", "```diff\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+a\n b\n```", APP),
        # a hunk for line 34 does not create a file
        ("unknown-file", "```diff\n--- a/lib/n.py\n+++ b/lib/n.py\n@@ -34,0 +35 @@\n+a\n```", APP),
    ],
)
def test_a_refusal(reason: str, answer: str, source: bytes) -> None:
    assert reasons(answer, source, may_create=lambda _: True) == {reason}


@pytest.mark.parametrize(
    ("diff", "source", "expected"),
    [
        ("@@\n one\n+Title\n+=======\n", b"one\ntwo\n", b"one\nTitle\n=======\ntwo\n"),
        ("@@\n one\n+b\n", b"one\nb\n", b"one\nb\nb\n"),  # one letter does not prove that it is applied
        # the file has conflict markers already
        ("@@\n <<<<<<< HEAD\n+a\n+=======\n+>>>>>>> x\n", b"<<<<<<< HEAD\n", MARKED),
        ("@@\n a\n-b\n\\ No newline at end of file\n+b\n", b"a\nb\nc\na\nb", b"a\nb\nc\na\nb\n"),
        # a hunk that is not at the end says that the file has no last newline
        (f"@@\n-one\n{NO_NEWLINE}+eins\n{NO_NEWLINE}", b"one\ntwo\n", b"eins\ntwo\n"),
        # sent twice
        ("@@\n-import sys\n+import os\n@@\n-import sys\n+import os\n", APP, IMPORTS_OS),
        ("@@ -1 +1 @@\n-import sys\n+import os\n@@\n-import sys\n+import os\n", APP, IMPORTS_OS),
        ("@@\n a\n-b\n+B\n@@\n-b\n+B\n c\n", b"a\nb\nc\n", b"a\nB\nc\n"),
    ],
)
def test_patches_that_only_look_wrong(diff: str, source: bytes, expected: bytes) -> None:
    assert after(fenced(diff), source) == expected


def test_blank_lines_are_located_by_a_correct_header_alone() -> None:
    headers = ["@@ -2,2 +2,1 @@", "@@ -2,9 +2,1 @@", "@@ -3,2 +3,1 @@", "@@"]
    outcomes = [outcome(f"{HEADER}{header}\n-\n \n", b"a\n\n\nb\n") for header in headers]
    assert outcomes == [b"a\n\nb\n", *["no-context"] * 3]
    assert reasons(f"{HEADER}@@ -0,2 +0,1 @@\n-\n \n", b"\n\nb\n") == {"no-context"}


@pytest.mark.parametrize(
    "line",
    [
        "    #     # the rest of your code goes here...",  # in an example in a comment
        "....",  # begins a block of AsciiDoc
        "    # variant: name omitted, must be a keyword, @command(cls=Other, ...)",
    ],
)
def test_lines_that_only_look_like_omitted_code(line: str) -> None:
    assert line.encode() in after(fenced(f"@@\n def greet(name):\n+{line}\n"), APP)


@pytest.mark.parametrize(
    ("old", "kept", "added", "accepted"),
    [
        (7, 0, 1, True),  # a small file
        (8, 0, 1, False),
        (16, 8, 0, True),
        (16, 7, 0, False),
        (10, 1, 9, True),
        (10, 0, 9, False),
    ],
)
def test_how_much_of_a_file_a_whole_text_must_keep(old: int, kept: int, added: int, accepted: bool) -> None:
    lines = [f"line {number}\n" for number in range(old)]
    text = "".join([*lines[:kept], *(f"new {number}\n" for number in range(added))])
    expected = text.encode() if accepted else "empties-file"
    assert outcome(whole(text), "".join(lines).encode()) == expected


def test_one_bad_hunk_refuses_all_files_and_every_problem_is_reported() -> None:
    diff = "--- a/{0}\n+++ b/{0}\n@@\n-{1}\n+x\n"
    files = [diff.format("a", "one"), "@@\n-gone\n+x\n", diff.format("b", "lost"), diff.format("c", "one")]
    answer = "```diff\n" + "".join(files) + "```\n"
    problems = refused(answer, dict.fromkeys("abc", b"one\n")).problems
    assert [(problem.path, problem.hunk) for problem in problems] == [("a", 2), ("b", 1)]
    assert {problem.reason for problem in problems} == {"deleted-line-missing"}


def test_a_parser_has_the_last_word() -> None:
    paths: list[str] = []

    def worse(path: str, before: bytes, result: bytes) -> str | None:
        paths.append(path)
        return "It does not parse any more (line 1)." if b"import(" in result else None

    assert reasons(fenced("@@\n-import sys\n+import(\n"), parses_worse=worse) == {"parses-worse"}
    assert run(fenced("@@\n-import sys\n+import os\n"), parses_worse=worse).changes
    assert paths == ["app.py", "app.py"]
    opens, closes = fenced("@@\n-import sys\n+import(\n"), fenced("@@\n-import(\n+import os\n")
    assert after(f"{opens}\nthen\n\n{closes}", parses_worse=worse) == IMPORTS_OS  # only together
    first, second = closes.replace("import(", "import sys"), opens.replace("sys", "os")
    assert refused(f"{first}\nthen\n\n{second}", parses_worse=worse)


FIRST = fenced('@@\n-    return "hello " + name\n+    return "hi " + name\n')
SECOND = fenced('@@\n-    return "hello " + name\n+    return "hey " + name\n')
ALPHA = "@@\n import sys\n+import alpha\n"
ALPHA_BETA = ALPHA.replace("+", "+import alpha_beta\n+")
PART = fenced("@@\n-import sys\n+import os\n")
STEP = fenced('@@\n-    return "hi " + name\n+    return f"hi {name}"\n')


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (f"{FIRST}\nWait, better:\n\n{SECOND}", APP.replace(b'"hello "', b'"hey "')),  # a correction
        (f"{FIRST}\nand\n\n{PART}", IMPORTS_OS.replace(b'"hello "', b'"hi "')),  # two parts
        (f"{FIRST}\nthen\n\n{STEP}", APP.replace(b'"hello " + name', b'f"hi {name}"')),  # two steps
    ],
)
def test_several_patches_of_one_file(answer: str, expected: bytes) -> None:
    assert after(answer) == expected


GIT = "```diff\ndiff --git a/app.py b/{0}\n{1}```\n"
RENAME = GIT.format("new.py", "rename from app.py\nrename to new.py\n")


@pytest.mark.parametrize(
    ("first", "last", "path", "mode"),
    [
        (GIT.format("app.py", "old mode 100644\nnew mode 100755\n"), STEP, "app.py", "100755"),
        (STEP, RENAME, "new.py", "100644"),
        (STEP, GIT.format("app.py", "deleted file mode 100644\n"), None, None),
    ],
)
def test_a_step_that_is_more_than_an_edit(first: str, last: str, path: str | None, mode: str | None) -> None:
    (change,) = run(f"{FIRST}\n{first}\nthen\n\n{last}", may_create=lambda _: True).changes
    assert (change.old_path, change.before, change.old_mode) == ("app.py", APP, "100644")
    assert (change.path, change.mode) == (path, mode)
    assert change.after == (APP.replace(b'"hello " + name', b'f"hi {name}"') if path else None)


CREATE = "```diff\n--- /dev/null\n+++ b/lib/new.py\n@@ -0,0 +1,2 @@\n+import sys\n+x = 1\n```\n"
MOVE = GIT.format("lib/app.py", "rename from app.py\nrename to lib/app.py\n")


@pytest.mark.parametrize(
    ("first", "name", "expected"),
    [
        (CREATE, "lib/new.py", b"import os\nx = 1\n"),
        ("`lib/new.py`\n```python\nimport sys\n```\n", "lib/new.py", b"import os\n"),
        (MOVE, "lib/app.py", IMPORTS_OS),
        (f"{FIRST}\n{MOVE}", "lib/app.py", IMPORTS_OS.replace(b'"hello "', b'"hi "')),
        (MOVE.replace("rename", "copy"), "lib/app.py", IMPORTS_OS),
    ],
)
def test_a_new_file_is_edited_under_its_name(first: str, name: str, expected: bytes) -> None:
    edit = PART.replace("app.py", name)
    applied = run(f"{first}\nand\n\n{edit}", may_create=lambda _: True)
    (change,) = applied.changes
    assert (change.path, change.after) == (name, expected)
    assert change.before == (APP if "rename" in first else None)
    assert applied.placements[-1].hunk == 1
    error = refused(f"{first}\nand\n\n{edit.replace('-import', '-no ')}", may_create=lambda _: True)
    assert [(problem.path, problem.reason) for problem in error.problems] == [(name, "deleted-line-missing")]


def test_a_known_name_is_not_that_of_a_new_file() -> None:
    new = CREATE.replace("b/lib/new.py", "b/b/app.py")
    files = changed(f"{new}\nand\n\n{PART}", {"app.py": APP}, may_create=lambda _: True)
    assert files == {"b/app.py": b"import sys\nx = 1\n", "app.py": IMPORTS_OS}
    # prefixes of a tool
    edit = PART.replace("a/app.py", "old/lib/new.py").replace("b/app.py", "new/lib/new.py")
    known = {"new/lib/new.py": b"import sys\n"}
    files = changed(f"{CREATE}\nand\n\n{edit}", known, may_create=lambda _: True)
    assert files == {"lib/new.py": b"import os\nx = 1\n"}


@pytest.mark.parametrize(
    ("reason", "answer"),
    [
        # two texts of a new file
        ("overlap", "`new.py`\n```\nx = 1\n```\n\nand\n\n`new.py`\n```\nx = 2\n```\n"),
        # an edit of a file that another part moves or copies
        ("overlap", f"{RENAME}\n{FIRST}"),
        ("overlap", f"{FIRST}\n{RENAME}\n{STEP}"),
        ("overlap", FIRST + RENAME.replace("rename", "copy")),
        # a last part is never applied alone
        ("deleted-line-missing", f"{PART.replace('import sys', 'import nothing')}\nand\n\n{FIRST}"),
        # two readings have different results
        ("ambiguous", f"{fenced(ALPHA)}\nno:\n\n{fenced(ALPHA_BETA)}"),
    ],
)
def test_parts_that_cannot_be_united_are_refused(reason: str, answer: str) -> None:
    assert reasons(answer, may_create=lambda _: True) == {reason}


def test_a_refusal_has_the_information_for_another_answer() -> None:
    error = refused(fenced('@@\n def greet(name):\n-    return "helo " + name\n+    return 1\n'))
    for text in ("app.py, hunk 1", '-    return "helo " + name', '     6      return "hello " + name'):
        assert text in str(error)
    assert error.exit_code == 3 and error.reasons == {"deleted-line-missing"}
    alone = refused(fenced('@@\n-    return "helo " + name\n+    return 1\n'))
    assert '     6      return "hello " + name' in str(alone)  # the most similar line
    source = LONG.replace(b"def f1()", b"def no_such_function()")
    most = refused(fenced("@@\n def f9(): return 9\n-def no_such_functions(): return 1\n+x\n"), source)
    assert "    10  def f9(): return 9\n" in str(most)  # where most lines are


def test_a_refusal_shows_the_first_problems_and_the_number_of_the_others() -> None:
    files = "".join(f"--- a/f{number}\n+++ b/f{number}\n@@\n-a\n+b\n" for number in range(MOST_SHOWN + 3))
    assert str(refused(f"```diff\n{files}```\n")).endswith("\n\n… and 3 more like these.")
