"""The headers of files and of hunks, as tools and models write them."""

from __future__ import annotations

import pytest

from tests.patch.helpers import APP, after, changed, reasons, run

CHANGED = APP.replace(b'"hello "', b'"hi "')
HUNK = """\
@@ -4,3 +4,3 @@
 def greet(name):
     \"\"\"Say hello.\"\"\"
-    return "hello " + name
+    return "hi " + name
"""
BODY = HUNK.split("\n", 1)[1]


@pytest.mark.parametrize(
    "line",
    [
        "@@ -4,4 +4,4 @@", "@@ -4 +4 @@", "@@ -4,4 @@", "@@ 4,8 @@", "@@ 4 @@", "@@ line 4 @@",
        "@@ lines 4-8 @@", "@@ ... @@", "@@ … @@", "@@ def greet(name): @@", "@@ -4,4 +4,4 @@ def greet(name):",
        "@@ -4,4 +4,4", "@@-4,4 +4,4@@", "@@  -4,4  +4,4  @@", "@@@", "@@@ -4,4 +4,4 @@@", "@@", "@@ @@",
        "@@@@", "@@ -X,Y +X,Y @@", "@@ -99999999999999999999999 +1 @@", "@@ -" + "9" * 6000 + ",1 +1 @@",
        "@@ -4,4 +4,4 @@\n", "@@ def greet(name):\n@@ return",
    ],
)  # fmt: skip
def test_lines_that_open_a_hunk(line: str) -> None:
    assert after(f"```diff\n--- a/app.py\n+++ b/app.py\n{line}\n{BODY}```\n") == CHANGED


def test_a_diff_without_a_usable_name_is_for_the_only_file() -> None:
    assert reasons(f"```diff\n{HUNK}```\n", {"app.py": APP, "lib/other.py": APP}) == {"unknown-file"}
    assert reasons(f"```diff\n--- a/x.txt\n\n+++ b/app.py\n{HUNK}```\n", FILES) == {"unknown-file"}
    name = "x" * 5_000  # too long
    assert after(f"```diff\ndiff --git a/{name} b/{name}\n{HUNK}```\n") == CHANGED


@pytest.mark.parametrize(
    "line", ["@@ -{} @@", "@@ -{},3 @@", "@@ line {} @@", "@@ lines {}-9 @@", "@@ {} @@"]
)
def test_a_line_number_alone_chooses_between_equal_places(line: str) -> None:
    """If another hunk is at its number."""
    before = b"top\nx\na\nb\nc\nx\na\nb\nc\n"
    first, second = (line.format(number) for number in (1, 7))
    diff = f"--- a/app.py\n+++ b/app.py\n{first}\n-top\n+TOP\n x\n{second}\n a\n-b\n+B\n c\n"
    assert after(diff, before) == b"TOP\nx\na\nb\nc\nx\na\nB\nc\n"


FILES = {"app.py": APP, "x.txt": b"one\ntwo\n"}
RENAME = "diff --git a/app.py b/y\nsimilarity index 100%\nrename from app.py\n"


def moved(header: str, hunk: str = "@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n") -> dict[str, bytes | None]:
    return changed(f"```diff\n{header}\n{hunk}```\n", FILES, may_create=lambda path: path.startswith("y"))


@pytest.mark.parametrize(
    "header",
    [
        "diff --git a/x.txt b/y.txt\nsimilarity index 50%\nrename from x.txt\nrename to y.txt\nindex 1..2 100644\n--- a/x.txt\n+++ b/y.txt",
        "diff --git a/x.txt b/y.txt\nrename from x.txt\nrename to y.txt",
        "diff --git a/x.txt b/y.txt\nrename from a/x.txt\nrename to b/y.txt",
        "diff --git a/x.txt b/y.txt\nsimilarity index 50%\n--- a/x.txt\n+++ b/y.txt",
        "similarity index 50%\n--- a/x.txt\n+++ b/y.txt",
        "rename from x.txt\nrename to y.txt\n--- a/x.txt\n+++ b/y.txt",
        "diff --git a/w/x.txt b/w/y.txt\nrename from w/x.txt\nrename to w/y.txt",
    ],
)
def test_renames(header: str) -> None:
    assert moved(header) == {"x.txt": None, "y.txt": b"one\nzwei\n"}


