"""Import lines that came with a function: where in the file they belong."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

_PYTHON = re.compile(
    r"(?:import [\w.]+(?: as \w+)?(?:, *[\w.]+(?: as \w+)?)*|from [\w.]+ import [\w*, ]+)\s*(?:#.*)?$"
)
_SCRIPT = re.compile(
    r"import\b.*['\"];?\s*$|(?:const|let|var) [\w${}, :]+ = require\(['\"][^'\"]+['\"]\)(?:\.\w+)?;?\s*$"
)
_SCRIPTS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")


def leading_imports(path: str, lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """The import statements (of one line each) at the beginning of `lines`, and what follows them."""
    pattern = _pattern(path)
    at = 0
    found: list[str] = []
    while pattern and at < len(lines) and (not lines[at].strip() or pattern.match(lines[at])):
        found += [lines[at].rstrip()] if lines[at].strip() else []
        at += 1
    return (found, list(lines[at:])) if found else ([], list(lines))


def place_of_imports(path: str, lines: Sequence[str]) -> int | None:
    """The row (from 0) before which a further import statement belongs; None where that is not certain.

    It is after the last one of the file's head; in Python without any, after the docstring.
    """
    if _pattern(path) is _PYTHON:
        return _python_place(lines)
    rows = [row for row, line in enumerate(lines) if _SCRIPT.match(line)]
    return rows[-1] + 1 if rows else None


def missing_imports(path: str, imports: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Those of `imports` that the file does not have yet."""
    if _pattern(path) is _PYTHON:
        have = {name for line in lines if _PYTHON.match(line.strip()) for name in _bound(line.strip())}
        tree = _tree(lines)
        have |= {name for node in (tree.body if tree else ()) for name in _names(node)}
        return [line for line in dict.fromkeys(imports) if not _bound(line) <= have]
    present = {line.strip().rstrip(";").replace('"', "'") for line in lines}
    return [
        line for line in dict.fromkeys(imports) if line.strip().rstrip(";").replace('"', "'") not in present
    ]


def _pattern(path: str) -> re.Pattern[str] | None:
    if path.endswith((".py", ".pyi")):
        return _PYTHON
    return _SCRIPT if path.endswith(_SCRIPTS) else None


def _python_place(lines: Sequence[str]) -> int | None:
    tree = _tree(lines)
    if tree is None:
        return None
    row = 0
    while row < len(lines) and lines[row].startswith("#"):
        row += 1
    for number, node in enumerate(tree.body):
        docstring = number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or isinstance(node, (ast.Import, ast.ImportFrom)):
            row = node.end_lineno or row
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            break
    return row


def _tree(lines: Sequence[str]) -> ast.Module | None:
    try:
        return ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _bound(line: str) -> set[str]:
    tree = _tree([line])
    return {name for node in (tree.body if tree else ()) for name in _names(node)}


def _names(node: ast.stmt) -> set[str]:
    """What an import statement binds, each with where it is from."""
    if isinstance(node, ast.Import):
        return {f"{alias.name} as {alias.asname or alias.name}" for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        source = "." * node.level + (node.module or "")
        return {f"{source}: {alias.name} as {alias.asname or alias.name}" for alias in node.names}
    return set()
