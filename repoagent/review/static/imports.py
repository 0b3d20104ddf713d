"""What a module of Python or JavaScript offers by name, and where other modules, and it itself, use such names."""

from __future__ import annotations

import ast
import posixpath
import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

ANY = "*"


class Use(NamedTuple):
    name: str
    line: int
    imported: bool  # by name from the module; else called or read


def python_tree(text: bytes) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def python_names(tree: ast.Module) -> dict[str, int]:
    """The names that the module binds at its top level, with their lines; among them ANY where it may have others."""
    found: dict[str, int] = {}
    for node in _top_level(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.setdefault(ANY if node.name == "__getattr__" else node.name, node.lineno)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                found.setdefault(alias.asname or alias.name.partition(".")[0], node.lineno)
        else:
            bare = {name: value for name, value in ast.iter_fields(node) if name not in _BLOCKS}
            parts = [
                one for value in bare.values() for one in (value if isinstance(value, list) else [value])
            ]
            for one in (inner for part in parts if isinstance(part, ast.AST) for inner in ast.walk(part)):
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                    found.setdefault(one.id, one.lineno)
                elif isinstance(one, ast.Name) and one.id in ("globals", "vars"):  # binds what it likes
                    found[ANY] = one.lineno
    return found


_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those in `if`, `try`, `with` and loops too. An `elif` is nested in the one before it,
    so a long chain is deeper than Python's stack."""
    stack = body[::-1]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        inner: list[ast.stmt] = []
        for name in _BLOCKS:
            for part in getattr(node, name, []):
                inner += [part] if isinstance(part, ast.stmt) else part.body
        stack += inner[::-1]


def python_uses(path: str, text: bytes, module: str, names: Collection[str]) -> list[Use]:
    """Where the file `path` imports `names` from the file `module`, or reads them as attributes of that module. What an
    `except ImportError` or the like makes up for does not count."""
    tree = python_tree(text)
    if tree is None:
        return []
    found: list[Use] = []
    aliases: set[str] = set()
    for node in _guarded(tree):
        if isinstance(node, ast.ImportFrom):
            source = _absolute(path, node)
            for alias in node.names:
                if _is_module(source, module, path) and alias.name in names:
                    found.append(Use(alias.name, alias.lineno, imported=True))
                elif _is_module((*source, alias.name), module, path) and len(source):
                    aliases.add(alias.asname or alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _is_module(tuple(alias.name.split(".")), module, path):
                    aliases.add(alias.asname or alias.name)
    if aliases:
        stored = {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        stored |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        for node in _guarded(tree):
            if isinstance(node, ast.Attribute) and node.attr in names and isinstance(node.ctx, ast.Load):
                owner = _dotted(node.value)
                if owner in aliases and owner.partition(".")[0] not in stored:
                    found.append(Use(node.attr, node.lineno, imported=False))
    return sorted(set(found), key=lambda use: (not use.imported, use.line, use.name))


def _dotted(node: ast.expr) -> str:
    """`a.b.c` for a name and its attributes, "" for another expression."""
    words = []
    while isinstance(node, ast.Attribute):
        words.append(node.attr)
        node = node.value
    return ".".join([node.id, *words[::-1]]) if isinstance(node, ast.Name) else ""


def python_own_uses(text: bytes, names: Collection[str]) -> list[Use]:
    """Where a module reads `names`, which it neither binds anywhere nor gets from Python itself."""
    import builtins

    tree = python_tree(text)
    if tree is None:
        return []
    bound: set[str] = set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.partition(".")[0])
        else:  # an argument, a definition, `except … as`, a pattern, a type parameter
            bound |= {
                name
                for field in ("arg", "name", "rest")
                if isinstance(name := getattr(node, field, None), str)
            }
    if "*" in bound:
        return []
    return [
        Use(node.id, node.lineno, imported=False)
        for node in _guarded(tree)
        if isinstance(node, ast.Name) and node.id in names and node.id not in bound
    ]


_TRY = (ast.Try, getattr(ast, "TryStar", ast.Try))  # `except*` is of Python 3.11
_HANDLED = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "NameError", "Exception"})


def _guarded(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that a handler of such an error looks after."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, _TRY) and any(map(_handles, node.handlers)):
            stack += [*node.handlers, *node.orelse, *node.finalbody]
        else:
            stack += ast.iter_child_nodes(node)


def _handles(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(node, ast.Name) and node.id in _HANDLED for node in ast.walk(handler.type))


def _absolute(path: str, node: ast.ImportFrom) -> tuple[str, ...]:
    """The words of the module that is imported from; those of a relative one begin with "" and count from the top."""
    words = tuple(node.module.split(".")) if node.module else ()
    if not node.level:
        return words
    folder = path.split("/")[:-1]
    return ("", *folder[: len(folder) - node.level + 1], *words) if node.level - 1 <= len(folder) else ()


def _is_module(words: tuple[str, ...], module: str, path: str) -> bool:
    """Whether these words name the file `module`: all of its path below the top, or below a folder that is no package
    of the same name elsewhere (`src`, `lib`, the top), or next to the file that imports it."""
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
    """The names that a module of JavaScript or TypeScript exports, with their lines, and ANY as for Python."""
    found = {ANY: 1} if _OPEN_ENDED.search(text) else {}
    line_of = _line_numbers(text)
    for match in _EXPORTS.finditer(text):
        if not _DEFAULT.search(match[0]):
            found.setdefault((match[1] or match[2]).decode(), line_of(match.end()))
    for match in _LISTS.finditer(text):
        for part in (match[1] or match[2] or b"").split(b","):
            words = re.findall(rb"[A-Za-z_$][\w$]*", part.partition(b":")[0] if match[2] else part)
            if words:
                found.setdefault(words[-1].decode(), line_of(match.start()))
    return found


def script_uses(path: str, text: bytes, module: str, names: Collection[str]) -> list[Use]:
    """Where the file `path` imports `names` from the file `module`, or reads them as members of what it imports."""
    found: list[Use] = []
    owners: set[bytes] = set()
    line_of = _line_numbers(text)
    stem = re.sub(r"(?:/index)?\.\w+$", "", module)
    for match in _IMPORTS.finditer(text):
        where = (match["from"] or match["from2"]).decode("utf-8", "replace")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), where))
        if target not in (module, stem) and re.sub(r"(?:/index)?\.[cm]?[jt]sx?$", "", target) != stem:
            continue
        for part in (match["names"] or match["names2"] or b"").split(b","):
            words = re.findall(r"[A-Za-z_$][\w$]*", part.decode("utf-8", "replace").partition(":")[0])
            words = words[1:] if words[:1] == ["type"] and len(words) > 1 else words
            if words and words[0] in names:
                found.append(Use(words[0], line_of(match.start()), imported=True))
        if owner := match["all"] or match["all2"]:
            owners.add(owner)
    if owners:
        for one in _MEMBER.finditer(text):
            if one[1] in owners and (name := one[2].decode()) in names:
                found.append(Use(name, line_of(one.start()), imported=False))
    return found


def _line_numbers(text: bytes) -> Callable[[int], int]:
    """The number of the line at an offset of `text`."""
    starts = [match.end() for match in re.finditer(b"\n", text)]
    return lambda offset: bisect_right(starts, offset) + 1
