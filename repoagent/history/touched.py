"""Which definitions of a file a change touched: two outlines compared by name and by their own lines."""

from __future__ import annotations

from collections import Counter

from repoagent.dataclass import dataclass

_FUNCTIONS = frozenset({"function", "method"})
_SHORTEST = 7  # bytes of a definition that is known again under another name; `class X:` just is


@dataclass(frozen=True)
class Touched:
    """Qualified names of what was added, removed and changed, in order of the text, `renamed` as (old, new).

    What lies in an added or removed one is not named again. `spaces`: only white space is different; `outside`:
    the file has definitions, and none was touched.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    spaces: bool = False
    outside: bool = False

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.renamed)


@dataclass(frozen=True)
class Part:
    """A definition with its own text: without that of the definitions in it, and without white space."""

    name: str
    qualified_name: str
    holder: str
    text: bytes


def parts(path: str, data: bytes) -> tuple[Part, ...] | None:
    """The definitions of a file; what is local to a function counts as its text. None without an outline."""
    from repoagent.split import language_of, outline

    if language_of(path, data) is None:
        return None
    lines = data.split(b"\n")
    owner: dict[int, int] = {}
    kept: list[tuple[str, str, str]] = []
    holders: list[tuple[int, str]] = []  # (depth, qualified name)
    local_below: int | None = None
    for symbol in outline(path, data):
        if local_below is not None and symbol.depth > local_below:
            continue
        local_below = symbol.depth if symbol.kind in _FUNCTIONS else None
        while holders and holders[-1][0] >= symbol.depth:
            holders.pop()
        holder = holders[-1][1] if holders else ""
        holders.append((symbol.depth, symbol.qualified_name))
        for line in range(symbol.first_line, symbol.last_line + 1):
            owner[line] = len(kept)
        kept.append((symbol.name, symbol.qualified_name, holder))
    texts = [bytearray() for _ in kept]
    for line, number in owner.items():
        if line <= len(lines):
            texts[number] += b"".join(lines[line - 1].split())
    return tuple(Part(*names, bytes(text)) for names, text in zip(kept, texts, strict=True))


def compare(before: tuple[Part, ...], after: tuple[Part, ...]) -> Touched:
    """What is different. A definition that is the same but for its name, or its holder, was renamed."""
    old, new = _by_name(before), _by_name(after)
    gone = [part for key, part in old.items() if key not in new]
    come = [part for key, part in new.items() if key not in old]
    renamed: list[tuple[str, str]] = []
    nameless = Counter(map(_nameless, come))
    for part in tuple(gone):
        form = _nameless(part)
        match = next((other for other in come if _nameless(other) == form), None)
        if match is None or nameless[form] > 1 or len(form) < _SHORTEST:
            continue
        gone.remove(part)
        come.remove(match)
        renamed.append((part.qualified_name, match.qualified_name))
    moved = dict(renamed)
    renamed = [pair for pair in renamed if not _follows(pair, moved)]
    changed = [part.qualified_name for key, part in new.items() if key in old and old[key].text != part.text]
    found = Touched(_outermost(come), _outermost(gone), tuple(dict.fromkeys(changed)), tuple(renamed))
    return found or Touched(outside=bool(after))


def _by_name(found: tuple[Part, ...]) -> dict[tuple[str, int], Part]:
    """By name and, where a name is there more than once, which of them."""
    seen: Counter[str] = Counter()
    table = {}
    for part in found:
        table[part.qualified_name, seen[part.qualified_name]] = part
        seen[part.qualified_name] += 1
    return table


def _nameless(part: Part) -> bytes:
    return part.text.replace(part.name.encode("utf-8", "surrogatepass"), b"\0")


def _follows(pair: tuple[str, str], moved: dict[str, str]) -> bool:
    """Whether a member was renamed only because what holds it was."""
    old, new = (name.rpartition(".")[0] for name in pair)
    return bool(old) and moved.get(old) == new


def _outermost(found: list[Part]) -> tuple[str, ...]:
    names = {part.qualified_name for part in found}
    return tuple(dict.fromkeys(part.qualified_name for part in found if part.holder not in names))