def test_copies_and_modes() -> None:
    copy = "diff --git a/x.txt b/y.txt\nsimilarity index 50%\ncopy from x.txt\ncopy to y.txt"
    assert moved(copy) == {"y.txt": b"one\nzwei\n"}
    assert moved(copy, "") == {"y.txt": b"one\ntwo\n"}
    hunk = "--- a/x.txt\n+++ b/{}.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+{}\n"
    edit = "diff --git a/x.txt b/x.txt\n" + hunk.format("x", "zwei")
    copy = f"{copy}\n{hunk.format('y', 'deux')}"
    for diff in (edit + copy, copy + edit):
        assert moved(diff, "") == {"x.txt": b"one\nzwei\n", "y.txt": b"one\ndeux\n"}
    second = copy.replace("y.txt", "yy.txt")
    assert moved(copy + second, "") == {"y.txt": b"one\ndeux\n", "yy.txt": b"one\ndeux\n"}
    rename = second.replace("copy", "rename")
    assert moved(copy + rename, "") == {"x.txt": None, "y.txt": b"one\ndeux\n", "yy.txt": b"one\ndeux\n"}
    mode = "diff --git a/x.txt b/x.txt\nold mode 100644\nnew mode 100755"
    assert moved(mode, "") == {"x.txt": b"one\ntwo\n"}
    (placement,) = run(f"```diff\n{mode}\n```\n", FILES).placements
    assert (placement.level, placement.line, placement.hunk) == ("mode", 1, 0)
    assert moved(f"{mode}\n--- a/x.txt\n+++ b/x.txt") == {"x.txt": b"one\nzwei\n"}


@pytest.mark.parametrize(
    ("diff", "reason"),
    [
        ("diff --git a/y b/y\nnew file mode 120000\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+/etc\n", "mode"),
        ("diff --git a/x.txt b/x.txt\nold mode 100644\nnew mode 120000\n", "mode"),
        ("diff --git a/x.txt b/x.txt\nold mode 100644\nnew mode 100666\n", "mode"),
        ("diff --git a/x.txt b/x.txt\nindex 1..2 100644\nBinary files a/x.txt and b/x.txt differ\n", "binary"),
        ("diff --git a/x.txt b/x.txt\nGIT binary patch\nliteral 3\nKcmZQz\n", "binary"),
        ("diff --git a/x.txt b/x.txt\nindex 1..2 100644\n--- a/x.txt\n+++ b/x.txt\n", "cut-off"),
        ("diff --git a/x.txt b/x.txt\n", "cut-off"),
        ("--- a/x.txt\n+++ b/y.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n", "unknown-file"),
        ("diff --git a/q/x.txt b/q/x.txt\ndeleted file mode 100644\n", "unknown-file"),
        ("diff --git a/q/x.txt b/q/x.txt\nold mode 100644\nnew mode 100755\n", "unknown-file"),
        (f"{RENAME}rename to no.py\n", "unknown-file"),
        (f"{RENAME}rename to app.py/x\n", "bad-path"),
        (f"--- a/app.py\n+++ b/app.py\n{HUNK}--- a/x.txt\n+++ b/x.txt\n", "cut-off"),
        ("--- a/app.py\n+++ b/app.py\n@@@ -1,1 -1,1 +1,1 @@@\n--import sys\n++import os\n", "combined"),
        ("diff --cc app.py\nindex 1,2..3\n--- a/app.py\n+++ b/app.py\n@@@ -1,1 -1,1 +1,1 @@@\n- a\n -b\n++c\n", "combined"),
    ],
)  # fmt: skip
def test_headers_that_are_refused(diff: str, reason: str) -> None:
    for answer in (diff, f"```diff\n{diff}```\n"):
        assert reasons(answer, FILES, may_create=lambda path: path == "y") == {reason}


def test_a_mode_without_hunks_does_not_apply_to_the_next_file() -> None:
    for name in ("y/x.txt", "x.txt"):
        mode = f"diff --git a/{name} b/{name}\nold mode 100644\nnew mode 100755\n"
        answer = f"```diff\n{mode}--- a/app.py\n+++ b/app.py\n{HUNK}```\n"
        modes = {change.path: change.mode for change in run(answer, {"app.py": APP, name: b"one\n"}).changes}
        assert modes == {name: "100755", "app.py": "100644"}


@pytest.mark.parametrize(
    ("next_file", "name", "result"),
    [
        ("diff --git a/x.txt b/x.txt\nold mode 100644\nnew mode 100755\n", "x.txt", b"one\ntwo\n"),
        ("Index: x.txt\n--- x.txt\n+++ x.txt\n@@\n-one\n+eins\n", "x.txt", b"eins\ntwo\n"),
        ("--- /dev/null\n+++ b/y.txt\n@@\n+eins\n", "y.txt", b"eins\n"),
    ],
)
def test_the_next_file_ends_a_hunk_without_counts(next_file: str, name: str, result: bytes) -> None:
    answer = f"--- a/app.py\n+++ b/app.py\n@@\n-import sys\n+import os\n{next_file}"
    files = changed(answer, FILES, may_create=lambda _: True)
    assert files == {"app.py": APP.replace(b"sys\n", b"os\n", 1), name: result}


def test_a_whole_text_for_a_possibly_new_name_is_never_another_file() -> None:
    answer, sources = "```python app.py\ntwo\n```\n", {"src/app.py": b"one\n"}
    assert [*changed(answer, sources, may_create=lambda path: path == "app.py")] == ["app.py"]
    assert [*changed(answer, sources)] == ["src/app.py"]
