"""Edits in flight: each has its conversation in a file of its own until it is at its end.

A run that was killed, or that could not go on (no network, a limit), leaves that file; the same request on the same
bytes goes on from it, and no reply is paid for twice. A lock says whether the run is still alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from repoagent.errors import Busy, Refused
from repoagent.llm.conversation import Turn, read
from repoagent.store import Layout, locked

PREFIX = "edit-"


def conversation_file(place: Layout, edit_id: str) -> Path:
    """Where the conversation of an edit stands while it runs."""
    return place.conversations / f"{PREFIX}{edit_id}.md"


def mark(key: str) -> str:
    """What identifies a request in the first turn of its conversation: a short hash of its key."""
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@contextmanager
def alive(place: Layout, edit_id: str) -> Iterator[None]:
    """Hold the lock that says that this edit is running. Raises Busy when it runs elsewhere."""
    with locked(place.locks / f"{PREFIX}{edit_id}", timeout=0.0, what=f"the edit {edit_id}"):
        try:
            yield
        finally:  # while it is held: who waits for it sees that the file is gone and makes its own
            with suppress(OSError):  # a file that nobody holds stops nobody, and a later command removes it
                (place.locks / f"{PREFIX}{edit_id}").unlink()


def unfinished(place: Layout, key: str) -> str | None:
    """The id of the newest edit that began with the same `key`, is not at its end and runs nowhere; else None.

    An edit that was killed before it had any reply holds nothing to go on from: it is forgotten on the way.
    """
    wanted = mark(key)
    for file in sorted(place.conversations.glob(f"{PREFIX}*.md"), reverse=True):
        turns = _turns(file)
        edit_id = file.stem.removeprefix(PREFIX)
        if turns and all(turn.role != "assistant" for turn in turns):
            if _dead(place, edit_id):
                forget(place, edit_id)
        elif turns and turns[0].meta.get("asked") == wanted and _dead(place, edit_id):
            return edit_id
    return None


def forget_unanswered(place: Layout, edit_id: str) -> None:
    """Remove the conversation of an edit that had no reply: nothing in it was paid for."""
    if all(turn.role != "assistant" for turn in _turns(conversation_file(place, edit_id))):
        forget(place, edit_id)


def _turns(file: Path) -> tuple[Turn, ...]:
    """What was said, or nothing where the file is broken or newer: it stays where it is, and the run begins anew."""
    try:
        found = read(file)
    except Refused:
        return (Turn("assistant", "?"),)
    return found.turns if found else ()


def forget(place: Layout, edit_id: str) -> None:
    """The edit is at its end, and what was said is where it belongs."""
    _without_lock(place, edit_id).unlink(missing_ok=True)


def set_aside(place: Layout, edit_id: str) -> Path:
    """Keep the conversation of an edit that is not to be gone on with; where it is then."""
    file = _without_lock(place, edit_id)
    kept = file.with_name(f"kept-{edit_id}.md")
    if file.exists():
        file.replace(kept)
    return kept


def _without_lock(place: Layout, edit_id: str) -> Path:
    """The file of an edit whose lock, of which only that edit had need, is removed."""
    file = conversation_file(place, edit_id)
    file.with_name(f"{file.name}.lock").unlink(missing_ok=True)
    return file


def _dead(place: Layout, edit_id: str) -> bool:
    try:
        with alive(place, edit_id):
            return True
    except Busy:
        return False
