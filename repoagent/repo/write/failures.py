"""What can keep a file from being written: somebody else has written it too, or it can't be replaced."""

from __future__ import annotations

from pathlib import Path

from repoagent.errors import Refused
from repoagent.repo.content import Content, Place, same
from repoagent.store.report import to_stderr


class Moved(Refused):
    """A file is no longer what the edit was made for. `current` holds what it is now, by path."""

    def __init__(self, current: dict[str, Content | None]) -> None:
        self.current = current
        names = ", ".join(sorted(current))
        super().__init__(f"{names} was changed meanwhile and is left as it is: run the edit again")


class CannotReplace(OSError):
    """The file can't be swapped for a new one without losing something: it must be written in place."""


def expect(place: Place, old: Content | None) -> None:
    """Raises Moved unless the file holds `old`."""
    found = place.look(place.name)
    if not same(found, old):
        raise Moved({place.path: found})


def saved_again(place: Place) -> Moved:
    """For a file that was saved once more while an earlier save was being put back; that one stays beside it."""
    number = 1
    while place.look(beside := f"{place.temporary}-saved-{number}") is not None:
        number += 1
    place.rename(place.temporary, beside)
    path = (Path(place.path).parent / beside).as_posix()
    to_stderr(f"{place.path} was saved twice while it was being written: the earlier save is kept in {path}")
    return Moved({place.path: place.look(place.name)})
