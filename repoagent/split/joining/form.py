"""Texts in a form that git's merge by lines can take, and back: UTF-16, and lines that end otherwise now."""

from __future__ import annotations

from collections.abc import Sequence

from repoagent.errors import Refused
from repoagent.split.joining.encodings import is_wide, narrowed, widened
from repoagent.split.joining.endings import endings, with_ending

LF = b"\n"
_FEW = 64  # bytes; in so many wide characters there may well be neither a line end nor a plain letter


class Form:
    """The form in which `base`, the text that was split, and `present`, the source as it is, are merged.

    What is in UTF-16 becomes UTF-8; where the source has other line endings throughout by now, or lone carriage
    returns, line feeds stand for them. `given` is a text of the side of `base` in that form, `back` a merged one as
    the present source has it.
    """

    def __init__(self, path: str, base: bytes, present: bytes, encoding: str) -> None:
        self.encoding = encoding
        self.path = path
        narrow, now = narrowed(path, base, encoding), self._read(present)
        old, new = endings(narrow), endings(now)
        (mark,) = new if len(new) == 1 else (b"",)
        self.ending = mark if len(old) <= 1 and (mark == b"\r" or (old and mark and old != new)) else b""
        self.present = with_ending(now, LF) if self.ending else now

    def _read(self, data: bytes) -> bytes:
        if is_wide(self.encoding) and len(data) > _FEW and b"\0" not in data:
            raise Refused(f"{self.path} is in another encoding than it was: split it again")
        return narrowed(self.path, data, self.encoding)

    def given(self, texts: Sequence[bytes]) -> list[bytes]:
        narrow = [narrowed(self.path, text, self.encoding) for text in texts]
        return [with_ending(text, LF) for text in narrow] if self.ending else narrow

    def back(self, data: bytes) -> bytes:
        return widened(with_ending(data, self.ending) if self.ending else data, self.encoding)
