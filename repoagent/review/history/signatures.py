"""What of a file others may call, and whether a change of it leaves their calls right."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

MOST_BYTES = 1 << 20
_KINDS = frozenset(
    {"function", "method", "class", "struct", "union", "enum", "interface", "type", "macro", "declaration"}
)
_CALLED = frozenset({"function", "method", "macro", "declaration"})
_MAKERS = frozenset({"__init__", "__new__", "constructor"})  # by which callers name the class
_WORD = re.compile(r"\w+\Z")
# Names that say too little to be looked for in other files.
_COMMON = frozenset(
    {"main", "init", "new", "get", "set", "run", "test", "setup", "close", "open", "read", "write", "name"}
)


class Gone(NamedTuple):
    """A symbol that others may call: removed (`after` is ""), or with another signature; `line` is where it stands
    after the change, 0 for nowhere. Who uses a method names its `owner` too."""

    name: str
    owner: str
    qualified: str
    before: str
    after: str
    line: int


def differing(path: str, old: bytes | None, new: bytes | None) -> Iterator[Gone]:
    """The public symbols of the text before that are gone, or have another signature, in the text after."""
    if old is None or len(old) > MOST_BYTES or len(new or b"") > MOST_BYTES:
        return
    from repoagent.split import language_of
    from repoagent.split.symbols.outlines import read_outline

    language = language_of(path, old)
    before = read_outline(path, old, language)
    after = read_outline(path, new or b"", language)
    if before is None or after is None or after[1] > before[1]:  # what does not parse any more shows less
        return
    heads = {(symbol.qualified_name, symbol.signature.rstrip("; {")) for symbol in before[0]}
    overloaded = {name for name, count in Counter(name for name, _ in heads).items() if count > 1}
    now: dict[str, dict[str, int]] = {}
    names = set()
    for symbol in after[0]:
        now.setdefault(symbol.qualified_name, {})[symbol.signature] = symbol.first_line
        names.add(symbol.name)
    inside = {symbol.qualified_name for symbol in before[0] if symbol.kind in ("function", "method")}
    for symbol in before[0]:
        name, (owner, _, _) = symbol.qualified_name, symbol.qualified_name.rpartition(".")
        if (
            name in overloaded
            or symbol.kind not in _KINDS
            or not is_public(symbol.name, symbol.signature, language or "")
        ):
            continue
        if owner in inside or any(not _is_public_name(part) for part in name.split(".")):
            continue
        owner = owner.rpartition(".")[2]
        if symbol.name in _MAKERS:  # callers name the class
            word, owner = owner, ""
        else:
            word = symbol.name
        there = now.get(name)
        if there is None:
            if symbol.name in names or not word:  # moved within the file
                continue
            yield Gone(word, owner, name, symbol.signature, "", 0)
        elif symbol.kind in _CALLED and len(there) == 1 and symbol.signature not in there:
            after_it, line = next(iter(there.items()))
            if not fits_old_callers(symbol.signature, after_it, language or ""):
                yield Gone(word, owner, name, symbol.signature, after_it, line)


def is_public(name: str, signature: str, language: str) -> bool:
    """Whether other files may use it, as far as its head says, and its name says enough to be looked for in them."""
    if name in _MAKERS:
        return True
    telling = len(name) > 5 or "_" in name.strip("_") or name[1:] != name[1:].lower()
    if (
        not telling
        or len(name) < 4
        or not _WORD.match(name)
        or name.lower() in _COMMON
        or not _is_public_name(name)
    ):
        return False
    words = set(re.findall(r"\w+", signature.partition("(")[0]))
    if language == "go":
        return name[:1].isupper()
    if language == "rust":
        return "pub" in words
    if language in ("c", "cpp"):
        return "static" not in words
    return not words.intersection({"private", "fileprivate", "internal"})


def _is_public_name(name: str) -> bool:
    return name in _MAKERS or not name.startswith(("_", "#"))


def parameters(signature: str) -> list[str] | None:
    """What stands between the outermost parentheses, cut at the commas; None where there are none, or not all."""
    begin = signature.find("(")
    if begin < 0:
        return None
    found, depth, last = [], 0, begin + 1
    for place in range(begin, len(signature)):
        character = signature[place]
        depth += (character in "([{<") - (
            character in ")]}" or (character == ">" and signature[place - 1] not in "-=")
        )
        if depth == 0 or (depth == 1 and character == ","):
            found.append(signature[last:place])
            last = place + 1
        if depth == 0:
            return [part.strip() for part in found if part.strip()]
    return None


def _bare(parameter: str, language: str) -> str:
    """What a caller has to keep to: in Python the name of a parameter, elsewhere its type, as far as it can be told."""
    before = parameter.partition("=")[0].strip()
    name, colon, kind = before.partition(":")
    if language == "python":
        return name.strip()
    if colon and language in ("rust", "typescript", "tsx", "kotlin", "swift", "scala"):
        return "".join(kind.split())
    if language in ("c", "cpp", "java", "csharp"):
        before = re.sub(r"(?<=[\s*&>\]])\w+((?:\[\w*\])*)\Z", r"\1", before)
    return "".join(before.split())


def fits_old_callers(before: str, after: str, language: str) -> bool:
    """Whether callers of the signature before need no change: the same parameters, in Python whatever their types are,
    and behind them at most such as have a default."""
    one, two = parameters(before), parameters(after)
    if one is None or two is None:
        return one is two or before.endswith("…") or after.endswith("…")
    old, new = [_bare(part, language) for part in one], [_bare(part, language) for part in two]
    if any("=" in was and "=" not in now for was, now in zip(one, two, strict=False)):
        return False
    rest = two[len(one) :]
    if language in ("c", "cpp"):  # what promises more about an argument takes what was given before
        freed = [_bare(re.sub(r"\bconst\b", "", part), language) for part in two]
        new = [less if less == was else now for less, was, now in zip(freed, old, new, strict=False)] + new[
            len(old) :
        ]
    return new[: len(old)] == old and all(
        "=" in part or "?" in part or part.startswith(("*", "/", "...")) for part in rest
    )
