"""Repair typical mistakes in rewritten code: misplaced imports, indentation, dropped comments, frozen text."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher

from repoagent.git.files import FileChange
from repoagent.patch.render import differing

_PYTHON = re.compile(
    r"(?:import [\w.]+(?: as \w+)?(?:, *[\w.]+(?: as \w+)?)*|from [\w.]+ import [\w*, ]+)\s*(?:#.*)?$"
)
_SCRIPT = re.compile(
    r"import\b.*['\"];?\s*$|(?:const|let|var) [\w${}, :]+ = require\(['\"][^'\"]+['\"]\)(?:\.\w+)?;?\s*$"
)
_SCRIPTS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")


def leading_imports(path: str, lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """The import statements (of one line each) at the beginning of `lines`, and the rest."""
    pattern = _pattern(path)
    at = 0
    found: list[str] = []
    while pattern and at < len(lines) and (not lines[at].strip() or pattern.match(lines[at])):
        found += [lines[at].rstrip()] if lines[at].strip() else []
        at += 1
    return (found, list(lines[at:])) if found else ([], list(lines))


def place_of_imports(path: str, lines: Sequence[str]) -> int | None:
    """The row (from 0) before which another import belongs; None if uncertain.

    It is after the last import of the file's head; in Python without any, after the docstring.
    """
    if _pattern(path) is _PYTHON:
        return _python_place(lines)
    rows = [row for row, line in enumerate(lines) if _SCRIPT.match(line)]
    return rows[-1] + 1 if rows else None


def missing_imports(path: str, imports: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Those of `imports` that the file lacks."""
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


def reindented(lines: Sequence[str], old: Sequence[str]) -> list[str]:
    """`lines` at the indentation of `old`, which they replace.

    Two slips are repaired: all lines are shifted alike (a method at column 0), or only the first is. The lines that
    both share decide; if they disagree, the text is kept and the parser judges.
    """
    pairs = _pairs(lines, old)
    own, wanted = _indent(lines[0]), _indent(old[0])
    if own == wanted and (not pairs or all(h == f for h, f in pairs)):
        return list(lines)
    rest = {pair for pair in pairs if pair != (own, wanted)}
    if own != wanted and (all(h == f for h, f in rest) if rest else _only_first(lines, old)):
        return [wanted + lines[0].lstrip(), *lines[1:]]
    shifts = {_shift(h, f) for h, f in rest or {(own, wanted)}}
    if len(shifts) != 1 or (shift := shifts.pop()) is None:
        return list(lines)
    more, less = shift
    if any(line.strip() and not line.startswith(less) for line in lines):
        return list(lines)
    return [more + line.removeprefix(less) if line.strip() else line for line in lines]


def _pairs(lines: Sequence[str], old: Sequence[str]) -> set[tuple[str, str]]:
    """(indentation as written, as it was) of the lines that both have exactly once."""
    new_counts, old_counts = Counter(map(str.strip, lines)), Counter(map(str.strip, old))
    was = {line.strip(): _indent(line) for line in old}
    return {
        (_indent(line), was[text])
        for line in lines
        if (text := line.strip()) and len(text) > 2 and new_counts[text] == 1 and old_counts[text] == 1
    }


def _shift(written: str, wanted: str) -> tuple[str, str] | None:
    """What has to be put before each line, and what taken from it; None for tabs against spaces."""
    if wanted.endswith(written):
        return wanted[: len(wanted) - len(written)], ""
    return ("", written[: len(written) - len(wanted)]) if written.endswith(wanted) else None


def _only_first(lines: Sequence[str], old: Sequence[str]) -> bool:
    """Whether, with no line in common, the second line stands as deep as that of the old text."""
    second = [next((_indent(line) for line in some[1:] if line.strip()), None) for some in (lines, old)]
    return second[0] is not None and second[0] == second[1]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


