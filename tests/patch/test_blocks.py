"""SEARCH/REPLACE blocks of several tools, whole files, and `*** Begin Patch` envelopes, whole and in part."""

from __future__ import annotations

import time
from contextlib import nullcontext

import pytest

from repoagent.patch.parse.blocks import patch_spans
from repoagent.patch.refusal import NoPatch, PatchRefused
from tests.patch.helpers import APP, after, changed, each, reasons, run

CHANGED = APP.replace(b'"hello "', b'"hi "')
OLD, NEW = '    return "hello " + name\n', '    return "hi " + name\n'
MARKS = {
    "aider": ("<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"),
    "five": ("<<<<< SEARCH", "=====", ">>>>> REPLACE"),
    "nine": ("<<<<<<<<< SEARCH", "=========", ">>>>>>>>> REPLACE"),
    "original": ("<<<<<<< ORIGINAL", "=======", ">>>>>>> UPDATED"),
    "four": ("<<<< ORIGINAL", "====", ">>>> UPDATED"),
    "cline": ("------- SEARCH", "=======", "+++++++ REPLACE"),
    "tight": ("<<<<<<<SEARCH", "=======", ">>>>>>>REPLACE"),
    "line number": ("<<<<<<< SEARCH\n:start_line:6\n-------", "=======", ">>>>>>> REPLACE"),
    "trailing space": ("<<<<<<< SEARCH  ", "=======  ", ">>>>>>> REPLACE  "),
}


def block(old: str = OLD, new: str = NEW, marks: str = "aider") -> str:
    opening, divider, closing = MARKS[marks]
    return f"{opening}\n{old}{divider}\n{new}{closing}\n"


@pytest.mark.parametrize("marks", MARKS)
def test_locations_of_blocks(marks: str) -> None:
    for where in (
        "app.py\n{}",
        "```python\napp.py\n{}```\n",
        "app.py\n```python\n{}```\n",
        "```python app.py\n{}```\n",
        "### `app.py`\n\n```\n{}```\n",
        "```\n# app.py\n{}```\n",
        "Do this:\n\n{}\nDone.",
        "{}",
    ):
        answer = where.format(block(marks=marks))
        assert after(answer) == CHANGED, where
        assert after(answer.replace("\n", "\r\n")) == CHANGED, where
        assert after(each("> ", answer)) == CHANGED, where


def test_an_empty_search_creates_a_file() -> None:
    answer = "new.py\n<<<<<<< SEARCH\n=======\nx = 1\n>>>>>>> REPLACE\n"
    (change,) = run(answer, may_create=lambda path: path == "new.py").changes
    assert (change.old_path, change.path, change.after) == (None, "new.py", b"x = 1\n")
    assert reasons(answer.replace("new.py", "app.py")) == {"no-context"}


MANY_DIVIDERS = b"x\n" + b"=======\n" * 20
CONFLICT = "a\n<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> branch\nz\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (CONFLICT, "ours\n"),
        (CONFLICT, CONFLICT.replace("z", "y")),
        *((f"{line}\na\n", f"{line}\nb\n") for line in ("<<<<<<< HEAD", ">>>>>>> branch", "-------")),
    ],
)
def test_conflict_markers_and_rules_as_text(old: str, new: str) -> None:
    for answer in (f"app.py\n{block(old, new)}", f"app.py\n```\n{block(old, new)}```\n"):
        assert after(answer, old.encode()) == new.encode()


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        # more than one line may divide the text
        ("app.py\n" + block("import sys\n", "a\n=======\nb\n"), APP),
        ("app.py\n" + block("a\n=======\nb\n", "=======\nx\n"), b"a\n=======\nb\n=======\nc\n"),
        ("app.py\n" + block("x\n", "=======\n" * 40 + "y\n"), MANY_DIVIDERS),
        # markers are out of order
        ("app.py\n<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n", APP),
        ("```\napp.py\n<<<<<<< SEARCH\na\n<<<<<<< SEARCH\n=======\nb\n>>>>>>> REPLACE\n```\n", APP),
        ("```\napp.py\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n>>>>>>> REPLACE\n```\n", APP),
    ],
)
def test_unclear_markers_are_refused(answer: str, source: bytes) -> None:
    assert reasons(answer, source) == {"malformed"}


