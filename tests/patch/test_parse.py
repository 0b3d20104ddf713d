"""All forms of patches that models write."""

from __future__ import annotations

import pytest

from repoagent.git.files import Content
from repoagent.patch import apply_answer
from repoagent.patch.apply_answer import apply_patches, read_answer
from repoagent.patch.parse.blocks import patch_spans
from repoagent.patch.refusal import NoPatch, PatchRefused
from tests.patch.helpers import APP, after, fenced, reasons, run

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


def test_an_answer_without_any_patch() -> None:
    for answer in ["", "No change is needed.", "Run this:\n```sh\nmake\n```\n"]:
        with pytest.raises(NoPatch):
            run(answer)


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