_ASKED = re.compile(
    r"\b(comment|remark|docstring|header|blank|empty line|licen[cs]e|shebang|format|tidy|clean|remov|delet|strip|"
    r"rewrit)",
    re.IGNORECASE,
)
_SLASH = re.compile(r"\.(?:[mc]?[jt]sx?|java|go|rs|c|h|cc|cpp|hpp|cs|css|scss|php|kt|swift)$")
_HASH = re.compile(r"\.(?:pyi?|sh|bash|zsh|ya?ml|toml|rb|pl|r|cfg|ini|conf|mk|cmake|tf)$|(?:^|/)\.?[^./]+$")
_MARKUP = re.compile(r"\.(?:md|markdown|html?|xml|vue|svelte)$")


def with_remarks(path: str, old: Sequence[str], new: Sequence[str], request: str) -> list[str]:
    """`new` with the comments and blank lines of `old` restored, and added trailing white space and blank lines
    removed, wherever nothing else changed. Unchanged if the request may intend them."""
    if _ASKED.search(request):
        return list(new)
    result: list[str] = []
    at = 0
    for i1, i2, j1, j2 in differing(old, new):
        result += new[at:j1]
        gone, come = old[i1:i2], new[j1:j2]
        said = any(line.strip() and _is_remark(path, line) for line in come)
        result += gone if not said and _code(path, gone) == _code(path, come) else come
        at = j2
    return [*result, *new[at:]]


def _is_remark(path: str, line: str) -> bool:
    text = line.strip()
    if not text:
        return True
    if _SLASH.search(path):
        return text.startswith(("//", "/*", "*"))
    if _MARKUP.search(path):
        return text.startswith("<!--") and text.endswith("-->")
    return text.startswith("#") and _HASH.search(path) is not None


def _code(path: str, lines: Sequence[str]) -> list[str]:
    return [line.rstrip() for line in lines if not _is_remark(path, line)]


_CLAUSES = re.compile(r"[.;,:\n]\s|\b(?:but|while|and|so that)\b")
_STAYS = re.compile(
    r"\b(?:stays?|remains?|keeps?|is kept|leave|left)\b.*"
    r"\b(?:as (?:it|they) (?:is|are)|unchanged|untouched|alone|the same)\b"
    r"|\b(?:do not|don't|never|must not|without) (?:chang|touch|edit|modify|alter)\w*",
    re.IGNORECASE,
)
RENAMES = re.compile(r"\brenam", re.IGNORECASE)
_ADDS = re.compile(r"\s*(?:please\s+)?(?:add|give|document|support|introduce|include)\b", re.IGNORECASE)
_TAKES = re.compile(
    r"\b(?:instead|remov|delet|drop|replac|renam|mov|chang|rewrit|turn|only|no longer|rather)", re.IGNORECASE
)
_FEW, _LIKE = 12, 0.5  # lines; how alike two lines are of which one has come of the other
_PUT_BACK = 2  # definitions; who leaves out more has not written everything
_LITERAL = re.compile(r"""(["'])(?:[^"'\\\n{}]|\\.)*\1""")  # one with braces may hold code


def with_unasked_put_back(
    path: str, old: Sequence[str], new: Sequence[str], request: str, source: Sequence[str]
) -> list[str]:
    """`new` with unrequested changes reverted.

    Restores definitions that the request says to keep; those of `source`, the file as it was read, that are gone though
    the request does not name them (a small model that adds a method overwrites its neighbor); where something is to be
    added, lines that were replaced by unrelated ones; and, in a rename, texts in quotes.
    """
    lines = _with_definitions(path, old, new, frozen_words(request))
    lines = _with_lost(path, old, lines, set(re.findall(r"\w+", request)), _outlined(path, source))
    if _ADDS.match(request) and not _TAKES.search(request):
        lines = _with_written_over(old, lines)
    return _with_literals(old, lines, request) if RENAMES.search(request) else lines


def changes_to_frozen(changes: Sequence[FileChange], instruction: str) -> list[str]:
    """The names of definitions that changed although the instruction says that they must not."""
    words = frozen_words(instruction)
    found: list[str] = []
    for change in changes if words else ():
        if not change.path or not change.before or change.after is None:
            continue
        old, new = (
            {name: data.split(b"\n")[first:last] for name, (first, last) in _rows(change.path, data).items()}
            for data in (change.before, change.after)
        )
        found += [name for name, text in old.items() if _is_named(name, words) and new.get(name) != text]
    return found


