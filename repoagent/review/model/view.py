"""A file of a change as it is shown and quoted: the lines of both sides, and which of them the change made."""

from __future__ import annotations

from collections.abc import Mapping

from repoagent.dataclass import dataclass
from repoagent.llm.quoting import printable
from repoagent.review.change import Change, ChangedFile, Lines
from repoagent.store.masking import mask


@dataclass(frozen=True)
class View:
    """Lines by number, from 1, without their ending, keys and tokens masked, and what is not printable as U+FFFD.

    A side that is not at hand has the lines of the change only. `ending` is the line ending of the new text.
    """

    file: ChangedFile
    hunks: tuple[Lines, ...]
    new: Mapping[int, str]
    old: Mapping[int, str]
    data: bytes | None
    ending: str = "\n"

    @property
    def path(self) -> str:
        return self.file.path

    def side(self, *, old: bool) -> Mapping[int, str]:
        return self.old if old else self.new

    def changed(self, *, old: bool) -> list[int]:
        """The numbers of the added lines, or of the removed ones."""
        if old:
            return [one.old + n for one in self.hunks for n in range(len(one.removed))]
        return [one.new + n for one in self.hunks for n in range(len(one.added))]


def view_of(change: Change, file: ChangedFile) -> View | None:
    """The view of a file; None where it has no lines that changed (binary, a mode, a pure rename)."""
    hunks = change.read_lines(file)
    if not hunks:
        return None
    data = change.read_new(file)
    before = change.read_old(file)
    new = _numbered(data) if data is not None else _of_hunks(hunks, old=False)
    old = _numbered(before) if before is not None else _of_hunks(hunks, old=True)
    return View(file, hunks, new, old, data, "\r\n" if _is_crlf(hunks, data) else "\n")


def text_of(data: bytes) -> str:
    """The bytes of a file as a model is shown them: decoded, masked, printable; lines end at a newline only."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return printable(mask(text.replace("\r\n", "\n")))


def _numbered(data: bytes) -> dict[int, str]:
    lines = text_of(data).split("\n")
    if not lines[-1]:
        lines.pop()
    return dict(enumerate(lines, 1))


def _of_hunks(hunks: tuple[Lines, ...], *, old: bool) -> dict[int, str]:
    found: dict[int, str] = {}
    for one in hunks:
        lines, first = (one.removed, one.old) if old else (one.added, one.new)
        text = text_of(b"\n".join(line.rstrip(b"\r\n") for line in lines))
        found |= dict(enumerate(text.split("\n")[: len(lines)], first))
    return found


def _is_crlf(hunks: tuple[Lines, ...], data: bytes | None) -> bool:
    added = [line for one in hunks for line in one.added]
    sample = added or (data or b"").splitlines(keepends=True)[:1]
    return bool(sample) and all(line.endswith(b"\r\n") for line in sample)
