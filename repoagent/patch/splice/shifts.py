"""How the indentation of a hunk can have become another."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from repoagent.patch.splice.first_column import Pair

Shift = Callable[[str], "str | None"]
_UNITS = (2, 3, 4, 8)


def shifts(pairs: set[Pair]) -> Iterator[list[Shift]]:
    """Kinds of shift, plainest first: none, a constant prefix, another unit, another unit and depth."""
    h, f = max(pairs)
    yield [str]
    more, less = f.removesuffix(h), h.removesuffix(f)
    yield [lambda indent: more + indent] if f.endswith(h) else []
    yield (
        [lambda indent: indent.removeprefix(less) if indent.startswith(less) else None]
        if h.endswith(f)
        else []
    )
    yield [
        *(shift for unit in _UNITS for shift in (_to_tabs(unit, 0), _to_spaces(unit, 0))),
        *(_rescaled(unit, other, 0) for unit in _UNITS for other in _UNITS if unit != other),
    ]
    yield [
        *(
            shift
            for unit in _UNITS
            for shift in (
                _to_tabs(unit, f.count("\t") - len(h) // unit),
                _to_spaces(unit, len(f) // unit - h.count("\t")),
            )
        ),
        *(
            _rescaled(unit, other, len(f) // other - len(h) // unit)
            for unit in _UNITS
            for other in _UNITS
            if unit != other
        ),
    ]


def _to_tabs(unit: int, offset: int) -> Shift:
    def shift(indent: str) -> str | None:
        depth = len(indent) // unit + offset
        return "\t" * depth if not indent.strip(" ") and len(indent) % unit == 0 and depth >= 0 else None

    return shift


def _to_spaces(unit: int, offset: int) -> Shift:
    def shift(indent: str) -> str | None:
        depth = len(indent) + offset
        return " " * (unit * depth) if not indent.strip("\t") and depth >= 0 else None

    return shift


def _rescaled(unit: int, other: int, offset: int) -> Shift:
    """Steps of `unit` spaces in the hunk are steps of `other` in the file."""

    def shift(indent: str) -> str | None:
        depth = len(indent) // unit + offset
        return (
            " " * (other * depth)
            if not indent.strip(" ") and len(indent) % unit == 0 and depth >= 0
            else None
        )

    return shift
