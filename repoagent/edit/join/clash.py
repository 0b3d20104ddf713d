"""What stands against a join: the source has changed where a segment was edited."""

from __future__ import annotations

from collections.abc import Sequence

from repoagent.errors import Refused
from repoagent.split.joining import Clash, Place

NAMED = 4  # places in a sentence


class JoinClash(Refused):
    """Segments and their source were changed on the same lines. Nothing was written."""

    def __init__(self, path: str, clashes: Sequence[Clash]) -> None:
        self.path = path
        self.clashes = tuple(clashes)
        super().__init__(
            f"{path} has changed where segments of it were edited: {described(path, clashes)}; nothing was written. "
            "Work its change into the segment and say --force, which shows what it discards and asks first; or edit "
            "the file itself"
        )

    def details(self) -> dict[str, object]:
        """Each conflict: `files`, and the `places`, whose lines count from 1."""
        return {
            "source": self.path,
            "conflicts": [
                {
                    "files": list(clash.files),
                    "places": [
                        {"file": place.file, "lines": list(place.lines), "source_lines": list(place.source)}
                        for place in clash.places
                    ],
                }
                for clash in self.clashes
            ],
        }


def described(path: str, clashes: Sequence[Clash]) -> str:
    """The conflicts in words, with the segment files and the lines."""
    said = [one for clash in clashes for one in _each(path, clash)]
    more = f", and {len(said) - NAMED} more" if len(said) > NAMED else ""
    return "; ".join(said[:NAMED]) + more


def _each(path: str, clash: Clash) -> list[str]:
    if not clash.places:
        names = " and ".join(clash.files)
        return [f"{names} can't be merged with its change in one way only"]
    return [_said(path, place) for place in clash.places]


def _said(path: str, place: Place) -> str:
    mine = _lines(place.lines, f"of {place.file}", "taken out of")
    return f"{mine} against {_lines(place.source, f'of {path}', 'taken out of')}"


def _lines(lines: tuple[int, int], of: str, gone: str) -> str:
    first, last = lines
    if last < first:
        return f"lines {gone} {of.removeprefix('of ')} at line {first}"
    return f"line {first} {of}" if first == last else f"lines {first}-{last} {of}"
