"""`notes.md`: the notes on a file, one bullet each, which users can edit.

    # Notes

    - 2026-11-21 3f2a9c1 by anthropic/claude-sonnet-5-5: callers rely on the order of the result

Any bullet is a note, with or without a date, a blob and a source; indented lines continue it, and a paragraph is a note
too. A note is added unless it clearly repeats another, because a duplicate costs only a line. Above a limit the least
important notes move to `archive/notes.md`. A note is stale if the file no longer contains the code that it names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import TypeVar

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, UsageError
from repoagent.git.files import blob_hash
from repoagent.git.objects import local_blobs
from repoagent.git.worktree import WorkTree
from repoagent.memory.identity.record import Memory
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.storage.locks import hold_lock
from repoagent.storage.secrets import mask

USER, PROGRAM, COMPACTED = "person", "repoagent", "compact"  # sources other than the names of models
LIMIT, COMPACTED_LIMIT = 80, 200  # most notes in the file
LONGEST = 400  # most characters of a note by a model or the program
LONGEST_TEXT = 4_000  # most characters of a note by a user
MOST = 80  # most notes added at once
_HEAD = b"# Notes\n\n"
_STAMPED = re.compile(r"(\d{4}-\d\d-\d\d)(?: ([0-9a-f]{7,64}))?(?: by (.{1,80}?))?: (.*)", re.DOTALL)
_BULLET = re.compile(r"[-*+] ")
_SHORT = 12  # digits of a blob: enough to look it up, short enough to read
_TRIES = 5  # attempts to write while an editor saves the file
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Note:
    """One note on a file. Fields that a user left out are "".

    day: "YYYY-MM-DD".
    blob: the abbreviated hash of the version that the note describes.
    source: the author, which is a model's name, USER, PROGRAM (the note records an event) or COMPACTED.
    """

    text: str
    day: str = ""
    blob: str = ""
    source: str = ""

    def __str__(self) -> str:
        by = f"by {self.source}" if self.source and self.day else ""
        stamp = " ".join(part for part in (self.day, self.blob, by) if part)
        return f"- {stamp}: {self.text}" if stamp else f"- {self.text}"

    @property
    def is_by_hand(self) -> bool:
        """Whether the user wrote the note. Such notes are never archived."""
        return self.source in ("", USER)


@dataclass(frozen=True)
class NoteEntry:
    """A note and its lines in the file: `first` (from 0) to `end` (exclusive)."""

    note: Note
    first: int
    end: int


IsStale = Callable[[Note], bool]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def make_note(text: str, *, blob: str = "", day: date | None = None, source: str = "") -> Note:
    """A note dated today (or `day`), with its text on one line."""
    by = re.sub(r":(?= |\Z)", "", _one_line(source))[:60].strip()
    return Note(_one_line(text), (day or date.today()).isoformat(), blob[:_SHORT], by)


def shorten_note(text: str) -> str:
    """`text` on one line of at most LONGEST characters, cut between words."""
    line = _one_line(text)
    return line if len(line) <= LONGEST else line[: LONGEST - 1].rsplit(" ", 1)[0].rstrip() + "…"


def read_notes(path: Path) -> tuple[Note, ...]:
    """The notes in `path`, in order; headings and blank lines are not notes."""
    return tuple(entry.note for entry in note_entries(read_regular(path) or b""))


def note_entries(data: bytes) -> list[NoteEntry]:
    """The notes in the bytes of a notes file, each with its lines."""
    found = []
    lines = data.decode(errors="replace").split("\n")
    for text, first, end in _paragraphs(lines, lambda line: line.startswith("#")):
        stamped = _STAMPED.fullmatch(text)
        note = Note(stamped[4], stamped[1], stamped[2] or "", stamped[3] or "") if stamped else Note(text)
        found.append(NoteEntry(note, first, end))
    return found


def parse_notes(text: str) -> list[str]:
    """Return the notes in a text: its bullets and paragraphs."""
    paragraphs = _paragraphs(text.splitlines(), lambda line: line == "# Notes")
    return [note for note, _, _ in paragraphs if note]


def _paragraphs(lines: list[str], is_heading: Callable[[str], bool]) -> Iterator[tuple[str, int, int]]:
    """Each bullet and paragraph, joined to one line, with the numbers of its first line and the line after it."""
    texts: list[str] = []
    first = 0
    for number, line in enumerate([*lines, ""]):
        stripped = line.strip()
        is_between = not stripped or is_heading(stripped)
        is_bullet = _BULLET.match(line) is not None
        if texts and (is_between or is_bullet):
            yield " ".join(texts), first, number
            texts = []
        if not is_between:
            first = first if texts else number
            texts.append(stripped[2:].strip() if is_bullet else stripped)


def add_note(path: Path, text: str, *, blob: str = "", day: date | None = None, source: str = "") -> Note:
    """Add a note to the file `path`; return it, or the existing note that says the same.

    Raises what `add_notes` raises.
    """
    note = make_note(text, blob=blob, day=day, source=source)
    return next(iter(add_notes(path, [note])), note)


def add_notes(path: Path, notes: Iterable[Note], *, is_stale: IsStale | None = None) -> list[Note]:
    """Add the `notes` that are new. Return, for each of `notes`, the note in the file that says the same.

    Stale notes are not compared. If there are more than LIMIT notes, the oldest stale notes move to the archive, then
    the oldest events, then the oldest notes by models; the user's notes stay.

    Raises Busy if the lock is not released in time or another program keeps saving the file, Refused if the file
    cannot be written.
    """
    wanted = [note for note in notes if note.text]

    def repeats(new: Note, old: Note) -> bool:
        if old.text == new.text and old.blob == new.blob:
            return True
        # if both are stale, they name code of other files
        if is_stale is not None and is_stale(old) and not is_stale(new):
            return False
        if COMPACTED in (old.source, new.source):
            return old.source == new.source and old.text == new.text and old.day == new.day
        return has_same_words(new.text, old.text)

    def change(data: bytes) -> tuple[bytes, list[Note]]:
        known = [entry.note for entry in note_entries(data)]
        same, new = [], list[Note]()
        for note in wanted:
            old = next((old for old in (*known, *new) if repeats(note, old)), None)
            same.append(old or note)
            new += [] if old else [note]
        if not new:
            return data, same
        whole = with_final_newline(data or _HEAD) + "".join(f"{note}\n" for note in new).encode(
            errors="replace"
        )
        return _within_limits(path, whole, is_stale), same

    return rewrite_notes(path, change) if wanted else []


def drop_note(path: Path, text: str) -> bool:
    """Remove the note `text` from the file; return whether it was there. Raises what `add_notes` raises."""

    def change(data: bytes) -> tuple[bytes, bool]:
        dropped = [entry for entry in note_entries(data) if entry.note.text == _one_line(text)]
        return _without(data, dropped), bool(dropped)

    return read_regular(path) is not None and rewrite_notes(path, change)


def rewrite_notes(path: Path, change: Callable[[bytes], tuple[bytes, _Result]]) -> _Result:
    """Rewrite the file with `change`, holding its lock; return the second item of what `change` returns.

    `change` gets the current bytes. It is called again if another program saves the file first. Raises what `add_notes`
    raises.
    """
    with hold_lock(path.with_name(path.name + ".lock"), label=f"the notes {path.parent.name}/{path.name}"):
        for _ in range(_TRIES):
            before = read_regular(path)
            data, result = change(before or b"")
            if data == (before or b""):
                return result
            if read_regular(path) == before:
                write_whole(path, data)
                return result
    raise Busy(f"another program keeps saving {path}; try again later")


def _within_limits(path: Path, data: bytes, is_stale: IsStale | None) -> bytes:
    """Write surplus notes to the archive and return `data` without them."""

    def importance(entry: NoteEntry) -> int:
        if is_stale is not None and is_stale(entry.note):
            return 0
        return 1 if entry.note.source == PROGRAM else 2

    all_entries = note_entries(data)
    compacted = [entry for entry in all_entries if entry.note.source == COMPACTED]
    notes = [entry for entry in all_entries if entry.note.source != COMPACTED]
    surplus = compacted[: max(0, len(compacted) - COMPACTED_LIMIT)]
    if len(notes) > LIMIT:
        movable = [entry for entry in notes if not entry.note.is_by_hand]
        surplus += sorted(movable, key=importance)[: len(notes) - LIMIT]  # stable: the oldest first
    if not surplus:
        return data
    archive = path.parent / "archive" / path.name
    archived = with_final_newline(read_regular(archive) or _HEAD)
    known, lines = set(archived.split(b"\n")), data.split(b"\n")
    texts = [b"\n".join(lines[entry.first : entry.end]) for entry in surplus]
    write_whole(archive, archived + b"".join(text + b"\n" for text in texts if text not in known))
    return _without(data, surplus)


def _without(data: bytes, dropped: Sequence[NoteEntry]) -> bytes:
    gone = {number for entry in dropped for number in range(entry.first, entry.end)}
    return b"\n".join(line for number, line in enumerate(data.split(b"\n")) if number not in gone)


def with_final_newline(data: bytes) -> bytes:
    """`data` with a newline at its end."""
    return data if data.endswith(b"\n") else data + b"\n"


# maps abbreviated blob hashes to contents; unknown ones are missing
Older = Callable[[Collection[str]], Mapping[str, bytes]]
_QUOTED = re.compile(r"``\s?(.+?)\s?``|`([^`]+)`")
_BARE = re.compile(r"(?<![\w/.])(?:\w+_\w+|[a-z]+[A-Z]\w*|\w+(?=\(\)))(?![\w/])")
_NAME = re.compile(r"[\w$@#.:>-]*?([^\W\d]\w*)(?:\(\s*\))?[!?]?")
_FILE = re.compile(r"(?:\S*/)?[\w-]+\.[a-z]{1,4}|\S*/\S*")


def code_names(text: str) -> tuple[str, ...]:
    """The code that a note names: text in backticks, and words that look like identifiers."""
    quoted = [(double or single).strip() for double, single in _QUOTED.findall(text)]
    bare = _BARE.findall(_QUOTED.sub(" ", text))
    return tuple(dict.fromkeys(name for name in (*quoted, *bare) if name))


def missing_names(text: str, data: bytes) -> tuple[str, ...]:
    """The names in `code_names(text)` that `data` does not contain."""

    def is_there(name: str) -> bool:
        single = _NAME.fullmatch(name)
        if single is None:  # other code than a name: white space does not count
            code = name.encode("utf-8", "surrogateescape")
            return code in data or b"".join(code.split()) in b"".join(data.split())
        last = single[1].encode("utf-8", "surrogateescape")  # of a dotted name
        return last in data and re.search(rb"(?<!\w)" + re.escape(last) + rb"(?!\w)", data) is not None

    return tuple(name for name in code_names(text) if not is_there(name))


def stale_notes(
    notes: Iterable[Note], data: bytes, older: Older | None = None
) -> dict[Note, tuple[str, ...]]:
    """Return the notes about code that `data` no longer contains, each with the missing names.

    Only names in the version that a note describes count; if that version is unknown, all names must be missing.
    `older` is called at most once.
    """
    doubtful = {
        note: absent
        for note in dict.fromkeys(notes)
        if note.source != COMPACTED and (absent := missing_names(note.text, data))
    }
    blobs = {note.blob for note in doubtful if note.blob}
    texts = older(blobs) if older is not None and blobs else {}
    stale: dict[Note, tuple[str, ...]] = {}
    for note, absent in doubtful.items():
        if note.blob in texts:
            never = missing_names(note.text, texts[note.blob])
            gone = tuple(name for name in absent if name not in never)
        else:
            own = [name for name in code_names(note.text) if not _FILE.fullmatch(name)]
            gone = tuple(own) if set(own) <= set(absent) else ()
        if gone:
            stale[note] = gone
    return stale


def older_texts(worktree: WorkTree) -> Older:
    """Return a function that reads blobs from git's object database, offline. It leaves out missing blobs."""
    return partial(local_blobs, worktree.top)


