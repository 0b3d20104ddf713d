"""Outline a file: its symbols, found by `walk.py` with the tables of `rules.py`.

`outline_of` also says why a file has no outline, `find_symbols` resolves a name, and `lost_definitions` compares two
versions of a file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from repoagent.errors import UsageError
from repoagent.git.process import git
from repoagent.git.similar_paths import no_such_file
from repoagent.git.worktree import open_worktree, relative
from repoagent.syntax.languages import (
    LANGUAGES,
    LONG_TAIL,
    guess_language,
    install_hint,
    is_binary,
    language_of,
)
from repoagent.syntax.outline.data_formats import LANGUAGES_WITH_KEYS, key_symbols
from repoagent.syntax.outline.markup import is_plain_text
from repoagent.syntax.outline.rules import RULES
from repoagent.syntax.outline.symbol import PAGES, Symbol, clean
from repoagent.syntax.outline.walk import Definition, definitions_in
from repoagent.syntax.parser import flaws, parse_within, source_text

if TYPE_CHECKING:
    import tree_sitter

OUTLINE_SECONDS = 5.0
_FUNCTIONS = frozenset({"function", "method"})
_HOLDERS = frozenset({"class", "struct", "union", "enum", "interface", "impl"})
_NOT_LOCAL = frozenset({"declaration", "constant", "variable"})
SHEETS = frozenset({"css", "scss"})
_LEADS = re.compile(rb"([(\[<])\s*\n\s*")
_TRAILS = re.compile(rb",?\s*\n\s*([)\]>])")
_NOTE = re.compile(rb"#|//|/\*")
_WITH_TYPES = frozenset({"type_alias_declaration"})
_NO_HEAD = frozenset({"decorator", "comment"})


def outline(path: str, data: bytes) -> tuple[Symbol, ...]:
    """The symbols of a file in order, containers before their contents.

    Empty for a language without a grammar, a binary file, and one that takes too long to parse. Plain text,
    reStructuredText and AsciiDoc have their headings. Syntax errors hide symbols near them, but raise nothing.
    """
    found = read_outline(path, data, language_of(path, data))
    return found[0] if found is not None else ()


def read_outline(path: str, data: bytes, language: str | None) -> tuple[tuple[Symbol, ...], int] | None:
    """As `outline` for a known language, with the number of syntax errors; None if it takes too long."""
    if language is not None:
        return _read(data, language)
    from repoagent.syntax.outline.markup import is_plain_text, underlined

    return (underlined(path, data) if is_plain_text(path) else ()), 0


@lru_cache(maxsize=4)  # an edit asks for the same text as prompt, as context of a problem and as "before"
def _read(data: bytes, language: str) -> tuple[tuple[Symbol, ...], int] | None:
    tree = parse_within(data, language, OUTLINE_SECONDS)
    if tree is None:
        return None
    text, broken = source_text(data), 0
    if tree.root_node.has_error:
        if language in ("c", "cpp"):
            from repoagent.syntax.outline.walk import without_macros

            tree = without_macros(text, tree, language)
        broken = sum(1 for _ in flaws(tree, text))
    return symbols_of(tree, text, language), broken


def symbols_of(tree: tree_sitter.Tree, text: bytes, language: str) -> tuple[Symbol, ...]:
    """The symbols of `text`, the result of `source_text`, from its tree; see `outline`."""
    if language == "markdown":
        from repoagent.syntax.outline.markup import headings

        return headings(text, tree)
    root = tree.root_node
    if language in LANGUAGES_WITH_KEYS:
        return key_symbols(root, language, text)
    if language in SHEETS:
        from repoagent.syntax.outline.markup import sheet_symbols

        return sheet_symbols(root, text)
    rules = RULES.get("html" if language in PAGES else language)
    if rules is None:
        from repoagent.syntax.outline.rules import tail_rules

        rules = tail_rules(language)
    found = definitions_in(root, rules, language, text)
    if language in PAGES:
        from repoagent.syntax.outline.pages import page_symbols

        return page_symbols(found, text)
    return _nest(found, text.split(b"\n"), text)


def _nest(found: list[Definition], lines: list[bytes], text: bytes) -> tuple[Symbol, ...]:
    symbols: list[Symbol] = []
    # end byte, symbol, the path that its name gives, its node
    holders: list[tuple[int, Symbol, tuple[str, ...], tree_sitter.Node]] = []
    for node, outer, kind, parts, notes, body in found:
        end = node.end_byte
        while holders and holders[-1][0] < end:
            holders.pop()
        if holders and node.type == "assignment_expression" and _is_value(node, holders[-1][3]):
            holders.pop()  # `exports.a = exports.b = function …`: side by side
        parent, path = (holders[-1][1], holders[-1][2]) if holders else (None, ())
        inside = parent.kind if parent else ""
        if inside in _FUNCTIONS and (
            kind in _NOT_LOCAL
            or (node.type == "assignment_expression" and not text.startswith(b"this.", node.start_byte))
        ):
            continue  # a local prototype or variable, or a handler hung on some object
        if node.type in _MEMBERS and inside in _WITH_HANDLERS and _handed_over(node, text):
            continue
        if kind == "function" and inside in _HOLDERS:
            kind = "method"
        first, last = _rows(outer, notes, lines)
        if parent:
            first, last = max(first, parent.first_line), min(last, parent.last_line)
        full = (*path, *parts)
        symbol = Symbol(
            name=parts[-1],
            kind=kind,
            qualified_name=".".join(full),
            first_line=first,
            last_line=max(first, last),
            signature=_signature(outer, node, body, text) or parts[-1],
            depth=parent.depth + 1 if parent else 0,
        )
        if kind == "impl":
            symbol = replace(
                symbol, name=symbol.signature, qualified_name=".".join((*path, symbol.signature))
            )
        symbols.append(symbol)
        holders.append((end, symbol, full, node))
    return tuple(symbols)


_MEMBERS = frozenset({"pair", "method_definition"})
_WITH_HANDLERS = _FUNCTIONS | {"constant", "variable"}
_TAKERS = frozenset({"arguments", "array", "jsx_expression"})
_CHAINED = frozenset({"assignment_expression", "variable_declarator"})


def _is_value(node: tree_sitter.Node, holder: tree_sitter.Node) -> bool:
    if holder.type not in _CHAINED or holder.end_byte != node.end_byte:
        return False
    value = holder.child_by_field_name("right") or holder.child_by_field_name("value")
    return value is not None and value.start_byte == node.start_byte


def _handed_over(node: tree_sitter.Node, text: bytes) -> bool:
    """Whether it is a one-line function in an anonymous object that is an argument or in a list."""
    if node.end_point[0] > node.start_point[0]:
        return False
    holder = node.parent
    around = holder.parent if holder is not None else None
    if around is None or around.type not in _TAKERS:
        return False
    return not text[max(around.start_byte - 20, 0) : around.start_byte].endswith((b"assign", b"extend"))


def _rows(
    outer: tree_sitter.Node, notes: tuple[tree_sitter.Node, ...], lines: list[bytes]
) -> tuple[int, int]:
    """First and last line (from 1) of a definition with its comments: at its column, without a blank line between."""
    first, column = outer.start_point
    last, end = outer.end_point
    if end == 0 and last > first:
        last -= 1
    if not notes or lines[first][:column].strip():
        return first + 1, last + 1
    for note in reversed(notes):
        begins, at = note.start_point
        ends, stop = note.end_point
        if stop == 0 and ends > begins:  # some grammars count the line end in
            ends, stop = ends - 1, len(lines[ends - 1])
        alone = not lines[begins][:at].strip() and not lines[ends][stop:].strip()
        if not alone or ends != first - 1 or at != column or (begins == 0 and lines[0].startswith(b"#!")):
            break
        first = begins
    return first + 1, last + 1


def _signature(
    outer: tree_sitter.Node, node: tree_sitter.Node, body: tree_sitter.Node | None, text: bytes
) -> str:
    """The head of a definition on one line, without decorators and body."""
    start = outer.start_byte
    if outer is not node or text.startswith(b"@", start):
        start = next((c.start_byte for c in outer.children if c.type not in _NO_HEAD), start)
    holder = node
    value = None
    if body is None:  # `const name = (a) => {…}`
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        if value is not None:
            holder, body = value, value.child_by_field_name("body")
    if body is None:
        holder = node
        body = next((c for c in node.children if c.type in ("block", "keyframe_block_list")), None)
    if body is None:
        head = text[start : min(outer.end_byte, start + 400)].split(b"\n", 1)[0]
        if value is not None and head.rstrip().endswith((b"<", b"(")) and holder.type in _WITH_TYPES:
            joined = text[start : value.start_byte][:400]  # `type T<`, a line for each parameter, `> = …`
            head = _LEADS.sub(rb"\1", _TRAILS.sub(rb"\1", joined))
        return clean(head).rstrip("{;,").rstrip()
    stop = body.start_byte
    head = text[start : max(start, stop)][:1000]
    if _NOTE.search(head):  # a comment between head and body is no part of it
        before = [
            child.end_byte
            for child in holder.children
            if child.end_byte <= stop and "comment" not in child.type
        ]
        head = text[start : max(start, *before, start)][:1000]
    if b"\n" in head:  # `f(`, a line for each parameter, `)`
        head = _LEADS.sub(rb"\1", _TRAILS.sub(rb"\1", head))
    return clean(head).removesuffix("=>").rstrip(" :{")


MOST_BYTES = 64 << 20


class Outline(NamedTuple):
    """The outline of a file. `flaws` is the number of syntax errors; `reason` is a clause on why there is no outline
    ("" if there is one), `kind` its class: "no grammar", "binary", "unreadable", "too large", "too slow"."""

    path: str
    language: str
    lines: int
    symbols: tuple[Symbol, ...]
    flaws: int = 0
    kind: str = ""
    reason: str = ""


def outline_of(path: str, data: bytes, language: str | None = None) -> Outline:
    """The outline of one text; without `language`, `path` determines the language."""
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    if is_binary(data):
        return Outline(path, "", 0, (), 0, "binary", "is binary")
    if len(data) > MOST_BYTES:
        return Outline(
            path, "", lines, (), 0, "too large", f"is larger than {MOST_BYTES >> 20} MiB; split it first"
        )
    known = language or language_of(path, data)
    if known is None and not is_plain_text(path):
        return Outline(path, "", lines, (), 0, "no grammar", _no_grammar(path, data))
    read = read_outline(path, data, known)
    if read is None:
        reason = f"nests too deeply, or takes more than {OUTLINE_SECONDS:.0f} seconds to parse"
        return Outline(path, known or "", lines, (), 0, "too slow", reason)
    return Outline(path, known or "text", lines, *read)


def _no_grammar(path: str, data: bytes) -> str:
    written = guess_language(path, data)
    if written is None:
        return "is in an unknown language; use --language"
    return f"is in {written}, whose grammar is not installed; {install_hint(written)}"


def check_language(language: str) -> None:
    """Raise UsageError for a language without a grammar."""
    if language in LANGUAGES or language_of_tail(language):
        return
    raise UsageError(
        f"unknown language {language!r}; the languages are: {', '.join(sorted([*LANGUAGES, *LONG_TAIL]))}"
    )


def language_of_tail(language: str) -> bool:
    """Whether it is one of the long tail. Raises UsageError, with how to install it, if its grammar is missing."""
    if language not in LONG_TAIL:
        return False
    from repoagent.syntax.languages import is_available

    if not is_available(language):
        raise UsageError(f"the grammar of {language} is not installed; {install_hint(language)}")
    return True


def read_file(path: Path, named: str) -> bytes:
    """The bytes of a file. Raises UsageError, with the name `named`, if it cannot be read."""
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            raise UsageError(f"{named} is a folder")
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise no_such_file(path, Path.cwd()) from None
    except OSError as error:
        raise UsageError(f"cannot read {named}: {error.strerror}") from error


def files_below(folder: Path, named: str) -> list[str]:
    """The sorted files in a folder, as paths that begin with `named`: the tracked ones in a repository, else all except
    hidden ones. Raises UsageError if there are none."""
    try:
        worktree = open_worktree(folder)
    except UsageError:
        found, which = sorted(_walk(folder, named)), "file"
    else:
        top = relative(worktree, os.path.realpath(folder), Path.cwd())
        listed = git(worktree.top, "ls-files", "-z", "--cached", "--", top).split(b"\0")[:-1]
        cut = 0 if top == "." else len(os.fsencode(top)) + 1
        names = dict.fromkeys(os.fsdecode(path[cut:]) for path in listed if path)
        found, which = [_joined(named, name) for name in names], "file that git knows"
    if not (found := [path for path in found if _is_regular(path)]):
        raise UsageError(f"{named} contains no {which}")
    return found


def _is_regular(path: str) -> bool:
    """Whether it is a file, not a link and not deleted in the work tree."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _joined(folder: str, name: str) -> str:
    return name if folder in (".", "./") else f"{folder.rstrip('/')}/{name}"