def frozen_words(instruction: str) -> set[str]:
    """The words of those clauses of a request that say what must stay unchanged."""
    clauses = [clause for clause in _CLAUSES.split(f"{instruction} ") if _STAYS.search(clause)]
    return set(re.findall(r"[\w.]+", " ".join(clauses)))


def _is_named(name: str, words: set[str]) -> bool:
    return name in words or (name.rpartition(".")[2] in words and len(name) > 3)


def _rows(path: str, data: bytes) -> dict[str, tuple[int, int]]:
    """The definitions of a text and their lines, from 0, the second not included."""
    from repoagent.syntax.outline import outline

    return {
        symbol.qualified_name: (symbol.first_line - 1, symbol.last_line)
        for symbol in outline(path, data)
        if symbol.kind != "heading"
    }


def _with_definitions(path: str, old: Sequence[str], new: Sequence[str], words: set[str]) -> list[str]:
    lines = list(new)
    if not words:
        return lines
    before, now = _outlined(path, old), _outlined(path, lines)
    frozen = [name for name in before if name in now and _is_named(name, words)]
    for name in sorted(frozen, key=lambda name: now[name], reverse=True):
        lines[slice(*now[name])] = old[slice(*before[name])]
    return lines


def _with_lost(
    path: str, old: Sequence[str], new: Sequence[str], words: Collection[str], source: Collection[str]
) -> list[str]:
    lines = list(new)
    before, now = _outlined(path, old), _outlined(path, lines)
    read = {name.rpartition(".")[2] for name in source}
    short = {name: name.rpartition(".")[2] for name in before}
    lost = [name for name in before if name not in now and short[name] in read and short[name] not in words]
    if not 0 < len(lost) <= _PUT_BACK or 2 * len(lost) > len(before):
        return lines  # nothing, or so much that the answer is no more than a part
    for name in lost:
        first, last = before[name]
        ahead = [other for other in before if other in now and before[other][1] <= first]
        if not ahead or any(
            first < row < last for row, _ in (before[other] for other in now if other in before)
        ):
            return list(new)
        neighbour = max(ahead, key=lambda other: before[other])
        gap, at = before[neighbour][1], now[neighbour][1]
        lines[at:at] = old[gap:last]
        now = _outlined(path, lines)
    return lines


def _outlined(path: str, lines: Sequence[str]) -> dict[str, tuple[int, int]]:
    return _rows(path, "\n".join(lines).encode("utf-8", "replace") + b"\n")


def _with_written_over(old: Sequence[str], new: Sequence[str]) -> list[str]:
    lines: list[str] = []
    at = 0
    for i1, i2, j1, j2 in differing(old, new):
        lines += new[at:j1]
        gone, come = [[line.strip() for line in text if line.strip()] for text in (old[i1:i2], new[j1:j2])]
        if gone and come and len(gone) <= _FEW and not any(_alike(was, now) for was in gone for now in come):
            lines += old[i1:i2]
        lines += new[j1:j2]
        at = j2
    return [*lines, *new[at:]]


def _alike(was: str, now: str) -> bool:
    return was in now or SequenceMatcher(None, was, now, autojunk=False).ratio() > _LIKE


def _with_literals(old: Sequence[str], new: Sequence[str], request: str) -> list[str]:
    lines = list(new)
    for i1, i2, j1, j2 in differing(old, new):
        if i2 - i1 != j2 - j1:
            continue
        for was, at in zip(old[i1:i2], range(j1, j2), strict=True):
            before = [match[0] for match in _LITERAL.finditer(was)]
            now = [match[0] for match in _LITERAL.finditer(lines[at])]
            if len(before) == len(now) and not any(literal in request for literal in before):
                lines[at] = _with_texts(lines[at], before)
    return lines


def _with_texts(line: str, texts: Sequence[str]) -> str:
    """`line` with these quoted texts in place of its own."""
    result, at = "", 0
    for match, text in zip(_LITERAL.finditer(line), texts, strict=True):
        result += line[at : match.start()] + text
        at = match.end()
    return result + line[at:]
