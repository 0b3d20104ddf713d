"""Merge an imported memory into an existing one, without duplicates.

Imported items are marked: a note by its source ("person, imported from team.tar.gz"), a turn and an edit by a field
`imported`. The mark does not count when items are compared, so importing twice adds nothing. Each file is written
whole, under its lock.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import date, datetime, timezone
from hashlib import sha256
from pathlib import Path
from time import monotonic

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, Refused
from repoagent.llm.conversation import Turn, dumps, loads, turn_offsets
from repoagent.memory.archive.format import (
    ARCHIVED_NOTES,
    CONVERSATION,
    EDITS,
    NOTES,
    ArchivedMemory,
    contents,
    listing,
    record_of,
)
from repoagent.memory.conversation_log import group_turns
from repoagent.memory.notes import COMPACTED, USER, Note, add_notes, entries, says_nothing_new
from repoagent.storage import jsonl
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.storage.folders import open_folder, regular, system_failed
from repoagent.storage.layout import Warn
from repoagent.storage.locks import flock_until, locked, still_at
from repoagent.storage.secrets import mask

FIELD = "imported"
_MARKED = re.compile(r"(?:(.{1,60}?), )?imported(?: from .{0,40})?")
_WHO, _FROM = 36, 28  # characters: a source has at most 80
_HEAD = b"# Notes\n\n"


def called(name: str) -> str:
    """What marks that something came out of the archive `name`: short, on one line, and no stamp of a note."""
    plain = " ".join(re.sub(r"[^\w .@+-]", " ", name.removesuffix(".tar.gz")).split())[:_FROM].strip()
    return f"imported from {plain}" if plain else "imported"


def arriving_notes(data: bytes, source: str, today: str) -> list[Note]:
    """The notes in the bytes of a notes file, masked; `source` says where they come from, "" for our own."""
    notes = [entry.note for entry in entries(data)]
    clean = [replace(note, text=" ".join(mask(note.text).split())) for note in notes]
    return [_marked(note, source, today) if source else note for note in clean if note.text]


def _marked(note: Note, source: str, today: str) -> Note:
    if note.source == COMPACTED:
        return note
    known = _MARKED.fullmatch(note.source)
    who = (known[1] or "" if known else note.source) or USER
    who = re.sub(r":(?= |\Z)", "", who)[:_WHO].strip()
    return replace(note, day=note.day or today, source=f"{who}, {source}")


def same_notes(notes: Iterable[Note]) -> set[tuple[str, str]]:
    """What notes say, whoever says it: to tell which of those that arrive are here."""
    return {(note.text, note.blob) for note in notes}


def new_notes(arriving: Sequence[Note], *here: bytes) -> list[Note]:
    """Those of `arriving` that are in none of these notes files, each once."""
    known = same_notes(entry.note for data in here for entry in entries(data))
    found = []
    for note in arriving:
        if (note.text, note.blob) not in known:
            known.add((note.text, note.blob))
            found.append(note)
    return found


def with_notes(data: bytes, notes: Sequence[Note]) -> bytes:
    """The notes file `data` with `notes` at its end."""
    whole = data or _HEAD
    whole += b"" if whole.endswith(b"\n") else b"\n"
    return whole + "".join(f"{note}\n" for note in notes).encode(errors="replace") if notes else data


def with_edits(data: bytes, arriving: bytes, source: str) -> tuple[bytes, int]:
    """The edits file `data` with the edits of `arriving` that it has not, in order of time; and how many these are.
    What stands there keeps its order."""
    lines = [line for line in data.split(b"\n") if line.strip()]
    known = {value["id"] for value in map(record_of, lines) if value is not None}
    latest = {value["id"]: value for value in map(record_of, arriving.split(b"\n")) if value is not None}
    new = [value for name, value in latest.items() if name not in known]
    if not new:
        return data, 0
    dated: list[tuple[str, bytes]] = []
    last = ""
    for line in lines:
        value = record_of(line)
        last = max(last, _moment(value["time"])) if value is not None else last
        dated.append((last, line))
    for value in new:
        moment = _moment(value["time"])
        clean = {name: mask(said) if name == "request" else said for name, said in value.items()}
        line = jsonl.dumps({**clean, FIELD: source} if source else clean)
        at = next((at for at, (other, _) in enumerate(dated) if other > moment), len(dated))
        if not lines:
            at = len(dated)  # alone, they stay as they were
        dated.insert(at, (moment, line))
    return b"".join(line + b"\n" for _, line in dated), len(new)


def _moment(time: str) -> str:
    """A time that sorts; as it is where it is none."""
    try:
        found = datetime.fromisoformat(re.sub(r"[Zz]\Z", "+00:00", time))
    except ValueError:
        return time
    return (
        (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).astimezone(timezone.utc).isoformat()
    )


def turns_of(data: bytes) -> tuple[Turn, ...]:
    """The turns of a conversation file. Raises as `llm.conversation.loads`."""
    return loads(data.decode("utf-8", "surrogateescape")).turns if data else ()


def nonce_of(data: bytes) -> str:
    """The nonce of a conversation file. Raises as `llm.conversation.loads`."""
    return loads(data.decode("utf-8", "surrogateescape")).nonce


def said(turns: Iterable[Turn]) -> set[str]:
    """What tells the exchanges apart: the edit, or what was said."""
    return {_key(group) for group in group_turns(turns)}


def new_turns(arriving: Iterable[Turn], known: set[str], source: str) -> list[Turn]:
    """The turns of those exchanges that are not `known` (as `said` has them), masked and marked."""
    found = []
    for group in group_turns(arriving):
        clean = [replace(turn, text=mask(turn.text)) for turn in group]
        if not {_key(group), _key(clean)} & known:
            known.add(_key(clean))
            found += [replace(turn, meta=_meta(turn.meta, source)) for turn in clean]
    return found


def _meta(meta: Mapping[str, str], source: str) -> Mapping[str, str]:
    return {**meta, FIELD: source} if source else meta


def _key(group: Sequence[Turn]) -> str:
    edit = group[0].meta.get("edit", "")
    if edit:
        return f"edit {edit}"
    text = "\0".join(part for turn in group for part in (turn.role, turn.text.strip()))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def with_turns(data: bytes, turns: Sequence[Turn], nonce: str = "") -> bytes:
    """The conversation file `data` with `turns` before what it has. What a person has written there stays."""
    if not turns:
        return data
    if not data:
        return _encoded(dumps(turns, nonce))
    text = data.decode("utf-8", "surrogateescape")
    here = loads(text)
    made = dumps([*turns, *here.turns], here.nonce)
    places = turn_offsets(text)
    begin = places[0] if places else len(text)
    if loads(made).nonce == here.nonce:  # ours stay byte for byte
        first = dumps(turns, here.nonce)
        blocks = first[turn_offsets(first)[0] :]
        return _encoded(text[:begin] + "\n" * (not text[:begin].endswith("\n")) + blocks + text[begin:])
    title = made.index("\n") + 1
    return _encoded(made[:title] + text[text.index("\n") + 1 : begin] + made[turn_offsets(made)[0] :])


def _encoded(text: str) -> bytes:
    return re.sub("[\ud800-\udc7f\udd00-\udfff]", "\ufffd", text).encode("utf-8", "surrogateescape")


_WAIT = 10.0  # seconds


@dataclass(frozen=True)
class Counts:
    """How many notes, edits and exchanges."""

    notes: int = 0
    edits: int = 0
    exchanges: int = 0

    def __bool__(self) -> bool:
        return bool(self.notes or self.edits or self.exchanges)


@dataclass(frozen=True)
class _Incoming:
    parcel: ArchivedMemory
    source: str
    write: bool
    instead: bool

    def file(self, path: str) -> bytes:
        return self.parcel.files.get(path, b"")


def merge_memory(
    place: Path, parcel: ArchivedMemory, source: str, *, write: bool, instead: bool = False, warn: Warn
) -> Counts:
    """Take into the memory folder `place` what it has not; how much that is. Without `write` it is only counted. With
    `instead` what arrives takes the place of the notes, edits and conversation that are there.

    Raises Busy, and Refused where it can't be written.
    """
    arriving = _Incoming(parcel, source, write, instead)
    exchanges = _conversations(place, arriving, warn)
    return Counts(_notes(place, arriving), _edits(place, arriving), exchanges)


def _notes(place: Path, arriving: _Incoming) -> int:
    path, away = place / NOTES, place / ARCHIVED_NOTES
    today = date.today().isoformat()
    notes = arriving_notes(arriving.file(NOTES), arriving.source, today)
    old = arriving_notes(arriving.file(ARCHIVED_NOTES), arriving.source, today)
    if arriving.instead:
        if arriving.write:
            with _locked(path):
                write_whole(path, with_notes(b"", notes))
        return len(notes)
    here, put_away = read_regular(path) or b"", read_regular(away) or b""
    fresh = [
        note
        for note in new_notes(notes, here, put_away)
        if not _is_said([e.note for e in entries(here)], note)
    ]
    older = new_notes(old, here, put_away, arriving.file(NOTES))
    if arriving.write and older:
        with _locked(path):
            before = read_regular(away) or b""
            write_whole(away, with_notes(before, new_notes(older, before)))
    if arriving.write and fresh:
        add_notes(path, fresh)
    return len(fresh) + len(older)


def _is_said(known: list[Note], note: Note) -> bool:
    return note.source != COMPACTED and any(
        old.source != COMPACTED and says_nothing_new(note.text, old.text) for old in known
    )


def _edits(place: Path, arriving: _Incoming) -> int:
    path, data = place / EDITS, arriving.file(EDITS)
    if not data:
        if arriving.instead and arriving.write and read_regular(path):
            _rewritten(path, lambda before: b"")
        return 0
    if not arriving.write:
        return with_edits(read_regular(path) or b"", data, arriving.source)[1]
    new = with_edits(b"" if arriving.instead else read_regular(path) or b"", data, arriving.source)[1]
    if new:
        _rewritten(
            path, lambda before: with_edits(b"" if arriving.instead else before, data, arriving.source)[0]
        )
    return new


def _conversations(place: Path, arriving: _Incoming, warn: Warn) -> int:
    if not any(True for _ in arriving.parcel.conversations()) and not arriving.instead:
        return 0
    path = place / CONVERSATION
    if not arriving.write:
        return _said(place, arriving, warn, lambda name, data: None)
    with _locked(path):
        return _said(place, arriving, warn, lambda name, data: write_whole(place / name, data))


def _said(place: Path, arriving: _Incoming, warn: Warn, put: Callable[[str, bytes], None]) -> int:
    """What was put away before, to the archive; the rest before what was said here."""
    files = contents(place, [path for path in listing(place)[0] if path.startswith("archive/conversation-")])
    here = b"" if arriving.instead else read_regular(place / CONVERSATION) or b""
    known: set[str] = set()
    for path, data in [] if arriving.instead else [*files.items(), (CONVERSATION, here)]:
        try:
            known |= said(turns_of(data))
        except Refused as error:
            warn(f"{place / path}: {error}; did not merge its conversation")
            if path == CONVERSATION:
                return 0
    count = 0
    for path, data in arriving.parcel.conversations():
        turns = new_turns(turns_of(data), known, arriving.source)
        count += len(said(turns))
        if path == CONVERSATION:
            whole = with_turns(here, turns, nonce_of(data))
            if whole != (read_regular(place / CONVERSATION) or b""):
                put(path, whole)
        elif turns and not (arriving.instead and path in files):
            whole = with_turns(b"", turns, nonce_of(data))
            put(path if path not in files else f"{path[:-3]}-{sha256(whole).hexdigest()[:8]}.md", whole)
    return count


def _locked(path: Path) -> AbstractContextManager[None]:
    return locked(path.with_name(path.name + ".lock"), what=f"{path.parent.name}/{path.name}")


def _rewritten(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Write what `change` makes of a file that others append to: they wait for its lock, and then see that another file
    has its name."""
    deadline = monotonic() + _WAIT
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        with open_folder(path.parent) as parent:
            try:
                opened = os.open(path.name, flags, 0o600, dir_fd=parent)
            except OSError as error:
                raise system_failed("write", path, error) from error
            try:
                regular(opened, path)
                if not flock_until(opened, deadline, path):
                    raise Busy(
                        f"another process has been writing {path} for more than {_WAIT:g} s; try again"
                    )
                if still_at(opened, parent, path.name):
                    write_whole(path, change(read_regular(path) or b""))
                    return
            finally:
                os.close(opened)
