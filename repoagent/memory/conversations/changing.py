"""The one way in which a command replaces, makes or removes a conversation: under locks, recorded, whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from repoagent.errors import Refused
from repoagent.memory.conversations.names import refuse_clash
from repoagent.memory.conversations.past import Change, keep, lock_of, new_id, past_folder, record
from repoagent.memory.conversations.places import Place
from repoagent.store import Layout, ensure, locked, read_regular, write_whole
from repoagent.store.atomic import sweep
from repoagent.store.document import now
from repoagent.store.folders import failed, folder


class Overtaken(Refused):
    """The conversation is not any more what the change was made for."""


@contextmanager
def held_still(layout: Layout, place: Place) -> Iterator[bytes | None]:
    """What stands in `place`, which no command can change within the block. Raises Busy, Refused."""
    ensure(layout)
    with (
        locked(lock_of(layout), what="the conversations of this repository"),
        locked(place.path.with_name(place.path.name + ".lock"), what=f"the conversation {place.name}"),
    ):
        for each in (past_folder(layout), layout.conversations):
            sweep(each)  # what a kill has left there
        yield read_regular(place.path)


def change(
    layout: Layout, place: Place, before: bytes | None, after: bytes | None, command: str, *, of: str = ""
) -> Change:
    """Put `after` into `place`, if `before` still stands there; None is for no conversation. Both texts are kept.

    `command` and `of` are as in `Change`. Raises Overtaken, Busy when a lock is held for too long, Refused where it
    can't be written or the name clashes with another.
    """
    if before is None and after is not None and place.kind == "general":
        refuse_clash(layout, place.name)
    with held_still(layout, place) as present:
        if present != before:
            raise Overtaken(f"{place.name} was changed meanwhile, and nothing was done: look at it again")
        return put(layout, place, present, after, command, of=of)


def put(
    layout: Layout, place: Place, present: bytes | None, after: bytes | None, command: str, *, of: str = ""
) -> Change:
    """As `change`, within `held_still`. The texts and the record come first: a kill after them loses nothing."""
    if present is None and after is not None and place.kind == "general":
        refuse_clash(layout, place.name)
    done = Change(
        new_id(), now(), place.key, place.name, command, keep(layout, present), keep(layout, after), of
    )
    if present == after:
        return done
    record(layout, done)
    if after is None:
        _remove(place)
    else:
        write_whole(place.path, after)
    return done


def _remove(place: Place) -> None:
    with folder(place.path.parent) as parent:
        try:
            os.unlink(place.path.name, dir_fd=parent)
            os.fsync(parent)
        except FileNotFoundError:
            return
        except OSError as error:
            raise failed("remove", place.path, error) from error
