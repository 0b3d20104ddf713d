"""Report syntax errors that a change adds to a file. Prefers false negatives to false positives."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from functools import lru_cache
from itertools import islice

from repoagent.syntax.languages import language_of
from repoagent.syntax.parser import CHECK_BYTES, CHECK_SECONDS, Flaw, find_flaws, parse_within, source_text

_BRACKETS = frozenset("{}()[]")
_MARKUP = frozenset({"yaml", "html", "xml", "json", "css", "markdown"})
# A template is not in the language of its name before it is rendered (`${{ }}` of workflow files is plain YAML).
_TEMPLATE = re.compile(rb"(?<!\$)\{\{|\{%|<%|<\?php|<\?=")
# JSON files in which comments and trailing commas are allowed.
_RELAXED_JSON = re.compile(
    r"\.jsonc$|\.code-workspace$|(^|/)(ts|js)config[^/]*\.json$|(^|/)\.vscode/|devcontainer\.json$|(^|/)\.(eslint|babel|swc)rc"
)
_MOST = 2000  # flaws; a file with more is not compared


def parses_worse(path: str, before: bytes | None, after: bytes) -> str | None:
    """A sentence about the syntax error that the change from `before` to `after` adds, with its line; None if it adds
    none. `before` is None for a new file.

    If the file did not parse before, only errors that the change itself adds count. Also None without a grammar, for
    templates and huge files, if Python accepts the text, and in C and C++ if a macro may explain the error.
    """
    message, certain = _new_error(path, before, after)
    return message if certain else None


def parse_doubt(path: str, before: bytes | None, after: bytes) -> str | None:
    """Like `parses_worse`, but includes errors that a macro may explain, for a warning."""
    return _new_error(path, before, after)[0]


@lru_cache(maxsize=4)  # called by the check, and again to show the change
def _new_error(path: str, before: bytes | None, after: bytes) -> tuple[str | None, bool]:
    """The message, and whether the error is certain."""
    language = language_of(path, after)
    if language is None or len(after) > CHECK_BYTES or (language in _MARKUP and _TEMPLATE.search(after)):
        return None, False
    new = _flaws(path, after, language)
    if not new or len(new) >= _MOST:
        return None, False
    python_error = _python_error(after) if language == "python" else (0, "")
    old = _flaws(path, before or b"", language) if python_error is not None else None
    if python_error is None or old is None or len(old) >= _MOST:
        return None, False
    old_text, new_text = source_text(before or b""), source_text(after)
    # the changed lines, from 0 and inclusive, with one unchanged line: a flaw next to a deletion belongs to it
    lines, new_lines = old_text.split(b"\n"), new_text.split(b"\n")
    shorter = min(len(lines), len(new_lines))
    head = next((n for n in range(shorter) if lines[n] != new_lines[n]), shorter)
    tail = next((n for n in range(shorter - head) if lines[-1 - n] != new_lines[-1 - n]), shorter - head)
    first, last_before, last_after = max(head - 1, 0), len(lines) - tail, len(new_lines) - tail
    if old:
        added = _added(old, new, first, last_before, last_after)
    else:
        added = sorted(new, key=lambda flaw: (not _touches(flaw, first, last_after), flaw.line))
    if language in ("c", "cpp"):
        from repoagent.syntax.c_errors import new_c_faults

        if faults := new_c_faults(old_text, new_text):
            bracket = next((flaw for flaw in added if flaw.missing in _BRACKETS), None)
            error = _describe(bracket) if bracket is not None and faults[0].bracket else faults[0].message
            return f"{path} would no longer parse as {language}: {error}.", True
        if added and _touches(added[0], first, last_after):
            error = _describe(added[0])
            return f"{path} may not parse as {language}, unless a macro makes it valid: {error}", False
        return None, False
    if not added:
        return None, False
    line, message = python_error
    if first < line <= last_after + 1:
        return f"{path} would no longer parse as python: line {line}: {message}.", True
    where = ""
    if before is not None and not first <= added[0].line <= last_after:
        place = f"around line {first + 2}" if last_after - first < 3 else f"on lines {first + 2}-{last_after}"
        where = f" (the change is {place})"
    return f"{path} would no longer parse as {language}: {_describe(added[0])}{where}.", True


def _flaws(path: str, data: bytes, language: str) -> list[Flaw] | None:
    tree = parse_within(data, language, CHECK_SECONDS) if len(data) <= CHECK_BYTES else None
    if tree is None:
        return None
    result = list(islice(find_flaws(tree, source_text(data)), _MOST))
    if language == "json" and _RELAXED_JSON.search(path):
        return [flaw for flaw in result if not flaw.after_comma and flaw.text != b","]
    return result


def _python_error(data: bytes) -> tuple[int, str] | None:
    """The line (0 if unknown) and message of this interpreter's error; None if it accepts the file, which it may do
    although the grammar, an older one, does not."""
    import ast

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(data)
        except SyntaxError as error:
            return error.lineno or 0, error.msg
        except (ValueError, RecursionError, MemoryError):
            return 0, ""
    return None


def _added(old: list[Flaw], new: list[Flaw], first: int, last_before: int, last_after: int) -> list[Flaw]:
    """The flaws of `new` that the change added; empty if it removed as many."""

    def key(flaw: Flaw, last: int) -> tuple[int, str]:  # below the change, lines count from there
        return last - flaw.line if flaw.line > last else flaw.line, flaw.missing

    def outside(flaws_: list[Flaw], last: int) -> Counter[tuple[int, str]]:
        return Counter(key(flaw, last) for flaw in flaws_ if not first <= flaw.line <= last)

    unchanged = outside(old, last_before) & outside(new, last_after)

    def changed(flaws_: list[Flaw], last: int) -> list[Flaw]:
        left, result = unchanged.copy(), []
        for flaw in flaws_:
            if not first <= flaw.line <= last and left[key(flaw, last)] > 0:
                left[key(flaw, last)] -= 1
            elif _touches(flaw, first, last) or _unbalanced(flaw):
                result.append(flaw)
        return result

    # Text that the grammar also rejects elsewhere in this file, such as a macro, is not an error of the new lines.
    known = {flaw.text for flaw in old if not _unbalanced(flaw)}
    removed, added = changed(old, last_before), []
    for flaw in changed(new, last_after):
        same = next((o for o in removed if (o.text, o.missing) == (flaw.text, flaw.missing)), None)
        if same is not None:
            removed.remove(same)
        elif flaw.missing or flaw.text not in known:
            added.append(flaw)
    return added if len(added) > len(removed) else []


def _touches(flaw: Flaw, first: int, last: int) -> bool:
    return flaw.first <= last and flaw.last >= first


def _unbalanced(flaw: Flaw) -> bool:
    """Whether a bracket is extra or missing: its cause may be elsewhere."""
    return flaw.missing in _BRACKETS or flaw.text.strip().decode("utf-8", "replace") in _BRACKETS


def _describe(flaw: Flaw) -> str:
    if flaw.missing:
        of = f", in the construct that starts on line {flaw.first + 1}" if flaw.first < flaw.line else ""
        return f"a `{flaw.missing}` is missing on line {flaw.line + 1}{of}"
    text = " ".join(flaw.text[:400].decode("utf-8", "replace").split())
    shown = "".join(c if c.isprintable() else "?" for c in text[:60]) + ("…" if len(text) > 60 else "")
    return f"syntax error on line {flaw.line + 1} at `{shown}`"
