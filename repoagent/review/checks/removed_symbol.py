"""removed-symbol: other code still imports or calls a name that was removed.

In Python and JavaScript, an import says which module defines the name. In Go and C, a name belongs to a package or to
the whole program, so it counts as removed only if nothing else defines it. The second half of the module finds the
names that Python and JavaScript modules export, and their uses.
"""

from __future__ import annotations

import ast
import os
import posixpath
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import NamedTuple

from repoagent.display_text import list_some, plural
from repoagent.review.change import ChangedFile
from repoagent.review.checks import file_kinds
from repoagent.review.checks.file_kinds import parse_python
from repoagent.review.checks.run import CheckContext
from repoagent.review.finding import Finding, Location
from repoagent.review.read_diff import read_blob

SEARCH_SECONDS = 2.0  # for one search through the repository
NAMES = 50  # of a file to search for
FILES = 100  # with one of the names, to read
LONGEST = 200  # characters of a quoted line
MOST_LISTED = 5
PYTHON = (".py", ".pyi")
SCRIPT = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
GO, C = (".go",), (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx")
# Matches a removed line that may have defined a name.
_DEFINES = re.compile(
    rb"\b(?:def|class|function|func|type|const|var|let|export|exports|define|import|from)\b"
    rb"|^[A-Za-z_][\w*& ]*[(=]|^[A-Za-z_]\w*\s*[:,]"
    rb"|^\s+[A-Za-z_][\w.]*(?: as \w+)?,?\s*$|^[ \t]+\w+[^=!<>]*=(?!=)"
)
_IDENTIFIER = re.compile(rb"[A-Za-z_$][\w$]*")
ANY = "*"  # represents names that a module may bind in a way that we cannot see


class Use(NamedTuple):
    name: str
    line: int
    imported: bool  # by name from the module; else called or read


class _RemovedSymbol(NamedTuple):
    """A name that the file defined on `line`, with its first use in each file by path, and the code of these uses.
    `imports` counts all uses that import it."""

    name: str
    line: int
    uses: dict[str, Use]
    code: dict[str, str]
    imports: int


def find_removed_symbols(context: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each file that removes names still in use; its location is that of the most used name."""
    errors = [finding for finding in context.findings if finding.rule in ("conflict-marker", "parse-error")]
    broken = {finding.location.path for finding in errors}
    for file in context.files:
        family = next(
            (suffixes for suffixes in (PYTHON, SCRIPT, GO, C) if file.old_path.endswith(suffixes)), None
        )
        if family is None or file.status not in ("modified", "renamed", "deleted") or file.path in broken:
            continue
        removed = [line for hunk in context.change.texts.lines(file) for line in hunk.removed]
        if file.status != "deleted" and not any(map(_DEFINES.search, removed)):
            continue
        if file_kinds.is_vendored_path(file.path):
            continue
        if context.remaining() < 0:
            context.unseen.append("whether some removed names are still used (the review took too long)")
            break
        if (texts := context.texts(file)) and (symbols := _removed_symbols(context, file, family, *texts)):
            symbols.sort(key=lambda symbol: (-symbol.imports, -len(symbol.uses), symbol.line))
            yield _finding(context, file, texts[0], symbols)


def _removed_symbols(
    context: CheckContext, file: ChangedFile, family: tuple[str, ...], old: bytes, new: bytes
) -> list[_RemovedSymbol]:
    """The names of the old text that are missing in the new one and still used."""
    names_of = {PYTHON: python_names, SCRIPT: script_names}.get(family)
    before, after = (
        names_of(text) if names_of else _global_names(path, text)
        for path, text in ((file.old_path, old), (file.path, new))
    )
    if ANY in after:
        return []
    added = {  # a name among them was moved, or is now imported
        word.decode()
        for other in context.change.files
        for hunk in context.change.texts.lines(other)
        for line in hunk.added
        for word in _IDENTIFIER.findall(line)
    }
    names = {name: line for name, line in before.items() if name not in after and name not in added}
    names.pop(ANY, None)
    if not names or len(names) > NAMES:
        return []
    module = file.old_path if file.status == "renamed" else file.path
    texts = _texts_with(context, names, family)
    if family in (PYTHON, SCRIPT):
        read = python_uses if family is PYTHON else script_uses
        uses = {path: read(path, text, module, names) for path, text in texts.items() if path != file.path}
        if family is PYTHON and new:
            uses[file.path] = python_own_uses(new, names)
    else:
        uses = _uses_of_globals(file, texts, names)
    symbols = []
    for name, line in names.items():
        by_path = {path: [use for use in file_uses if use.name == name] for path, file_uses in uses.items()}
        first = {path: file_uses[0] for path, file_uses in by_path.items() if file_uses}
        code = {path: _line(texts.get(path, new), use.line) for path, use in first.items()}
        if first:
            imports = sum(use.imported for file_uses in by_path.values() for use in file_uses)
            symbols.append(_RemovedSymbol(name, line, first, code, imports))
    return symbols


def _line(text: bytes, number: int) -> str:
    return text.split(b"\n")[number - 1].decode("utf-8", "replace").strip()[:LONGEST]


def _global_names(path: str, text: bytes) -> dict[str, int]:
    """The functions and macros (in Go also types and constants) that a Go or C file defines for other files."""
    from repoagent.syntax.languages import language_of
    from repoagent.syntax.outline import read_outline

    if not text:
        return {}
    outline = read_outline(path, text, language_of(path, text))
    if outline is None:
        return {ANY: 1}
    kinds = (
        {"function", "macro"} if path.endswith(C) else {"function", "struct", "interface", "type", "constant"}
    )
    symbols = [symbol for symbol in outline[0] if symbol.depth == 0 and symbol.kind in kinds]
    return {
        symbol.name: symbol.first_line
        for symbol in symbols
        if len(symbol.name) > 3 and "static" not in symbol.signature.split()
    }


def _texts_with(context: CheckContext, names: Collection[str], family: tuple[str, ...]) -> dict[str, bytes]:
    """The new texts of the files of the same language that contain one of the names."""
    from repoagent.git.process import GitError
    from repoagent.history.log import TimedGit

    change = context.change
    tree = {"staged": ["--cached"], "worktree": []}.get(change.kind, [change.head or "HEAD"])
    words = [part for name in sorted(names) for part in ("-e", name)]
    try:
        out, late = TimedGit(
            context.top, "--no-literal-pathspecs", "grep", "-l", "-z", "-I", "-w", "-F", "--full-name", "--no-color",
            "--no-recurse-submodules", *words, *tree, "--", *(f":/*{suffix}" for suffix in family),
            deadline=time.monotonic() + SEARCH_SECONDS,
        ).read()  # fmt: skip
    except GitError as error:
        if error.returncode != 1:  # a partial clone lacks a text
            context.unseen.append(
                "whether removed names are still used (this partial clone lacks some files)"
            )
        return {}
    revision = "" if tree == ["--cached"] else "".join(tree)
    prefix = f"{revision}:" if revision else ""
    paths = [os.fsdecode(path).removeprefix(prefix) for path in out.split(b"\0")[:-1]]
    if late or len(paths) > FILES:
        context.unseen.append("whether removed names are still used (too many files contain them)")
        return {}
    changed = {file.path: file for file in change.files}
    absent = {file.old_path for file in change.files} - changed.keys()
    absent |= {file.path for file in change.files if file.status == "deleted"}
    texts: dict[str, bytes | None] = {}
    for path in sorted(paths, key=lambda path: path not in changed):  # uses in changed files come first
        if path in absent:
            continue
        if path in changed:
            texts[path] = change.texts.new(changed[path])
        elif tree:
            texts[path] = read_blob(context.top, f"{revision}:{path}")
        else:
            with suppress(OSError):
                texts[path] = (context.top / path).read_bytes()
    return {path: text for path, text in texts.items() if text is not None}


def _uses_of_globals(
    file: ChangedFile, texts: dict[str, bytes], names: Collection[str]
) -> dict[str, list[Use]]:
    """The uses of names that are no longer defined in the package (Go) or in any file (C), by path."""
    from repoagent.syntax.occurrences import occurrences

    folder = file.path.rpartition("/")[0]
    uses: dict[str, list[Use]] = {}
    defined: set[str] = set()
    for path, text in texts.items():
        if file.path.endswith(GO) and path.rpartition("/")[0] != folder:
            continue
        result = occurrences(path, text, names)
        if not result.parsed:
            return {}
        for occurrence in result.found:
            if occurrence.role == "name":
                uses.setdefault(path, []).append(Use(occurrence.name, occurrence.line, imported=False))
            elif occurrence.role in ("definition", "field", "local", "text"):
                defined.add(occurrence.name)
    return {path: [use for use in file_uses if use.name not in defined] for path, file_uses in uses.items()}


def _finding(context: CheckContext, file: ChangedFile, old: bytes, symbols: list[_RemovedSymbol]) -> Finding:
    worst = symbols[0]
    uses = sorted(worst.uses.items())
    uses.sort(key=lambda entry: (not entry[1].imported, file_kinds.is_test(entry[0])))
    path, use = uses[0]
    verb = "imports" if use.imported else "uses"
    title = f"{worst.name} was removed, but {path}:{use.line} still {verb} it"
    body = f"{file.old_path} defined it, and the change does not define it elsewhere. Still used in"
    body += "".join(f"\n  {path}:{use.line}: {worst.code[path]}" for path, use in uses[:MOST_LISTED])
    if (omitted := len(uses) - MOST_LISTED) > 0:
        body += f"\n  and {plural(omitted, 'more file')}"
    if others := [symbol.name for symbol in symbols[1:]]:
        names = list_some(others, MOST_LISTED, ", …")
        body += f"\n\nThe same applies to {plural(len(others), 'more name')} in this file: {names}."
    location = Location(file.path, worst.line, worst.line, old=True)
    return context.finding("removed-symbol", title, location, body, worst.name, quote=_line(old, worst.line))


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def python_names(text: bytes) -> dict[str, int]:
    """The names that a module binds at its top level, with their lines; includes ANY if it may bind others."""
    tree = parse_python(text)
    if tree is None:
        return {ANY: 1}
    names: dict[str, int] = {}
    for node in _top_level(tree.body):
        if isinstance(node, _DEFINITIONS):
            names.setdefault(ANY if node.name == "__getattr__" else node.name, node.lineno)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                names.setdefault(alias.asname or alias.name.partition(".")[0], node.lineno)
        else:
            values = [value for name, value in ast.iter_fields(node) if name not in _BLOCKS]
            parts = [part for value in values for part in (value if isinstance(value, list) else [value])]
            for child in (inner for part in parts if isinstance(part, ast.AST) for inner in ast.walk(part)):
                if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                    names.setdefault(child.id, child.lineno)
                elif isinstance(child, ast.Name) and child.id in ("globals", "vars"):  # may bind any name
                    names[ANY] = child.lineno
    return names


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, including those in `if`, `try`, `with` and loops. Not recursive: each `elif` is
    nested in the one before it, so a long chain would overflow Python's stack."""
    stack = body[::-1]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _DEFINITIONS):
            blocks = [block for name in _BLOCKS for block in getattr(node, name, [])]
            inner = [
                part for block in blocks for part in ([block] if isinstance(block, ast.stmt) else block.body)
            ]
            stack += inner[::-1]


def python_uses(path: str, text: bytes, module: str, names: Collection[str]) -> list[Use]:
    """Where the file `path` imports `names` from the file `module`, or reads them as attributes of that module; uses
    guarded by `except ImportError` or the like do not count."""
    tree = parse_python(text)
    if tree is None:
        return []
    uses: set[Use] = set()
    aliases: set[str] = set()
    for node in _unguarded(tree):
        if isinstance(node, ast.ImportFrom):
            source = _absolute(path, node)
            for alias in node.names:
                if alias.name in names and _is_module(source, module, path):
                    uses.add(Use(alias.name, alias.lineno, imported=True))
                elif source and _is_module((*source, alias.name), module, path):
                    aliases.add(alias.asname or alias.name)
        elif isinstance(node, ast.Import):
            modules = [
                alias for alias in node.names if _is_module(tuple(alias.name.split(".")), module, path)
            ]
            aliases.update(alias.asname or alias.name for alias in modules)
    if aliases:
        nodes = list(ast.walk(tree))
        stored = {node.arg for node in nodes if isinstance(node, ast.arg)}
        stored |= {
            node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        for node in _unguarded(tree):
            if isinstance(node, ast.Attribute) and node.attr in names and isinstance(node.ctx, ast.Load):
                owner = _dotted(node.value)
                if owner in aliases and owner.partition(".")[0] not in stored:
                    uses.add(Use(node.attr, node.lineno, imported=False))
    return sorted(uses, key=lambda use: (not use.imported, use.line, use.name))


def _dotted(node: ast.expr) -> str:
    """`a.b.c` for a name and its attributes, "" for another expression."""
    words = []
    while isinstance(node, ast.Attribute):
        words.append(node.attr)
        node = node.value
    return ".".join([node.id, *words[::-1]]) if isinstance(node, ast.Name) else ""


def python_own_uses(text: bytes, names: Collection[str]) -> list[Use]:
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
    return [Use(node.id, node.lineno, imported=False) for node in reads if node.id not in bound]


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


def _absolute(path: str, node: ast.ImportFrom) -> tuple[str, ...]:
    """The parts of the name of the imported module. A relative one is resolved from the top and begins with ""."""
    words = tuple(node.module.split(".")) if node.module else ()
    if not node.level:
        return words
    folder = path.split("/")[:-1]
    return ("", *folder[: len(folder) - node.level + 1], *words) if node.level - 1 <= len(folder) else ()


def _is_module(words: tuple[str, ...], module: str, path: str) -> bool:
    """Whether the module name `words` means the file `module`: by its whole path, by its path below a source folder
    (`src`, `lib`, `python`), or next to the importing file."""
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
    """The names that a JavaScript or TypeScript module exports, with their lines; includes ANY if it may export
    others."""
    names = {ANY: 1} if _OPEN_ENDED.search(text) else {}
    line_of = _line_numbers(text)
    for match in _EXPORTS.finditer(text):
        if not _DEFAULT.search(match[0]):
            names.setdefault((match[1] or match[2]).decode(), line_of(match.end()))
    for match in _LISTS.finditer(text):
        for part in (match[1] or match[2] or b"").split(b","):
            words = _IDENTIFIER.findall(part.partition(b":")[0] if match[2] else part)
            if words:
                names.setdefault(words[-1].decode(), line_of(match.start()))
    return names


def script_uses(path: str, text: bytes, module: str, names: Collection[str]) -> list[Use]:
    """Where the file `path` imports `names` from the file `module`, or reads them as members of an import of the whole
    module."""
    uses: list[Use] = []
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
                uses.append(Use(words[0], line_of(match.start()), imported=True))
        if owner := match["all"] or match["all2"]:
            owners.add(owner)
    for member in _MEMBER.finditer(text) if owners else ():
        if member[1] in owners and (name := member[2].decode()) in names:
            uses.append(Use(name, line_of(member.start()), imported=False))
    return uses


def _line_numbers(text: bytes) -> Callable[[int], int]:
    """The number of the line at an offset of `text`."""
    starts = [match.end() for match in re.finditer(b"\n", text)]
    return lambda offset: bisect_right(starts, offset) + 1
