"""A file's bytes as lines of text, and back to exactly the same bytes."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

from repoagent.dataclass import dataclass

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_ESCAPED = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True)
class SourceText:
    """A file as the model was shown it: raw work-tree bytes and git's mode ("100644", "100755", "120000")."""

    data: bytes
    mode: str = "100644"


@dataclass(frozen=True)
class Text:
    """Decoded lines. Lines end at `\\n`; in a file that has none, at a lone carriage return. `endings[i]` is
    "\\n", "\\r\\n", "\\r", or "" for a last line without one."""

    lines: tuple[str, ...]
    endings: tuple[str, ...]
    encoding: str = "utf-8"
    errors: str = "strict"
    bom: bytes = b""

    @property
    def final_newline(self) -> bool:
        """Does the last line end in a newline? True for an empty file: what is added to it shall."""
        return not self.endings or bool(self.endings[-1])

    def encode(self) -> bytes:
        """The bytes. Raises UnicodeEncodeError for a line that the file's encoding can't hold."""
        whole = "".join(chain.from_iterable(zip(self.lines, self.endings, strict=True)))
        return self.bom + whole.encode(self.encoding, self.errors)


@lru_cache(maxsize=4)
def decode(data: bytes) -> Text | None:
    """The lines of `data`, or None when it is binary. `decode(data).encode() == data` always holds. That of the
    last few files is kept, as an answer's readings each ask for it.

    UTF-16 is recognised by its byte-order mark, or by the NULs of plain letters; text that is UTF-8 but for a
    few bytes keeps these as surrogate escapes; anything else is taken as Latin-1. NUL characters make a file
    binary unless all else in it is UTF-8 and they are fewer than its lines.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return _decoded(data, bom, encoding)
    return _decoded(data, b"", _wide(data) or "utf-8")


def _wide(data: bytes) -> str | None:
    """UTF-16 without a byte-order mark: of letters below U+0100 each other byte is a NUL, and nearly always
    the same one."""
    if len(data) % 2 or b"\0" not in data[:64]:
        return None
    first, second, half = data[::2].count(0), data[1::2].count(0), len(data) // 2
    if not first and second >= 0.7 * half:
        return "utf-16-le"
    return "utf-16-be" if not second and first >= 0.7 * half else None


def _decoded(data: bytes, bom: bytes, encoding: str) -> Text | None:
    body = data[len(bom) :]
    errors = "strict"
    try:
        whole = body.decode(encoding)
    except UnicodeDecodeError:
        if encoding != "utf-8" or b"\0" in body:
            return None
        whole = body.decode("utf-8", "surrogateescape")
        escaped = sum("\udc80" <= char <= "\udcff" for char in whole)
        multibyte = sum(char >= "\x80" for char in whole) - escaped
        if multibyte > escaped:
            errors = "surrogateescape"
        else:
            encoding, whole = "latin-1", body.decode("latin-1")
    if "\0" in whole and whole.count("\0") > whole.count("\n"):
        return None
    lines, endings = split_lines(whole)
    return Text(lines, endings, encoding, errors, bom)


def split_lines(whole: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Lines without their endings, and the endings, as `Text` has them."""
    mark = "\n" if "\n" in whole or "\r" not in whole else "\r"
    lines = whole.split(mark)
    tail = lines.pop()
    endings = [mark] * len(lines)
    if "\r\n" in whole:
        for number, line in enumerate(lines):
            if line.endswith("\r"):
                lines[number], endings[number] = line[:-1], "\r\n"
    if tail:
        lines.append(tail)
        endings.append("")
    return tuple(lines), tuple(endings)


def as_in(text: Text, line: str) -> str:
    """A line of an answer as `text` would have it: bytes that are no UTF-8, surrogates in the answer, are characters of
    a Latin-1 file. A diff of such a file, as git prints it, holds them."""
    if text.encoding != "latin-1":
        return line
    return _ESCAPED.sub(lambda match: chr(ord(match[0]) - 0xDC00), line)


def numbered(lines: Iterable[tuple[int, str]]) -> str:
    """Lines (counted from 0) as they are shown in an error text, numbered from 1."""
    return "\n".join(f"{number + 1:>6}  {text}" for number, text in lines)
