"""What comes after a command of the chat."""

from __future__ import annotations

from repoagent.dataclass import dataclass


@dataclass(frozen=True)
class Then:
    """`words` are said to the model ("": it goes on where it was stopped), None for nothing; `ends` ends the chat."""

    words: str | None = None
    ends: bool = False


ENDS = Then(ends=True)
