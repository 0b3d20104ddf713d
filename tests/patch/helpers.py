"""Helpers to write an answer and to check its result."""

from __future__ import annotations

from collections.abc import Collection
from textwrap import dedent
from typing import Any

import pytest

from repoagent.patch.apply_answer import Applied, apply_answer
from repoagent.patch.model import SourceText
from repoagent.patch.refusal import PatchRefused

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


def run(answer: str, source: bytes = APP, **options: Any) -> Applied:
    """Apply the answer to a single file, app.py."""
    return apply_answer(answer, {"app.py": SourceText(source)}, **options)


def after(answer: str, source: bytes = APP, **options: Any) -> bytes:
    result = run(answer, source, **options)
    assert len(result.changes) == 1
    assert result.changes[0].after is not None
    return result.changes[0].after


def refused(answer: str, source: bytes = APP, **options: Any) -> PatchRefused:
    with pytest.raises(PatchRefused) as caught:
        run(answer, source, **options)
    return caught.value


def reasons(answer: str, source: bytes = APP, **options: Any) -> Collection[str]:
    return refused(answer, source, **options).reasons