def test_a_block_has_at_most_40_dividers() -> None:
    answer = "app.py\n" + block("x\n", "=======\n" * 39 + "y\n")
    assert after(answer, MANY_DIVIDERS).endswith(b"y\n")


@pytest.mark.parametrize("numbers", [":start_line:1\n", ":start_line:1\n:end_line:1\n", ":end_line:1\n"])
@pytest.mark.parametrize("rule", ["", "-------\n"])
def test_line_numbers_in_a_block_are_not_text(numbers: str, rule: str) -> None:
    answer = "app.py\n" + block(f"{numbers}{rule}import sys\n", "import os\n")
    assert after(answer) == APP.replace(b"import sys", b"import os")


def test_fences_in_the_text_of_a_fenced_block() -> None:
    before = b"# A\n```sh\nmake\n```\n\n```\nx\n```\nend\n"
    answer = "app.py\n```\n" + block("```sh\nmake\n```\n", "```sh\nmake test\n```\n") + "```\nDone.\n"
    assert after(answer, before) == before.replace(b"make", b"make test")
    blocks = block("```\nx\n```\n", "```\ny\n```\n") + block("end\n", "fin\n")
    answer = f"app.py\n```\n{blocks}```\nDone.\n"
    assert after(answer, before) == before.replace(b"\nx\n", b"\ny\n").replace(b"end", b"fin")


@pytest.mark.parametrize("command", ["cat > app.py <<'EOF'", "$ tee app.py << EOF", "git apply <<'EOF'"])
def test_a_script_that_writes_files_is_not_a_file(command: str) -> None:
    with pytest.raises(NoPatch):
        run(f"app.py\n```sh\n{command}\n{CHANGED.decode()}EOF\n```\n")


def test_a_script_inside_another_file_is_not_a_patch() -> None:
    before = b"steps:\n  - run: |\n      cat <<'EOF' >Dockerfile\n      FROM x\n      EOF\nend: 1\n"
    answer = f"Here it is:\n\n```yaml\n{before.decode().replace('FROM x', 'FROM y')}```\n"
    assert after(answer, before) == before.replace(b"FROM x", b"FROM y")


@pytest.mark.parametrize("prefix", ["", "not there: "])
def test_many_blocks_take_linear_time(prefix: str) -> None:
    seconds = []
    for count in (200, 1_000):
        source = "".join(f"x{n}\n" for n in range(count)).encode()
        blocks = "".join(block(f"{prefix}x{n}\n", f"y{n}\n") for n in range(count))
        began = time.process_time()
        with pytest.raises(PatchRefused) if prefix else nullcontext():
            run(f"app.py\n{blocks}", source)
        seconds.append(time.process_time() - began)
    assert seconds[1] < 12 * seconds[0] + 0.2, seconds  # 5 times as many blocks


UPDATE = '''\
*** Update File: app.py
@@ def greet(name):
     """Say hello."""
-    return "hello " + name
+    return "hi " + name
'''
PATCH = f"*** Begin Patch\n{UPDATE}*** End Patch\n"


@pytest.mark.parametrize(
    "answer",
    [
        PATCH,
        f"```\n{PATCH}```\n",
        f"```diff\n{PATCH}```\n",
        f"```patch\n{PATCH}```\n",
        f"Here:\n\n{PATCH}\nDone.\n",
        f"Here:\n\n{UPDATE}\nDone.\n",
        f"```\n{UPDATE}```\n",
        f"```diff\n{UPDATE}*** End Patch\n```\n",
        f"```diff\n*** Begin Patch\n{UPDATE}```\n",
        f"apply_patch <<'EOF'\n{PATCH}EOF\n",
        f"```sh\napply_patch <<'EOF'\n{PATCH}EOF\n```\n",
        f"```bash\n$ apply_patch << 'PATCH'\n{PATCH}PATCH\n```\n",
        PATCH.replace("@@ def greet(name):", "@@"),
        PATCH.replace("@@ def greet(name):\n", ""),
        PATCH.replace("@@ def greet(name):", "Say hi:\n@@ def greet(name):"),
        PATCH.replace("*** End Patch", "Done.\n*** End Patch"),
        PATCH.replace("\n", "\r\n"),
        each("> ", PATCH),
        each("    ", PATCH),
        "1. Do:\n" + each("   ", f"```\n{PATCH}```"),
        PATCH.replace("app.py", "./app.py"),
        PATCH.replace("app.py", "/home/me/work/app.py"),
        PATCH.replace("app.py", "`app.py`"),
        PATCH.replace("app.py\n", "app.py\n--- a/app.py\n+++ b/app.py\n"),  # with the header of a diff, too
    ],
)
def test_locations_of_envelopes(answer: str) -> None:
    assert after(answer) == CHANGED
    assert len(patch_spans(answer)) == 1


