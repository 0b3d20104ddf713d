"""The parts of a case: files, their changes, hunks and lines as they are written, and the case itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

CONTEXT, DELETED, ADDED, OTHER = " ", "-", "+", "?"
MARKER = "\\ No newline at end of file"
Content = tuple[bytes, str]  # a file's bytes and git's mode


@dataclass(frozen=True)
class File:
    """A file as lines; in a CRLF file each line ends in a carriage return."""

    path: str
    lines: tuple[str, ...]
    final_newline: bool = True
    mode: str = "100644"
    encoding: str = "utf-8"
    bom: bytes = b""

    @property
    def data(self) -> bytes:
        text = "\n".join(self.lines) + ("\n" if self.final_newline and self.lines else "")
        errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
        return self.bom + text.encode(self.encoding, errors)

    @property
    def content(self) -> Content:
        return self.data, self.mode


def read_file(path: str, data: bytes, mode: str = "100644") -> File | None:
    """Parse a file; None if it is empty, has a NUL byte, is not UTF-8 or mixes line endings."""
    if b"\0" in data or not data:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    bom = b""
    if text.startswith("\ufeff"):
        text, bom = text[1:], b"\xef\xbb\xbf"
    final = text.endswith("\n")
    lines = (text[:-1] if final else text).split("\n")
    returns = sum(line.endswith("\r") for line in lines)
    if any("\r" in line[:-1] for line in lines) or returns not in (0, len(lines) - (not final), len(lines)):
        return None
    return File(path, tuple(lines), final, mode, bom=bom)


@dataclass(frozen=True)
class Edit:
    """Replaces rows `start:end` (from 0) with `added`."""

    start: int
    end: int
    added: tuple[str, ...]

    def shifted(self, by: int) -> Edit:
        return replace(self, start=self.start + by, end=self.end + by)


def edited(lines: Sequence[str], edits: Sequence[Edit]) -> tuple[str, ...]:
    result = list(lines)
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        result[edit.start : edit.end] = edit.added
    return tuple(result)


@dataclass
class Change:
    """A file before and after; `before` is None for a new file, `after` for a deleted one."""

    before: File | None
    after: File | None
    edits: list[Edit] = field(default_factory=list)
    copy: bool = False

    @property
    def path(self) -> str:
        return (self.after or self.before).path

    @property
    def moved(self) -> bool:
        return bool(self.before and self.after and self.before.path != self.after.path)

    @property
    def in_place(self) -> bool:
        """Whether the file is neither created, deleted, moved, copied nor given another mode."""
        before, after = self.before, self.after
        return bool(before and after and before.mode == after.mode and not self.moved and not self.copy)

    @property
    def ended(self) -> bool:
        """Whether both sides have a final newline."""
        return self.before.final_newline and self.after.final_newline

    @property
    def tail(self) -> str:
        """What each line ends in besides its newline: a carriage return in a CRLF file."""
        return "\r" if self.before.lines[0].endswith("\r") else ""

    def rebase(self, lines: Sequence[str], edits: Sequence[Edit] | None = None, **values: object) -> None:
        """Set the lines before and, unless None, the edits; the file after follows from them."""
        self.edits = self.edits if edits is None else list(edits)
        self.before = replace(self.before, lines=tuple(lines), **values)
        self.after = replace(self.after, lines=edited(lines, self.edits), **values)

    def rewrite(self, lines: Callable[[Sequence[str]], Sequence[str]]) -> None:
        """Apply `lines`, which returns one line for each, to the file before and to the added lines."""
        edits = [replace(edit, added=tuple(lines(edit.added))) for edit in self.edits]
        self.rebase(lines(self.before.lines), edits)

    def both(self, **values: object) -> None:
        """Set these fields on the file before and the file after."""
        self.before = self.before and replace(self.before, **values)
        self.after = self.after and replace(self.after, **values)


@dataclass(frozen=True)
class Seed:
    """Changes from one real commit."""

    repository: str
    commit: str
    language: str
    changes: tuple[Change, ...]


@dataclass
class Line:
    """A line of a hunk. `row` counts the lines of the file before from 0 (None: added or invented), `raw` is written
    instead of kind and text, and `bare_end` means that the file ends here without a newline."""

    kind: str
    text: str
    row: int | None = None
    raw: str | None = None
    bare_end: bool = False

    def written(self) -> list[str]:
        shown = self.kind + self.text if self.raw is None else self.raw
        return [shown, MARKER] if self.bare_end else [shown]


@dataclass
class Hunk:
    """`old` and `new` are the rows, from 0, where it begins; without a `@@` line, `header` is None."""

    old: int
    new: int
    lines: list[Line]
    heading: str = ""
    header: str | None = ""  # "": made from the numbers; may include lines above the `@@`

    def counts(self) -> tuple[int, int]:
        kinds = [line.kind for line in self.lines]
        return len(kinds) - kinds.count(ADDED), len(kinds) - kinds.count(DELETED)

    def numbers(self) -> tuple[int, int, int, int]:
        old, new = self.counts()
        return self.old + (old > 0), old, self.new + (new > 0), new

    def number(self, *numbers: int) -> None:
        """Set the `@@` line to these numbers, right or wrong."""
        a, b, c, d = numbers
        self.header = f"@@ -{span(a, b)} +{span(c, d)} @@" + (f" {self.heading}" if self.heading else "")

    def written(self) -> list[str]:
        if self.header == "":
            self.number(*self.numbers())
        head = [] if self.header is None else self.header.split("\n")
        return [*head, *(text for line in self.lines for text in line.written())]


def span(start: int, count: int) -> str:
    return str(start) if count == 1 else f"{start},{count}"


@dataclass
class Part:
    """The diff of one file, as it will be written."""

    change: Change
    hunks: list[Hunk]
    head: list[str]
    prose: list[str] = field(default_factory=list)  # above its fence

    def written(self) -> list[str]:
        return [*self.head, *(text for hunk in self.hunks for text in hunk.written())]


@dataclass(frozen=True)
class Case:
    """`expected` maps a path to its content afterwards, None if the file must be gone; it is None itself if the answer
    must be refused. With `may_refuse`, a refusal is no failure."""

    name: str
    files: dict[str, Content]
    scope: frozenset[str]
    creates: frozenset[str] | None  # new files that the answer may create; None: any
    answer: str
    expected: dict[str, Content | None] | None
    slips: tuple[str, ...]
    repository: str
    commit: str
    language: str
    may_refuse: bool = False

    @property
    def kind(self) -> str:
        return self.name.partition("#")[0]

    @property
    def lines(self) -> int:
        """The number of lines of the longest file."""
        return max((data.count(b"\n") for data, _ in self.files.values()), default=0)
