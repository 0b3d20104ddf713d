"""The form in which texts are merged: git counts lines by their line feeds."""

from __future__ import annotations

from collections.abc import Sequence

from repoagent.split.joining.endings import endings, with_ending

LF = b"\n"


class Form:
    """The form in which `base`, the text that was split, and `present`, the source as it is, are merged.

    Where the source has other line endings throughout by now, or lone carriage returns, line feeds stand for them.
    `given` is a text of the side of `base` in that form, `back` a merged one as the present source has it.
    """

    def __init__(self, base: bytes, present: bytes) -> None:
        old, new = endings(base), endings(present)
        (mark,) = new if len(new) == 1 else (b"",)
        self.ending = mark if len(old) <= 1 and (mark == b"\r" or (old and mark and old != new)) else b""
        self.present = with_ending(present, LF) if self.ending else present

    def given(self, texts: Sequence[bytes]) -> Sequence[bytes]:
        return [with_ending(text, LF) for text in texts] if self.ending else texts

    def back(self, data: bytes) -> bytes:
        return with_ending(data, self.ending) if self.ending else data
