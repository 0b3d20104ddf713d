"""Helpers to write an answer and to check its result."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from textwrap import dedent
from typing import Any

import pytest

from repoagent.git.files import Content
from repoagent.patch.apply_answer import AppliedAnswer, apply_answer
from repoagent.patch.refusal import PatchRefused

Sources = bytes | Mapping[str, bytes | Content]  # the bytes are those of app.py
APP = b'''import sys


def greet(name):
    """Say hello."""
    return "hello " + name


def part(name):
    return "goodbye " + name


def main():
    print(greet(sys.argv[1]))
    print(part(sys.argv[1]))
'''


def fenced(diff: str, path: str | None = "app.py", info: str = "diff") -> str:
    header = f"--- a/{path}\n+++ b/{path}\n" if path else ""
    return f"Here it is:\n\n```{info}\n{header}{dedent(diff).strip(chr(10))}\n```\nDone.\n"


def each(margin: str, text: str) -> str:
    """The text with a margin before each line."""
    return "".join(f"{margin}{line}\n" for line in text.removesuffix("\n").split("\n"))


def unified(before: Sequence[str], result: Sequence[str], path: str = "app.py", context: int = 3) -> str:
    """A diff of a correct tool; a text without a final newline has no newline in its last line."""
    rows = [
        [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in side]
        for side in (before, result)
    ]
    return "".join(difflib.unified_diff(*rows, f"a/{path}", f"b/{path}", n=context))


def run(answer: str, sources: Sources = APP, **options: Any) -> AppliedAnswer:
    files = {"app.py": sources} if isinstance(sources, bytes) else sources
    known = {name: file if isinstance(file, Content) else Content(file) for name, file in files.items()}
    return apply_answer(answer, known, **options)


def after(answer: str, sources: Sources = APP, **options: Any) -> bytes:
    """The content of the only file that changes."""
    (change,) = run(answer, sources, **options).changes
    assert change.after is not None
    return change.after


def changed(answer: str, sources: Sources, **options: Any) -> dict[str, bytes | None]:
    """The content of each file that changes; None if it is deleted or renamed."""
    changes = run(answer, sources, **options).changes
    gone = {change.old_path: None for change in changes if change.old_path and change.old_path != change.path}
    return {**gone, **{change.name: change.after for change in changes}}


def refused(answer: str, sources: Sources = APP, **options: Any) -> PatchRefused:
    with pytest.raises(PatchRefused) as caught:
        run(answer, sources, **options)
    return caught.value


def outcome(answer: str, sources: Sources = APP, **options: Any) -> bytes | str:
    """The content of the only file that changes, or the reason why the answer is refused."""
    try:
        return after(answer, sources, **options)
    except PatchRefused as refusal:
        (reason,) = refusal.reasons
        return reason


def reasons(answer: str, sources: Sources = APP, **options: Any) -> Collection[str]:
    return refused(answer, sources, **options).reasons
