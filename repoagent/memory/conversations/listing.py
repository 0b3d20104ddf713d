"""What conversations there are, at a glance: what each is, how long, when it was spoken in, which file it is about."""

from __future__ import annotations

import os
from collections.abc import Iterator

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.llm.conversation import BrokenConversation, NewerConversation
from repoagent.memory.conversations.names import ENDING, names
from repoagent.memory.conversations.origin import about_of
from repoagent.memory.conversations.places import FILE, Held, Place, held, kind_of
from repoagent.memory.identity.remember import listing
from repoagent.store import Layout, Warn, to_stderr

AT_WORK, UNFINISHED, KEPT = "at work", "unfinished", "kept"


@dataclass(frozen=True)
class Entry:
    """One conversation. `size` is in bytes, `last` the ISO 8601 time of its last turn that has one. `state` is of the
    program's own only: "at work", "unfinished" (the same request goes on from it) or "kept". `problem` says why it
    can't be read, "" for one that can, `trouble` the same in a word or two. `about` is the file that it is, or was,
    about."""

    place: Place
    turns: int = 0
    size: int = 0
    last: str = ""
    state: str = ""
    problem: str = ""
    about: str = ""
    trouble: str = ""


def entries(layout: Layout) -> list[Entry]:
    """All conversations that have a name, by name; broken ones too, with their problem."""
    places = (
        Place(name, kind_of(name), layout.conversations / f"{name}{ENDING}", f"name:{name}")
        for name in names(layout)
    )
    return list(_entries(layout, places))


def entries_of_files(layout: Layout, *, warn: Warn = to_stderr) -> list[Entry]:
    """The conversations of the memories of files, by path."""
    places = (
        Place(f"{FILE}{path}", "file", layout.memory / folder / "conversation.md", f"memory:{folder}", path)
        for path, folder in listing(layout, warn=warn)
    )
    return list(_entries(layout, places))


def _entries(layout: Layout, places: Iterator[Place]) -> Iterator[Entry]:
    for place in places:
        try:
            found = held(place)
        except BrokenConversation as error:
            yield _unread(place, error, "broken")
        except NewerConversation as error:
            yield _unread(place, error, "newer format")
        except Refused as error:  # a link, or one that the system does not give us
            yield _unread(place, error, "not readable")
        else:
            if found is not None:
                yield _entry(layout, found)


def _unread(place: Place, error: Refused, trouble: str) -> Entry:
    problem = str(error).removeprefix(f"{place.path}: ").replace(f"{place.path} ", "it ")
    return Entry(place, size=_size(place), problem=problem, about=place.about, trouble=trouble)


def _entry(layout: Layout, found: Held) -> Entry:
    place, turns = found.place, found.conversation.turns
    about = place.about or about_of(found.text)
    last = next((turn.meta["time"] for turn in reversed(turns) if "time" in turn.meta), "")
    return Entry(place, len(turns), len(found.data), last, _state(layout, place), "", about)


def _size(place: Place) -> int:
    try:
        return place.path.lstat().st_size
    except OSError:
        return 0


def _state(layout: Layout, place: Place) -> str:
    if place.kind != "edit":
        return ""
    if place.name.casefold().startswith("kept-"):
        return KEPT
    return AT_WORK if _is_alive(layout, place.name) else UNFINISHED


def _is_alive(layout: Layout, name: str) -> bool:
    """Whether the process that has signed the lock of this edit runs. The lock itself is not tried: who wants it just
    then would take us for a run that goes on."""
    try:
        signed = (layout.locks / name).read_text(errors="replace").split(" ", 2)
        if len(signed) < 3 or signed[1] != (os.uname().nodename or "-"):
            return len(signed) == 3
        os.kill(int(signed[0]), 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True
