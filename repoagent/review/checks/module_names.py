"""The names that a Python or JavaScript module exports, and the uses of such names in other modules."""

from __future__ import annotations

import ast
import posixpath
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from repoagent.review.checks.file_kinds import parse_python

ANY = "*"  # represents names that a module may bind in a way that we cannot see
IDENTIFIER = re.compile(rb"[A-Za-z_$][\w$]*")


class NameUse(NamedTuple):
    name: str
    line: int
    imported: bool  # by name from the module; else called or read


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def python_names(text: bytes) -> dict[str, int]:
    """The names that a module binds at its top level, with their lines; includes ANY if it may bind others."""
    tree = parse_python(text)
    if tree is None:
        return {ANY: 1}
    names: dict[str, int] = {}
    pending = tree.body[::-1]  # no recursion: in a long chain, each `elif` is nested in the one before it
    while pending:
        node = pending.pop()
        if isinstance(node, _DEFINITIONS):
            names.setdefault(ANY if node.name == "__getattr__" else node.name, node.lineno)
            continue
        blocks = [block for name in _BLOCKS for block in getattr(node, name, [])]
        inner = [
            part for block in blocks for part in ([block] if isinstance(block, ast.stmt) else block.body)
        ]
        pending += inner[::-1]
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                names.setdefault(alias.asname or alias.name.partition(".")[0], node.lineno)
            continue
        values = [value for name, value in ast.iter_fields(node) if name not in _BLOCKS]
        parts = [part for value in values for part in (value if isinstance(value, list) else [value])]
        for child in (inner for part in parts if isinstance(part, ast.AST) for inner in ast.walk(part)):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                names.setdefault(child.id, child.lineno)
            elif isinstance(child, ast.Name) and child.id in ("globals", "vars"):  # may bind any name
                names[ANY] = child.lineno
    return names


def python_uses(path: str, text: bytes, module: str, names: Collection[str]) -> list[NameUse]:
    """Where the file `path` imports `names` from the file `module`, or reads them as attributes of that module; uses
    guarded by `except ImportError` or the like do not count."""
    tree = parse_python(text)
    if tree is None:
        return []
    uses: set[NameUse] = set()
    aliases: set[str] = set()
    for node in _unguarded(tree):
        if isinstance(node, ast.ImportFrom):
            source = tuple(node.module.split(".")) if node.module else ()
            if node.level:  # relative: from the top, with "" in front
                folder = path.split("/")[:-1]
                up = len(folder) - node.level + 1
                source = ("", *folder[:up], *source) if up >= 0 else ()
            for alias in node.names:
                if alias.name in names and _is_module(source, module, path):
                    uses.add(NameUse(alias.name, alias.lineno, imported=True))
                elif source and _is_module((*source, alias.name), module, path):
                    aliases.add(alias.asname or alias.name)
        elif isinstance(node, ast.Import):
            modules = [each for each in node.names if _is_module(tuple(each.name.split(".")), module, path)]
            aliases.update(each.asname or each.name for each in modules)
    if aliases:
        nodes = list(ast.walk(tree))
        stored = {node.arg for node in nodes if isinstance(node, ast.arg)}
        stored |= {
            each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        for node in _unguarded(tree):
            if isinstance(node, ast.Attribute) and node.attr in names and isinstance(node.ctx, ast.Load):
                words, value = list[str](), node.value
                while isinstance(value, ast.Attribute):
                    words.insert(0, value.attr)
                    value = value.value
                owner = ".".join([value.id, *words]) if isinstance(value, ast.Name) else ""
                if owner in aliases and owner.partition(".")[0] not in stored:
                    uses.add(NameUse(node.attr, node.lineno, imported=False))
    return sorted(uses, key=lambda use: (not use.imported, use.line, use.name))


def python_own_uses(text: bytes, names: Collection[str]) -> list[NameUse]:
    """Where a module reads `names` that it does not bind and that are not builtins."""
    import builtins

    tree = parse_python(text)
    if tree is None:
        return []
    bound: set[str] = set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.partition(".")[0])
        else:  # an argument, a definition, `except … as`, a pattern, a type parameter
            values = [getattr(node, field, None) for field in ("arg", "name", "rest")]
            bound.update(value for value in values if isinstance(value, str))
    if "*" in bound:
        return []
    reads = [node for node in _unguarded(tree) if isinstance(node, ast.Name) and node.id in names]
    return [NameUse(node.id, node.lineno, imported=False) for node in reads if node.id not in bound]


_TRY = (ast.Try, getattr(ast, "TryStar", ast.Try))  # `except*` needs Python 3.11
_HANDLED = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "NameError", "Exception"})