def staleness(memory: Memory, data: bytes, older: Older | None = None) -> IsStale:
    """Return a function that tells whether a note describes an older version of the file than `data`."""

    def is_stale(note: Note) -> bool:
        if note.source == COMPACTED:
            return False
        return memory.identity.is_of_older_text(note.day, note.blob) or bool(stale_notes([note], data, older))

    return is_stale


@dataclass(frozen=True)
class AddedNotes:
    """The result of adding notes: the notes as they are now in the file, how many are new, and whether secrets were
    masked."""

    notes: tuple[Note, ...]
    new: int
    masked: bool


def check_notes(texts: list[str]) -> None:
    """Raise UsageError if there are no notes, if there are too many, or if one is too long for a prompt."""
    if not any(text.strip() for text in texts):
        raise UsageError('empty note; use `repoagent memory note FILE "TEXT"`')
    if len(texts) > MOST:
        raise UsageError(f"too many notes ({len(texts)}); add at most {MOST} at once")
    longest = max(map(len, texts))
    if longest > LONGEST_TEXT:
        raise UsageError(
            f"the note has {longest:,} characters, more than the limit of {LONGEST_TEXT:,}; put it in "
            "a file and list that file in the `context` option"
        )


def add_user_notes(memory: Memory, worktree: WorkTree, texts: list[str], data: bytes | None) -> AddedNotes:
    """Add the user's notes on the current version of the file, `data` (None for a deleted file).

    Raises what `add_notes` raises.
    """
    blob = "" if data is None else blob_hash(data, worktree.object_format)
    masked = [mask(text) for text in texts]
    notes = [make_note(text, blob=blob, source=USER) for text in masked]
    is_stale = None if data is None else staleness(memory, data, older_texts(worktree))
    before = set(read_notes(memory.notes))
    current = add_notes(memory.notes, notes, is_stale=is_stale)
    return AddedNotes(tuple(current), len(set(current) - before), masked != texts)


# words, and operators where they cannot be an end of a sentence, emphasis or a dash at the end of a line
_TOKENS = re.compile(r"\w+|[<>=+%&|^]|[-!~](?=[\w=(])|\b[*/]+\b|(?<=\s)[*/-]+(?=\s)")


def has_same_words(new: str, old: str) -> bool:
    """Whether two notes have the same words and operators, regardless of case, punctuation and white space."""
    first, second = (_TOKENS.findall(text.casefold()) for text in (new, old))
    return new == old or first == second != []
