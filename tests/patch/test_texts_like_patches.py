"""Files whose text looks like a patch: diffs, fences, rules, comments, markers."""

from __future__ import annotations

import re

import pytest

from repoagent.patch.refusal import NoPatch
from tests.patch.helpers import after, each, run, unified

_TEXTS = """\
--- a/x.py;+++ b/x.py;-- a comment;++ i;---;--- ;+++;-- ;--;@@ -1,3 +1,3 @@;@@;@decorator;diff --git a/x b/x
Index: x;=======;===;<<<<<<< SEARCH;<<<<<<< HEAD;>>>>>>> REPLACE;>>>>>>> main;*** Begin Patch
*** Update File: x;*** End Patch;```;```diff;~~~;````;> quoted;\\ No newline at end of file;- item;+ item;* item
1. item;12 | text;From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001
commit 0123456789012345678901234567890123456789;2.39.5;rename from x;new file mode 100644
Binary files a and b differ;cat > x <<'EOF';EOF;    indented;\ttabbed;...;# x.py"""
LOOKALIKES = [*_TEXTS.replace("\n", ";").split(";"), "++i;", "--i;"]


FRAME = [f"line number {number} of the file\n" for number in range(12)]


@pytest.mark.soak
@pytest.mark.parametrize("text", LOOKALIKES)
@pytest.mark.parametrize("fence", ["", "```", "`````"])
def test_as_context_deleted_and_added(text: str, fence: str) -> None:
    with_it, at_end = [*FRAME[:6], f"{text}\n", *FRAME[6:]], [*FRAME, f"{text}\n"]
    changed = [line.replace("7", "seven") for line in with_it]
    other, end = [*FRAME[:6], "some other text\n", *FRAME[6:]], [*FRAME, "the end\n"]
    pairs = [(FRAME, with_it), (with_it, FRAME), (with_it, changed), (with_it, other), (other, with_it)]
    for before, expected in (*pairs, (at_end, end), (end, at_end)):
        if text == "..." and expected in (with_it, at_end):
            continue  # an added line of dots is refused as omitted code
        body = unified(before, expected)
        answer = f"Here:\n\n{fence}{'diff' if fence else ''}\n{body}{fence}\nDone.\n"
        assert after(answer, "".join(before).encode()) == "".join(expected).encode()


def test_a_new_file_that_is_a_diff_is_not_a_patch_itself() -> None:
    inner = unified(["a\n", "b\n"], ["a\n", "c\n"])
    answer = f"--- /dev/null\n+++ b/fix.diff\n@@ -0,0 +1,{inner.count(chr(10))} @@\n{each('+', inner)}"
    for text in (answer, f"```diff\n{answer}```\n"):
        (change,) = run(text, may_create=lambda path: path == "fix.diff").changes
        assert (change.path, change.after) == ("fix.diff", inner.encode())


PROSE = """\
- a bullet/- another;+ a plus/- a minus;---//A rule.;Title/-----;--/Me, from my telephone;* star/* star
The `@@ -1 +1 @@` is the header.;1. first/2. second;> said you;| a | b |/|---|---|/| + | - |"""


@pytest.mark.parametrize("prose", [f"{text}\n".replace("/", "\n") for text in re.split("[;\n]", PROSE)])
def test_prose_right_after_a_bare_diff(prose: str) -> None:
    source = "".join(FRAME)
    body = unified(FRAME, [line.replace("7", "seven") for line in FRAME])
    bare = "".join("@@\n" if line.startswith("@@") else f"{line}\n" for line in body.splitlines())
    answers = [f"{body}{gap}{prose}" for gap in ("", "\n", "\n\n")]
    if not prose.startswith(("+", "---\n", "--\n")):  # these continue a hunk without counts
        answers += [f"{bare}\n{prose}", f"{bare}\n\n{prose}"]
    for answer in answers:
        assert after(answer, source.encode()).decode() == source.replace("7", "seven"), answer
    with pytest.raises(NoPatch):
        run(prose)