def _unguarded(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes except those guarded by a handler of an error in `_HANDLED`."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        yield node
        types = [handler.type for handler in node.handlers] if isinstance(node, _TRY) else []
        names = (each for kind in types if kind for each in ast.walk(kind) if isinstance(each, ast.Name))
        if isinstance(node, _TRY) and (None in types or any(name.id in _HANDLED for name in names)):
            stack += [*node.handlers, *node.orelse, *node.finalbody]
        else:
            stack += ast.iter_child_nodes(node)


def _is_module(words: tuple[str, ...], module: str, path: str) -> bool:
    """Whether the module name `words` means the file `module`: by its path from the top or from a source folder, or
    next to the importing file."""
    stem = module.rpartition(".")[0].removesuffix("/__init__")
    if not words:
        return False
    if words[0] == "":
        return "/".join(words[1:]) == stem
    name = "/".join(words)
    if name == stem:
        return True
    if not stem.endswith(f"/{name}"):
        return False
    root = stem[: -len(name) - 1]
    return len(words) > 1 or root in ("src", "lib", "python") or path.rpartition("/")[0] == root


_EXPORTS = re.compile(
    rb"^export\s+(?:declare\s+)?(?:default\s+)?(?:async\s+)?(?:abstract\s+)?(?:function\s*\*?|class|const|let|var|type|interface|enum)\s+"
    rb"([A-Za-z_$][\w$]*)|^[ \t]*(?:module\.)?exports\.([A-Za-z_$][\w$]*)\s*=", re.MULTILINE,
)  # fmt: skip
_LISTS = re.compile(rb"^export\s*(?:type\s*)?\{([^{}]*)\}|^module\.exports\s*=\s*\{([^{}]*)\}", re.MULTILINE)
_OPEN_ENDED = re.compile(
    rb"^export\s*\*(?!\s*as\b)|Object\.\w+\((?:module\.)?exports|exports\[|exports\s*=\s*(?:require\(|\{[^{}]*\.\.\.)",
    re.MULTILINE,
)
_DEFAULT = re.compile(rb"\bdefault\b")
_IMPORTS = re.compile(
    rb"^[ \t]*(?:import|export)\s+(?:type\s+)?(?:[\w$]+\s*,\s*)?(?:\{(?P<names>[^{}]*)\}|\*\s*as\s+(?P<all>[\w$]+))"
    rb"\s*from\s*['\"](?P<from>\.[^'\"\n]*)['\"]"
    rb"|^[ \t]*(?:const|let|var)\s+(?:\{(?P<names2>[^{}]*)\}|(?P<all2>[\w$]+))"
    rb"\s*=\s*require\(\s*['\"](?P<from2>\.[^'\"\n]*)['\"]\s*\)(?!\.)",
    re.MULTILINE,
)
_MEMBER = re.compile(rb"(?<![\w$.])([A-Za-z_$][\w$]*)\.([A-Za-z_$][\w$]*)(?![\w$])(?!\s*=[^=])")


def script_names(text: bytes) -> dict[str, int]:
    """Return the names that a script exports, with their lines. They include ANY if the script may export others."""
    names = {ANY: 1} if _OPEN_ENDED.search(text) else {}
    line_of = _line_numbers(text)
    for match in _EXPORTS.finditer(text):
        if not _DEFAULT.search(match[0]):
            names.setdefault((match[1] or match[2]).decode(), line_of(match.end()))
    for match in _LISTS.finditer(text):
        for part in (match[1] or match[2] or b"").split(b","):
            words = IDENTIFIER.findall(part.partition(b":")[0] if match[2] else part)
            if words:
                names.setdefault(words[-1].decode(), line_of(match.start()))
    return names


def script_uses(path: str, text: bytes, module: str, names: Collection[str]) -> list[NameUse]:
    """Return where the script `path` imports `names` from the file `module`, or reads them as members of it."""
    uses: list[NameUse] = []
    owners: set[bytes] = set()
    line_of = _line_numbers(text)
    stem = re.sub(r"(?:/index)?\.\w+$", "", module)
    for match in _IMPORTS.finditer(text):
        specifier = (match["from"] or match["from2"]).decode("utf-8", "replace")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), specifier))
        if target not in (module, stem) and re.sub(r"(?:/index)?\.[cm]?[jt]sx?$", "", target) != stem:
            continue
        for part in (match["names"] or match["names2"] or b"").split(b","):
            words = re.findall(r"[A-Za-z_$][\w$]*", part.decode("utf-8", "replace").partition(":")[0])
            words = words[1:] if words[:1] == ["type"] and len(words) > 1 else words
            if words and words[0] in names:
                uses.append(NameUse(words[0], line_of(match.start()), imported=True))
        if owner := match["all"] or match["all2"]:
            owners.add(owner)
    for member in _MEMBER.finditer(text) if owners else ():
        if member[1] in owners and (name := member[2].decode()) in names:
            uses.append(NameUse(name, line_of(member.start()), imported=False))
    return uses


def _line_numbers(text: bytes) -> Callable[[int], int]:
    """The number of the line at an offset of `text`."""
    starts = [match.end() for match in re.finditer(b"\n", text)]
    return lambda offset: bisect_right(starts, offset) + 1
