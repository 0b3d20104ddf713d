"""What a slip is, and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.patch.draft import Draft

FILE, HUNKS, LINES, NUMBERS, NAMES, RAW, BLOCKS, ANSWER = range(8)  # when it happens
Doing = Callable[[Draft], bool]


@dataclass(frozen=True)
class Slip:
    """`do` makes it happen in a draft, or returns False where it can't. Slips that share a word of `about` don't
    go together. After one with `blur` the hunks' numbers can't be believed, and their text only so far."""

    name: str
    stage: int
    about: frozenset[str]
    do: Doing
    blur: int = 0
    combines: bool = True
    files: int = 1


SLIPS: dict[str, Slip] = {}


def slip(
    name: str, stage: int, about: str = "", *, blur: int = 0, combines: bool = True, files: int = 1
) -> Callable[[Doing], Doing]:
    """Add a function to the list. `about` are words."""

    def add(do: Doing) -> Doing:
        assert name not in SLIPS
        SLIPS[name] = Slip(name, stage, frozenset(about.split() or [name]), do, blur, combines, files)
        return do

    return add
