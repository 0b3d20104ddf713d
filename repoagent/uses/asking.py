"""What a text asks for: `NAME`, `Class.method`, `FILE:NAME`, or a FILE with all that it defines."""

from __future__ import annotations

import re
from collections.abc import Iterable

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.repo.missing import no_such_file
from repoagent.repo.source import read_source
from repoagent.repo.worktree import WorkTree
from repoagent.split.symbols.find import find_symbols
from repoagent.split.symbols.outlines import outline
from repoagent.split.symbols.symbol import Symbol
from repoagent.uses.values import CODE

LONGEST = 200  # characters of a name
SYMBOLS = 100  # of a file
_SEPARATOR = re.compile(r"::|#|->|\.")
_LINE = re.compile(r"(.+):\d+")


@dataclass(frozen=True)
class Asked:
    """A symbol: as it is called in the answer, its last name alone, its path of names ("" for a bare name of no file),
    and the file that defines it ("" for any)."""

    text: str
    name: str
    qualified: str = ""
    file: str = ""


def asked_symbol(text: str, file: str = "", data: bytes | None = None) -> Asked:
    """The symbol that `text` means, of `file` with its `data` where one is named.

    Raises UsageError for what is no name, and for a name that the file has not.
    """
    plain = text.strip().removesuffix("()")
    if data is not None and (line := _LINE.fullmatch(plain)):
        plain = line[1]
    parts = [part for part in _SEPARATOR.split(plain) if part]
    if not parts or len(plain) > LONGEST or not re.fullmatch(r"[^\s\x00-\x1f/\\]+", plain):
        raise UsageError(f"{text[:80]!r} is not a symbol: name one, as NAME, Class.method or FILE:NAME")
    name = parts[-1]
    if file and not re.search(
        rb"(?<!\w)" + re.escape(name.encode("utf-8", "surrogateescape")) + rb"(?!\w)", data or b""
    ):
        find_symbols(file, data or b"", text)  # says what there is
        raise UsageError(f"{file} has no {name}")
    return Asked(plain, name, ".".join(parts) if file or len(parts) > 1 else "", file)


def symbols_of_file(worktree: WorkTree, path: str) -> list[Asked]:
    """What a file defines for others, each once: not what is inside of functions, nor names that Python itself calls.
    Raises UsageError for a file that is not there, or defines nothing."""
    data = read_source(worktree, path).data
    if data is None:
        raise no_such_file(path, worktree.top)
    found = {symbol.qualified_name: symbol.name for symbol in outer(outline(path, data))}
    if not found:
        raise UsageError(f"{path} defines nothing that repoagent can read: name a symbol instead")
    return [Asked(text, name, text, path) for text, name in list(found.items())[:SYMBOLS]]


def outer(symbols: Iterable[Symbol]) -> list[Symbol]:
    """The definitions of code that others can use by their name."""
    found = []
    local_below: int | None = None
    for symbol in symbols:
        if local_below is not None and symbol.depth > local_below:
            continue
        local_below = symbol.depth if symbol.kind in ("function", "method") else None
        special = symbol.name.startswith("__") and symbol.name.endswith("__")
        if symbol.kind in CODE and not special and len(symbol.name) > 1:
            found.append(symbol)
    return found
