"""Where such texts stand, and how one is read: no link leads out of a repository, nothing special is opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.repo.content import open_place
from repoagent.repo.paths import check_path

WhyNot = Callable[[str], "str | None"]
ENTRIES = 200  # of one folder are looked at


@dataclass(frozen=True)
class Place:
    """A folder of texts.

    `base`: what nothing of it may lead out of; None for a person's own folder, in which links are theirs to make.
    `top`: what the paths begin at that `why_not` is asked about. `named`: by whom it is named, so that it has to be
    there; "" for a place where there may be nothing.
    """

    folder: Path
    base: Path | None = None
    top: Path | None = None
    why_not: WhyNot | None = None
    named: str = ""

    @property
    def own(self) -> bool:
        """Whether it is the person's; what a repository provides is data."""
        return self.base is None

    def shown(self, path: Path) -> str:
        """`path` as a person calls it: from the top of the repository, or from their home."""
        for start, sign in ((self.top, ""), (Path(os.environ.get("HOME") or "/nowhere"), "~/")):
            if start is not None and path.is_relative_to(start):
                return sign + path.relative_to(start).as_posix()
        return str(path)


def names_in(place: Place, warn: Callable[[str], None]) -> list[str]:
    """The names in the folder, sorted, at most ENTRIES, which `warn` is told; none when there is no such folder.

    Raises Refused, worded as the end of a sentence, when it can't be listed or leads out of the repository.
    """
    if place.named and not place.folder.is_absolute():
        raise Refused(f"is named by {place.named}, and is no whole path")
    if not os.path.lexists(place.folder) and not place.named:
        return []
    real = inside(place, place.folder)
    try:
        with os.scandir(real) as found:
            names = sorted(entry.name for entry in found if not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        if place.named:
            raise Refused(f"is named by {place.named}, and there is no such folder") from None
        return []
    except OSError as error:
        raise Refused(f"can't be listed ({error.strerror})") from error
    if len(names) > ENTRIES:
        warn(f"{place.shown(place.folder)} has {len(names)} entries: the first {ENTRIES} are looked at")
    return names[:ENTRIES]


def inside(place: Place, path: Path) -> Path:
    """The real path of `path`. Raises Refused, worded as the end of a sentence, when it leads out of the repository
    or may not be shown."""
    real = Path(os.path.realpath(path))
    if place.base is None:
        return real
    base = Path(os.path.realpath(place.base))
    if not real.is_relative_to(base):
        raise Refused("leads out of the repository")
    for each in {path, real}:
        top = place.top if each is path else place.top and Path(os.path.realpath(place.top))
        if top is None or not each.is_relative_to(top) or each == top:
            continue
        name = each.relative_to(top).as_posix()
        try:
            check_path(name)
        except Refused as error:
            raise Refused(f"is not read: {error}") from error
        if place.why_not and (reason := place.why_not(name)):
            raise Refused(f"is not read: {reason.rstrip('.')}")
    return real


def read_text(place: Place, path: Path, limit: int, *, within: Path | None = None) -> str | None:
    """The text of `path`, of at most `limit` bytes; None when there is no such file. `within`: a folder that it may not
    lead out of either.

    Raises Refused, worded as the end of a sentence ("is no regular file"), for anything that may not be read.
    """
    real = inside(place, path)
    if within is not None and not real.is_relative_to(os.path.realpath(within)):
        raise Refused("leads out of its folder")
    base = Path(os.path.realpath(place.base)) if place.base else real.parent
    try:
        data = _bytes(base, real.relative_to(base).as_posix(), limit)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Refused(f"can't be read ({error.strerror})") from error
    if b"\0" in data:
        raise Refused("is no text")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise Refused("is not UTF-8") from error


def _bytes(base: Path, name: str, limit: int) -> bytes:
    """No link is followed: where one appears after the path was resolved, that is an OSError."""
    with open_place(base, name) as place:
        descriptor = place.open(place.name, os.O_RDONLY)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Refused("is no regular file")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(limit + 1)
        finally:
            os.close(descriptor)
    if len(data) > limit:
        raise Refused(f"has more than {limit:,} bytes")
    return data