@pytest.mark.parametrize(
    "answer",
    [f"*** Begin Patch\n{UPDATE}", f"Here:\n\n*** Begin Patch\n{UPDATE}", f"```\n*** Begin Patch\n{UPDATE}"],
)
def test_an_envelope_without_its_end_is_truncated(answer: str) -> None:
    assert reasons(answer) == {"cut-off"}


def test_all_directives() -> None:
    answer = """\
*** Begin Patch
*** Add File: new/a.txt
+first
+
+third
*** Delete File: gone.txt
*** Update File: old.txt
*** Move to: new/moved.txt
@@
 one
-two
+zwei
*** Update File: last.txt
@@
 tail
+end
*** End of File
*** End Patch
"""
    sources = {"gone.txt": b"x\n", "old.txt": b"one\ntwo\n", "last.txt": b"head\ntail\n"}
    assert changed(answer, sources, may_create=lambda path: path.startswith("new")) == {
        "new/a.txt": b"first\n\nthird\n",
        "gone.txt": None,
        "old.txt": None,
        "new/moved.txt": b"one\nzwei\n",
        "last.txt": b"head\ntail\nend\n",
    }


TWINS = b"""\
class A:
    def run(self):
        x = 1
        return x

    def stop(self):
        x = 1
        return x


class B:
    def run(self):
        x = 1
        return x
"""


@pytest.mark.parametrize(
    ("headings", "number"),
    [
        ("@@ class B:\n", 2),
        ("@@     def stop(self):\n", 1),
        ("@@ class A:\n@@     def run(self):\n", 0),
        ("@@ class B:\n@@ def run(self):\n", 2),
    ],
)
def test_headings_decide_between_equal_locations(headings: str, number: int) -> None:
    hunk = f"{headings}-        x = 1\n+        x = 2\n"
    answer = f"*** Begin Patch\n*** Update File: t.py\n{hunk}*** End Patch\n"
    parts = TWINS.split(b"x = 1")
    expected = b"x = 1".join(parts[: number + 1]) + b"x = 2" + b"x = 1".join(parts[number + 1 :])
    assert changed(answer, {"t.py": TWINS}) == {"t.py": expected}


def test_the_mark_of_the_end_of_the_file_decides_between_equal_locations() -> None:
    hunk = "@@\n         x = 1\n-        return x\n+        return 2\n"
    answer = "*** Begin Patch\n*** Update File: t.py\n{}*** End of File\n*** End Patch\n"
    expected = TWINS.removesuffix(b"x\n") + b"2\n"
    assert changed(answer.format(hunk), {"t.py": TWINS}) == {"t.py": expected}
    assert reasons(answer.format(hunk), {"t.py": TWINS + b"\n\nend()\n"}) == {"ambiguous"}
    first = "@@ def stop(self):\n-        x = 1\n+        x = 3\n         return x\n"
    stop = expected.replace(b"stop(self):\n        x = 1", b"stop(self):\n        x = 3")
    assert changed(answer.format(first + hunk), {"t.py": TWINS}) == {"t.py": stop}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("@@\n-import sys\n+import os\n", "malformed"),  # before any file
        ("*** Add File: app.py\n+x\n", "exists"),
        ("*** Update File: b.py\n@@\n-x\n+y\n", "unknown-file"),
        ("*** Add File: ../x\n+x\n", "bad-path"),
        *(  # a heading alone does not locate an addition
            (f"*** Update File: t.py\n{heading}\n+        y = 2\n", "no-context")
            for heading in ("@@ def run(self):", "@@ class C:", "@@", "@@ class B:")
        ),
    ],
)
def test_refused_directives(lines: str, reason: str) -> None:
    files = {"app.py": APP, "t.py": TWINS}
    assert reasons(f"*** Begin Patch\n{lines}*** End Patch\n", files) == {reason}
