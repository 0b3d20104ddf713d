"""Whether the code that a note is about is still there: by the names and the quoted code in it."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Collection, Iterable, Mapping

from repoagent.memory.identity.record import Memory
from repoagent.memory.notes.file import COMPACTED, IsStale, Note
from repoagent.repo.run import OFFLINE, git
from repoagent.repo.worktree import WorkTree

Older = Callable[
    [Collection[str]], Mapping[str, bytes]
]  # the contents of (abbreviated) blobs, where they are known

_QUOTED = re.compile(r"``\s?(.+?)\s?``|`([^`]+)`")
_BARE = re.compile(r"(?<![\w/.])(?:\w+_\w+|[a-z]+[A-Z]\w*|\w+(?=\(\)))(?![\w/])")
_NAME = re.compile(r"[\w$@#.:>-]*?([^\W\d]\w*)(?:\(\s*\))?[!?]?")
_FILE = re.compile(r"(?:\S*/)?[\w-]+\.[a-z]{1,4}|\S*/\S*")


def names(text: str) -> tuple[str, ...]:
    """The code that a note names: what stands in backticks, and words that only code has."""
    quoted = [(one or two).strip() for one, two in _QUOTED.findall(text)]
    bare = _BARE.findall(_QUOTED.sub(" ", text))
    return tuple(dict.fromkeys(name for name in (*quoted, *bare) if name))


def missing(text: str, data: bytes) -> tuple[str, ...]:
    """What of `names(text)` is not in a file with the bytes `data`."""
    plain = _plain(data)
    return tuple(name for name in names(text) if not _holds(plain, name))


def gone(notes: Iterable[Note], data: bytes, older: Older | None = None) -> dict[Note, tuple[str, ...]]:
    """The notes about code that is not in `data` any more, each with the names that are gone.

    A name may be of another file. Where the text that the note was true of is known, what was not in that does not
    count; where it is not, a note is stale when nothing of what it names is there. `older` is asked once, and only
    about notes in doubt.
    """
    doubtful = {
        note: absent
        for note in dict.fromkeys(notes)
        if note.source != COMPACTED and (absent := missing(note.text, data))
    }
    blobs = {note.blob for note in doubtful if note.blob}
    known = older(blobs) if older is not None and blobs else {}
    found: dict[Note, tuple[str, ...]] = {}
    for note, absent in doubtful.items():
        then = known.get(note.blob)
        if then is not None:
            never = missing(note.text, then)
            lost = tuple(name for name in absent if name not in never)
        else:
            own = [name for name in names(note.text) if not _FILE.fullmatch(name)]
            lost = tuple(own) if own and set(own) <= set(absent) else ()
        if lost:
            found[note] = lost
    return found


def older_texts(worktree: WorkTree) -> Older:
    """Looks blobs up among git's objects, all in one call and without a network; work that was never committed is not
    there."""

    def older(blobs: Collection[str]) -> dict[str, bytes]:
        wanted = sorted(blobs)
        asked = "".join(f"{blob}\n" for blob in wanted).encode()
        out = git(worktree.top, "cat-file", "--batch", stdin=asked, env=OFFLINE)
        found: dict[str, bytes] = {}
        position = 0
        for blob in wanted:
            end = out.index(b"\n", position)
            fields = out[position:end].split(b" ")
            position = end + 1
            if len(fields) == 3 and fields[2].isdigit():  # else it is missing, or short for several
                size = int(fields[2])
                if fields[1] == b"blob":
                    found[blob] = out[position : position + size]
                position += size + 1
        return found

    return older


def staleness(memory: Memory, data: bytes, older: Older | None = None) -> IsStale:
    """A function that says of a note whether it is about a text of the file that is gone; `data` is the present one."""

    def is_stale(note: Note) -> bool:
        if note.source == COMPACTED:
            return False
        return memory.identity.is_of_older_text(note.day, note.blob) or bool(gone([note], data, older))

    return is_stale


def _plain(data: bytes) -> bytes:
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode("utf-8", "replace")
    return data


def _holds(data: bytes, name: str) -> bool:
    """Whether `data` has `name`: of a (dotted) name its last part as a whole word, of other code the text, spaces
    apart."""
    wanted = name.encode("utf-8", "surrogateescape")
    single = _NAME.fullmatch(name)
    if single is None:
        return wanted in data or b"".join(wanted.split()) in b"".join(data.split())
    last = single[1].encode("utf-8", "surrogateescape")
    return last in data and re.search(rb"(?<!\w)" + re.escape(last) + rb"(?!\w)", data) is not None
