"""A long file as a prompt shows it: what it is, its outline, the parts that the request is about."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from repoagent.agent import fence
from repoagent.dataclass import dataclass
from repoagent.edit.briefing.context import named, quoted, shown
from repoagent.edit.large.map import file_map
from repoagent.edit.large.parts import About, choose
from repoagent.edit.large.room import Room
from repoagent.edit.large.terms import read_query
from repoagent.edit.large.units import Unit, units
from repoagent.repo import Source

LONG_LINE = 2_000  # characters of a line that hardly any person wrote


@dataclass(frozen=True)
class Excerpt:
    """What of a file is shown: the parts in its order, and its outline ("" without one). `lines` and `size` are those
    of the whole file, `longest` the characters of its longest line."""

    parts: tuple[Unit, ...]
    outline: str
    lines: int
    size: int
    longest: int


@lru_cache(maxsize=8)  # what a prompt holds is asked for more than once
def excerpt_of(path: str, data: bytes, about: About, room: Room) -> Excerpt:
    """The parts of a file that a request is about, and its outline, for so much `room`. Raises Refused for a binary
    file."""
    from repoagent.split import outline

    text = shown(data)
    lines = text.split("\n")
    encoded = text.encode("utf-8", "surrogatepass")
    symbols = outline(path, encoded)
    parts = tuple(choose(path, units(path, text), symbols, about, room.parts))
    return Excerpt(
        parts,
        file_map(symbols, parts, read_query(about.request, path), room.map),
        len(lines) - (lines[-1] == ""),
        len(encoded),
        max(map(len, lines)),
    )


def large_block(source: Source, role: str, excerpt: Excerpt) -> str:
    """The text of it, so fenced that nothing in it can end a block or pass for a turn."""
    name = named(source.path)
    remarks = [f"{excerpt.lines:,} lines", f"{excerpt.size:,} bytes", "too long to be shown whole"]
    if excerpt.lines == 1:
        remarks[0] = "1 line"
    if excerpt.longest > LONG_LINE:
        remarks.append(f"its longest line has {excerpt.longest:,} characters")
    said = [f"File {name} ({role}; {', '.join(remarks)}). Shown here are only {_where(excerpt.parts)}."]
    if excerpt.outline:
        said += ["Its outline:", fence(excerpt.outline, f"outline path={quoted(source.path)}")]
    said += _fenced(source, excerpt.parts)
    return "\n".join(said) + "\n\n"


def bare_block(source: Source, excerpt: Excerpt) -> str:
    """The same for a model that has no tools and copies what it sees: the parts alone."""
    said = [
        f"File {named(source.path)}, of which only {_where(excerpt.parts)} are shown. Change only what is shown."
    ]
    return "\n".join([*said, *_fenced(source, excerpt.parts)]) + "\n\n"


def _fenced(source: Source, parts: Sequence[Unit]) -> list[str]:
    path = quoted(source.path)
    return [fence(part.text, f'file path={path} lines="{_lines(part)}"{_characters(part)}') for part in parts]


def _lines(part: Unit) -> str:
    return f"{part.first}-{part.last}" if part.last > part.first else f"{part.first}"


def _characters(part: Unit) -> str:
    """The piece of its line, from 1, as `read` takes it."""
    return f' characters="{part.columns[0] + 1}-{part.columns[1]}"' if part.columns else ""


def _where(parts: Sequence[Unit]) -> str:
    """Which lines are shown, in words."""
    whole = [_lines(part) for part in parts if part.columns is None]
    cut: dict[int, list[str]] = {}
    for part in parts:
        if part.columns:
            cut.setdefault(part.first, []).append(f"{part.columns[0] + 1}-{part.columns[1]}")
    said = ["lines " + ", ".join(whole)] if whole else []
    said += [f"of line {line} the characters {', '.join(pieces)}" for line, pieces in cut.items()]
    return " and ".join(said)
