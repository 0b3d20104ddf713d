"""Repair typical mistakes in rewritten code: misplaced imports, wrong indentation, dropped comments and definitions."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from pathlib import PurePosixPath

from repoagent.edit.prompt.formats import is_rename
from repoagent.git.files import FileChange
from repoagent.patch.render import diff_ranges

Lines = Sequence[str]
_PYTHON = re.compile(
    r"(?:import [\w.]+(?: as \w+)?(?:, *[\w.]+(?: as \w+)?)*|from [\w.]+ import [\w*, ]+)\s*(?:#.*)?$"
)

_SCRIPT = re.compile(
    r"import\b.*['\"];?\s*$|(?:const|let|var) [\w${}, :]+ = require\(['\"][^'\"]+['\"]\)(?:\.\w+)?;?\s*$"
)
_PATTERNS = dict.fromkeys((".py", ".pyi"), _PYTHON) | dict.fromkeys(
    (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx"), _SCRIPT
)


def _import_pattern(path: str) -> re.Pattern[str] | None:
    return _PATTERNS.get(PurePosixPath(path).suffix)


def leading_imports(path: str, lines: Lines) -> tuple[list[str], list[str]]:
    """The one-line import statements at the beginning of `lines`, and the remaining lines."""
    pattern = _import_pattern(path)
    at = 0
    while pattern and at < len(lines) and (not lines[at].strip() or pattern.match(lines[at])):
        at += 1
    imports = [line.rstrip() for line in lines[:at] if line.strip()]
    return (imports, list(lines[at:])) if imports else ([], list(lines))


def import_row(path: str, lines: Lines) -> int | None:
    """The row (from 0) at which to insert an import; None if uncertain.

    The import follows the last one at the beginning of the file or, in Python without imports, the docstring.
    """
    if _import_pattern(path) is _SCRIPT:
        return max((row + 1 for row, line in enumerate(lines) if _SCRIPT.match(line)), default=None)
    if (tree := _tree(lines)) is None:
        return None
    row = next((row for row, line in enumerate(lines) if not line.startswith("#")), len(lines))
    for number, node in enumerate(tree.body):
        docstring = number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or isinstance(node, (ast.Import, ast.ImportFrom)):
            row = node.end_lineno or row
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            break
    return row


def missing_imports(path: str, imports: Lines, lines: Lines) -> list[str]:
    if _import_pattern(path) is _SCRIPT:
        present = {line.strip().rstrip(";").replace('"', "'") for line in lines}
        return [line for line in dict.fromkeys(imports) if line.rstrip(";").replace('"', "'") not in present]
    statements = ([line.strip()] for line in lines if _PYTHON.match(line.strip()))
    bound = _bound(lines).union(*map(_bound, statements))
    return [line for line in dict.fromkeys(imports) if not _bound([line]) <= bound]


def _tree(lines: Sequence[str]) -> ast.Module | None:
    try:
        return ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _bound(lines: Lines) -> set[str]:
    """The names that the import statements at the top level bind, each with its module."""
    bound = set()
    tree = _tree(lines)
    for node in tree.body if tree else ():
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            source = ""
            if isinstance(node, ast.ImportFrom):
                source = "." * node.level + (node.module or "") + ": "
            bound |= {f"{source}{alias.name} as {alias.asname or alias.name}" for alias in node.names}
    return bound


def reindented(lines: Lines, old: Lines) -> list[str]:
    """Indent `lines` like `old`, which they replace, if all lines are shifted equally or only the first one is.

    Compares the lines that occur exactly once in both. If their shifts differ, returns `lines` unchanged and leaves the
    mistake to the parse check.
    """
    if not old:  # an earlier answer deleted them
        return list(lines)
    new_counts, old_counts = Counter(map(str.strip, lines)), Counter(map(str.strip, old))
    before = {line.strip(): _indent(line) for line in old}
    pairs = {
        (_indent(line), before[text])
        for line in lines
        if (text := line.strip()) and len(text) > 2 and new_counts[text] == 1 and old_counts[text] == 1
    }
    written, right = _indent(lines[0]), _indent(old[0])
    if written == right and all(a == b for a, b in pairs):
        return list(lines)
    rest = {pair for pair in pairs if pair != (written, right)}
    if written != right:
        second = [
            next((_indent(line) for line in text[1:] if line.strip()), None) for text in (lines, old)
        ]  # without a common line compare the second lines: is only the first one shifted?
        if all(a == b for a, b in rest) if rest else second[0] is not None and second[0] == second[1]:
            return [right + lines[0].lstrip(), *lines[1:]]
    shifts = set()
    for a, b in rest or {(written, right)}:
        if not a.endswith(b) and not b.endswith(a):  # tabs versus spaces
            return list(lines)
        shifts.add((b[: max(0, len(b) - len(a))], a[: max(0, len(a) - len(b))]))
    more, less = next(iter(shifts))
    if len(shifts) != 1 or any(line.strip() and not line.startswith(less) for line in lines):
        return list(lines)
    return [more + line.removeprefix(less) if line.strip() else line for line in lines]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _by_hunk(old: Lines, new: Lines, choose: Callable[[Lines, Lines], Lines]) -> list[str]:
    """`new` with the added lines of each hunk replaced by `choose(removed, added)`."""
    result: list[str] = []
    at = 0
    for i1, i2, j1, j2 in diff_ranges(old, new):
        result += [*new[at:j1], *choose(old[i1:i2], new[j1:j2])]
        at = j2
    return [*result, *new[at:]]


_INTENDED = re.compile(
    r"\b(comment|remark|docstring|header|blank|empty line|licen[cs]e|shebang|format|tidy|clean|remov|delet|strip|"
    r"rewrit)",
    re.IGNORECASE,
)
_SLASH = re.compile(r"\.(?:[mc]?[jt]sx?|java|go|rs|c|h|cc|cpp|hpp|cs|css|scss|php|kt|swift)$")
_HASH = re.compile(r"\.(?:pyi?|sh|bash|zsh|ya?ml|toml|rb|pl|r|cfg|ini|conf|mk|cmake|tf)$|(?:^|/)\.?[^./]+$")
_MARKUP = re.compile(r"\.(?:md|markdown|html?|xml|vue|svelte)$")


def with_remarks(path: str, old: Lines, new: Lines, request: str) -> list[str]:
    """Return `new` without hunks that only drop comments, or only change blank lines or trailing white space.

    If the request may intend such changes, returns `new` unchanged.
    """

    def is_remark(line: str) -> bool:
        text = line.strip()
        if not text:
            return True
        if _SLASH.search(path):
            return text.startswith(("//", "/*", "*"))
        if _MARKUP.search(path):
            return text.startswith("<!--") and text.endswith("-->")
        return text.startswith("#") and _HASH.search(path) is not None

    def code(lines: Lines) -> list[str]:
        return [line.rstrip() for line in lines if not is_remark(line)]

    def choose(removed: Lines, added: Lines) -> Lines:
        comments = any(line.strip() and is_remark(line) for line in added)
        return removed if not comments and code(removed) == code(added) else added

    return list(new) if _INTENDED.search(request) else _by_hunk(old, new, choose)


_CLAUSES = re.compile(r"[.;,:\n]\s|\b(?:but|while|and|so that)\b")
_STAYS = re.compile(
    r"\b(?:stays?|remains?|keeps?|is kept|leave|left)\b.*"
    r"\b(?:as (?:it|they) (?:is|are)|unchanged|untouched|alone|the same)\b"
    r"|\b(?:do not|don't|never|must not|without) (?:chang|touch|edit|modify|alter)\w*",
    re.IGNORECASE,
)
_ADDS = re.compile(r"\s*(?:please\s+)?(?:add|give|document|support|introduce|include)\b", re.IGNORECASE)
_TAKES = re.compile(
    r"\b(?:instead|remov|delet|drop|replac|renam|mov|chang|rewrit|turn|only|no longer|rather)", re.IGNORECASE
)
_FEW, _LIKE = 12, 0.5  # removed lines at most; least similarity of a line and its new version
_PUT_BACK = 2  # definitions to restore; an answer without more of them is only part of the file
_LITERAL = re.compile(r"""(["'])(?:[^"'\\\n{}]|\\.)*\1""")  # without braces, which may contain code


def with_unasked_put_back(path: str, old: Lines, new: Lines, request: str, source: Lines) -> list[str]:
    """Return `new` without changes that were not requested.

    Restores:
    - definitions that the request says to keep
    - definitions of `source` (the file as read) that are missing although the request does not name them
    - lines that were replaced by unrelated ones, if the request only adds something
    - string literals, if the request is a rename
    """
    lines = list(new)
    if words := frozen_words(request):
        before, after = _definition_rows(path, old), _definition_rows(path, lines)
        frozen = [name for name in before if name in after and _is_named(name, words)]
        for name in sorted(frozen, key=after.__getitem__, reverse=True):
            lines[slice(*after[name])] = old[slice(*before[name])]
    lines = _with_lost(path, old, lines, request, source)
    if _ADDS.match(request) and not _TAKES.search(request):
        lines = _by_hunk(old, lines, _with_unrelated)
    if is_rename(request):
        lines = _by_hunk(old, lines, lambda removed, added: _with_literals(removed, added, request))
    return lines


def changes_to_frozen(changes: Sequence[FileChange], instruction: str) -> list[str]:
    """The names of definitions that changed although the instruction forbids it."""
    words = frozen_words(instruction)
    names: list[str] = []
    for change in changes if words else ():
        if change.path and change.before and change.after is not None:
            texts = [data.decode("utf-8", "replace").split("\n") for data in (change.before, change.after)]
            old, new = (
                {name: lines[slice(*rows)] for name, rows in _definition_rows(change.path, lines).items()}
                for lines in texts
            )
            names += [name for name in old if _is_named(name, words) and new.get(name) != old[name]]
    return names


def frozen_words(instruction: str) -> set[str]:
    """The words in those clauses of a request that say what must not change."""
    clauses = [clause for clause in _CLAUSES.split(f"{instruction} ") if _STAYS.search(clause)]
    return set(re.findall(r"[\w.]+", " ".join(clauses)))


def _is_named(name: str, words: set[str]) -> bool:
    return name in words or (name.rpartition(".")[2] in words and len(name) > 3)


def _definition_rows(path: str, lines: Lines) -> dict[str, tuple[int, int]]:
    """The rows of each definition (from 0, end exclusive)."""
    from repoagent.syntax.outline import outline

    data = "\n".join(lines).encode("utf-8", "replace") + b"\n"
    symbols = (symbol for symbol in outline(path, data) if symbol.kind != "heading")
    return {symbol.qualified_name: (symbol.first_line - 1, symbol.last_line) for symbol in symbols}


def _with_lost(path: str, old: Lines, new: Lines, request: str, source: Lines) -> list[str]:
    """Restore a few missing definitions, each after its former predecessor."""
    lines = list(new)
    before, after = _definition_rows(path, old), _definition_rows(path, lines)
    words = set(re.findall(r"\w+", request))
    restorable = {name.rpartition(".")[2] for name in _definition_rows(path, source)} - words
    lost = [name for name in before if name not in after and name.rpartition(".")[2] in restorable]
    if not 0 < len(lost) <= _PUT_BACK or 2 * len(lost) > len(before):
        return lines
    for name in lost:
        first, last = before[name]
        earlier = [shared for shared in before if shared in after and before[shared][1] <= first]
        if not earlier or any(first < before[shared][0] < last for shared in after if shared in before):
            return list(new)
        neighbor = max(earlier, key=before.__getitem__)
        row = after[neighbor][1]
        lines[row:row] = old[before[neighbor][1] : last]
        after = _definition_rows(path, lines)
    return lines


def _with_unrelated(removed: Lines, added: Lines) -> Lines:
    """The added lines, after the removed ones if no added line is similar to a removed one."""
    old, new = ([line.strip() for line in lines if line.strip()] for lines in (removed, added))
    if not old or not new or len(old) > _FEW:
        return added
    alike = any(
        a in b or SequenceMatcher(None, a, b, autojunk=False).ratio() > _LIKE for a in old for b in new
    )
    return added if alike else [*removed, *added]


def _with_literals(removed: Lines, added: Lines, request: str) -> Lines:
    """The added lines with the string literals of the removed ones, unless the request contains one of these."""
    if len(removed) != len(added):
        return added
    lines = []
    for old, new in zip(removed, added, strict=True):
        texts = [match[0] for match in _LITERAL.finditer(old)]
        if len(texts) == len(_LITERAL.findall(new)) and not any(text in request for text in texts):
            gaps = _LITERAL.split(new)[::2]  # the parts between are the quotation marks
            new = gaps[0] + "".join(text + gap for text, gap in zip(texts, gaps[1:], strict=True))
        lines.append(new)
    return lines
