"""`*** Begin Patch` envelopes, whole and in part."""

from __future__ import annotations

import pytest

from repoagent.patch.parse.blocks import patch_spans
from tests.patch.helpers import APP, after, changed, each, reasons

CHANGED = APP.replace(b'"hello "', b'"hi "')
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
