"""What can keep a file from being written: somebody else has written it too, or it can't be replaced."""

from __future__ import annotations

from repoagent.errors import Refused
from repoagent.repo.content import Content, Place, same


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


def saved_again(place: Place) -> Refused:
    """For a file that was written while another writer's save was being put back."""
    return Refused(f"{place.path} is saved again and again: one save is kept beside it as {place.temporary}")