def _walk(folder: Path, named: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inside = os.path.relpath(place, folder)
        for name in names:
            if not name.startswith("."):
                yield _joined(named, name if inside == "." else f"{inside}/{name}")


def unreadable_outline(path: str) -> Outline:
    """The outline of a file that cannot be read, for a list of many."""
    return Outline(path, "", 0, (), 0, "unreadable", "cannot be read")


def within(symbols: Sequence[Symbol], one: Symbol) -> tuple[Symbol, ...]:
    """`one` and the symbols that it contains."""
    place = symbols.index(one)
    end = next((n for n in range(place + 1, len(symbols)) if symbols[n].depth <= one.depth), len(symbols))
    return tuple(symbols[place:end])


_DEFINITIONS = frozenset(
    {"function", "method", "class", "struct", "union", "enum", "interface", "type", "macro", "declaration"}
)
_SHORT = 200  # definitions of one name with fewer lines in total are all meant
_SEPARATOR = re.compile(r"::|#|->")
_LINE = re.compile(r"(.+):(\d+)")


def find_symbols(path: str, data: bytes, name: str) -> tuple[Symbol, ...]:
    """The symbols of the file with this name: `Class.method` (also `Class::method`, `Class#method`), the end of such a
    path, or a bare name. `NAME:LINE` selects the one with this line. Several are returned only if they are short, such
    as overloads.

    A definition is preferred to a declaration of the same name. Raises UsageError, with the candidates or the nearest
    names, if no symbol or more than one matches, and if the file has no outline.
    """
    symbols = outline(path, data)
    if not symbols:
        why = "has no symbols" if language_of(path, data) else "is in a language without a grammar"
        raise UsageError(f"{path} {why}; use line numbers instead of {name!r}")
    found = _best(_matches(symbols, name))
    outer = tuple(
        symbol
        for number, symbol in enumerate(found)
        if not any(other.last_line >= symbol.last_line for other in found[:number])
    )
    if sum(symbol.last_line - symbol.first_line + 1 for symbol in outer) < _SHORT and outer:
        return outer
    return (pick_symbol(path, symbols, name),)


def pick_symbol(path: str, symbols: Sequence[Symbol], name: str) -> Symbol:
    """The one of these symbols with this name; see `find_symbols`. Raises UsageError."""
    if found := _matches(symbols, name):
        return _single(path, name, found)
    if (parts := _LINE.fullmatch(name)) and (named := _matches(symbols, parts[1])):
        line = int(parts[2])
        if here := [symbol for symbol in named if symbol.first_line <= line <= symbol.last_line]:
            return max(here, key=lambda symbol: symbol.depth)
        raise UsageError(f"{path} has no {parts[1]} on line {line}; it has {_list(named)}")
    raise UsageError(f"{path} has no symbol {name!r}; {_nearest(symbols, name)}")


def nearly_named(path: str, data: bytes, name: str) -> str:
    """The qualified name of the only symbol that equals `name` except for case and leading underscores, else ""."""
    wanted = _plain(_SEPARATOR.sub(".", re.sub(r"\(.*\)$", "", name.strip())))
    names = {
        s.qualified_name for s in outline(path, data) if f".{_plain(s.qualified_name)}".endswith(f".{wanted}")
    }
    return names.pop() if len(names) == 1 and wanted else ""


def _plain(name: str) -> str:
    return ".".join(part.lstrip("_") for part in name.lower().split("."))


def _matches(symbols: Sequence[Symbol], name: str) -> list[Symbol]:
    """The symbols that match `name` as a whole path, else as its end, else with other separators as dots."""
    plain = _SEPARATOR.sub(".", re.sub(r"\(.*\)$", "", name.strip())).strip(".")
    for wanted in (name, plain):
        whole = [symbol for symbol in symbols if symbol.qualified_name == wanted]
        tail = (
            [s for s in symbols if s.name == wanted or s.qualified_name.endswith("." + wanted)]
            if wanted
            else []
        )
        if whole or tail:
            return whole or tail
    if name.startswith("#"):  # a heading of a page is called by its words, and has its id in its head
        return [s for s in symbols if s.kind == "heading" and f' id="{name[1:]}"' in s.signature]
    return []


def _single(path: str, name: str, found: list[Symbol]) -> Symbol:
    best = _best(found)
    if len(best) > 1:
        raise UsageError(f"{name!r} is ambiguous in {path}: {_list(best)}; use NAME:LINE")
    return best[0]


def _best(found: list[Symbol]) -> list[Symbol]:
    return [symbol for symbol in found if symbol.kind != "declaration"] or found


def _list(symbols: Sequence[Symbol], most: int = 8) -> str:
    shown = ", ".join(f"{s.qualified_name} ({s.first_line}-{s.last_line})" for s in symbols[:most])
    return shown + (f" and {len(symbols) - most} more" if len(symbols) > most else "")


def _nearest(symbols: Sequence[Symbol], name: str) -> str:
    by_name = {symbol.name.lower(): symbol for symbol in symbols}
    by_name |= {symbol.qualified_name.lower(): symbol for symbol in symbols}
    near = get_close_matches(_SEPARATOR.sub(".", name.lower())[:200], list(by_name)[:5000], n=5, cutoff=0.5)
    if near:
        return f"nearest: {_list(list(dict.fromkeys(by_name[key] for key in near)))}"
    return f"it has {_list([symbol for symbol in symbols if symbol.depth == 0])}"


def definitions(path: str, data: bytes) -> tuple[str, ...]:
    """Qualified names of what the file defines: functions, classes and their members, types, macros.

    Without local names of functions, keys, headings and the like. Each name once, in order.
    """
    names: dict[str, None] = {}
    local_below: int | None = None
    for symbol in outline(path, data):
        if local_below is not None and symbol.depth > local_below:
            continue
        local_below = symbol.depth if symbol.kind in ("function", "method") else None
        if symbol.kind in _DEFINITIONS:
            names[symbol.qualified_name] = None
    return tuple(names)


def lost_definitions(path: str, before: bytes, after: bytes) -> tuple[str, ...]:
    """Qualified names that `definitions` has for `before` and no longer for `after`, in order of `before`.

    A rename counts as a loss. The members of a lost class are listed too.
    """
    if before == after:
        return ()
    left = set(definitions(path, after))
    return tuple(name for name in definitions(path, before) if name not in left)
