"""What became of a case: files as an applier left them, against those that are right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.patch.model import Case, Content

RIGHT, WRONG, REFUSED, APPLIED, ERROR = "right", "wrong", "refused", "applied", "error"
Files = Mapping[str, Content]


@dataclass(frozen=True)
class Result:
    """`files` are all files after (None: refused); `text` is why it was refused."""

    files: dict[str, Content] | None
    text: str = ""
    ms: float = 0.0
    diff: str = ""
    error: bool = False


def verdict(case: Case, result: Result) -> str:
    """A refusal of what must be refused is right, anything else of it "applied"; otherwise every file must have the
    bytes and the mode that are expected, and no other may be there."""
    if result.error:
        return ERROR
    if result.files is None:
        return RIGHT if case.expected is None else REFUSED
    if case.expected is None:
        return REFUSED if result.files == case.files else APPLIED
    return RIGHT if result.files == wanted(case) else WRONG


def wanted(case: Case) -> dict[str, Content]:
    """All files as they should be after."""
    assert case.expected is not None
    files: dict[str, Content | None] = {**case.files, **case.expected}
    return {path: content for path, content in files.items() if content is not None}
