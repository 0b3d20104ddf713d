"""All forms of patches that models write, and files and prose whose text looks like a patch."""

from __future__ import annotations

import re

import pytest

from repoagent.git.files import Content
from repoagent.patch import apply_answer
from repoagent.patch.apply_answer import apply_patches, read_answer
from repoagent.patch.parse.blocks import patch_spans
from repoagent.patch.refusal import NoPatch, PatchRefused
from tests.patch.helpers import APP, after, each, fenced, reasons, run, unified

CHANGED = APP.replace(b'"hello "', b'"hi "')
RETURN = '-    return "hello " + name\n+    return "hi " + name\n'
HUNK = f' def greet(name):\n     """Say hello."""\n{RETURN}\n'


def _ended(answer: str) -> bytes | None:
    """The resulting file if the answer is known to be complete."""
    sources = {"app.py": Content(APP)}
    patches = read_answer(answer, known=sources, ended=True)
    return apply_patches(patches, sources, may_create=lambda path: True).changes[0].after


OPEN = "```diff\n--- a/app.py\n+++ b/app.py\n"


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_a_fence_that_is_never_closed(end: str) -> None:
    hunk = f"{OPEN}@@\n{HUNK.rstrip()}{end}"
    assert _ended(hunk) == CHANGED
    assert reasons(hunk) == {"cut-off"}  # more may have been missing
    assert after(f"{OPEN}@@ -4,2 +4,2 @@\n{RETURN} \n \n def part(name):{end}") == CHANGED
    assert reasons(f"{OPEN}@@ -6,2 +6,1 @@\n{RETURN} \n \n+    more{end}") == {"cut-off"}
    assert _ended(f"```diff\n--- /dev/null\n+++ b/new.py\n@@\n+x = 1{end}") == b"x = 1\n"
    patch = f"*** Begin Patch\n*** Update File: app.py\n@@\n{HUNK.rstrip()}{end}"
    assert _ended(f"```\n{patch}") == CHANGED and reasons(f"```\n{patch}") == {"cut-off"}


@pytest.mark.parametrize(
    "answer",
    [
        f"{OPEN}@@ -4,5 +4,5 @@\n{HUNK.rstrip()}",
        f"{OPEN}@@\n{HUNK}That says hi.\n",
        f"{OPEN}@@\n{HUNK}--- a/other.py\n",
        f"{OPEN}@@\n{HUNK}@@\n",
        f"app.py\n```python\n{CHANGED.decode()}",
        'app.py\n```\n<<<<<<< SEARCH\n    return "hello " + name\n=======\n    return "hi " + name\n',
    ],
)
def test_a_fence_that_is_never_closed_without_a_whole_change(answer: str) -> None:
    with pytest.raises(PatchRefused) as caught:
        _ended(answer)
    assert caught.value.reasons == {"cut-off"}


def test_spans_of_all_kinds_and_not_of_examples() -> None:
    answer = (
        "Run:\n```sh\nmake\n```\n```diff\n-a\n+b\n```\nand\n\nsrc/x.py\n```python\nx = 1\n```\n"
        "y.py\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\nend"
    )
    assert [span.kind for span in patch_spans(answer)] == ["diff", "whole-file", "search-replace"]
    assert not patch_spans("only prose, a - b, --- and +++ too")


def test_the_largest_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = fenced(f"@@\n{HUNK}")
    monkeypatch.setattr(apply_answer, "LARGEST", len(answer))
    assert after(answer) == CHANGED
    assert reasons(f"{answer}\n") == {"too-large"}


def test_deletion_by_dev_null_must_quote_the_file() -> None:
    deletion = "```diff\n--- a/app.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-{}\n```"
    applied = run(deletion.format("import sys"))
    assert applied.changes[0].is_deletion
    (placement,) = applied.placements
    assert (placement.level, placement.line, placement.hunk) == ("deleted", 1, 0)
    assert reasons(deletion.format("import os")) == {"deleted-line-missing"}


def test_the_only_fence_can_be_the_whole_of_the_only_file() -> None:
    assert after(f"Here you are:\n\n```python\n{CHANGED.decode()}```\n") == CHANGED
    with pytest.raises(NoPatch):
        run("Do it like this:\n\n```python\ndef greet(name):\n    return 1\n```\n")
    lines = [f"line {number}\n" for number in range(20)]
    for kept in (lines[:1] + lines[9:], lines[:11] + lines[19:]):  # the first line, the last, and 60 % of all
        whole = "".join(kept)
        assert after(f"Here:\n\n```\n{whole}```\n", "".join(lines).encode()) == whole.encode()
    for kept in (lines[1:], lines[:19], lines[:10] + lines[19:], ["\n"]):
        with pytest.raises(NoPatch):
            run(f"Here:\n\n```\n{''.join(kept)}```\n", "".join(lines).encode())


def test_a_whole_markdown_file_with_fences_in_it() -> None:
    before = b"# A\n\n```sh\nmake\n```\n\nend\n"
    answer = "README.md\n```markdown\n# B\n\n```sh\nmake\n```\n\nend\n```\nbye\n"
    assert after(answer, {"README.md": before}) == before.replace(b"# A", b"# B")


def test_a_quotation_next_to_a_diff_is_not_a_whole_file() -> None:
    quote = '`app.py`:\n```python\ndef part(name):\n    return "goodbye " + name\n```\n'
    assert after(quote + fenced(f"@@\n{HUNK}")) == CHANGED
    assert reasons(quote.replace("goodbye", "bye") + fenced(f"@@\n{HUNK}")) == {"overlap"}


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


def test_a_line_without_its_space_does_not_end_a_bare_hunk_above_a_change() -> None:
    diff = OPEN.removeprefix("```diff\n") + f"@@\n-import sys\n+import os\n \n \n{HUNK[1:]}"
    assert after(diff) == CHANGED.replace(b"import sys", b"import os")


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
