"""conflict-marker, secret and debug-leftover: what an added line should not contain."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from repoagent.review.change import ChangedFile
from repoagent.review.checks import file_origin
from repoagent.review.checks.context import StaticContext
from repoagent.review.checks.missing_partner import is_comment
from repoagent.review.checks.parse_error import no_longer_parses
from repoagent.review.finding import Finding, Location
from repoagent.storage.secrets import MASK

_SHOWN = 5  # lines that a finding names
_LONGEST = 500  # characters of a line that may be a debugging call; a longer one is generated


class _Added(NamedTuple):
    number: int
    line: bytes


def _added(context: StaticContext, file: ChangedFile) -> Iterator[_Added]:
    for hunk in context.change.read_lines(file):
        for number, line in enumerate(hunk.added, hunk.new):
            yield _Added(number, line)


def _and_more(numbers: list[int]) -> str:
    """`; also on lines 12, 40 and 3 more`, for the lines after the first one."""
    if len(numbers) < 2:
        return ""
    shown = ", ".join(map(str, numbers[1 : 1 + _SHOWN]))
    more = f" and {len(numbers) - 1 - _SHOWN} more" if len(numbers) > 1 + _SHOWN else ""
    return f" Also on line{'s' * (len(numbers) > 2)} {shown}{more}."


_MARKER = re.compile(rb"(?:<{7}|>{7}|\|{7})(?: |\r?\n|\Z)|={7}\r?\n?\Z")
_OPEN, _MIDDLE, _CLOSE = b"<<<<<<<", b"=======", b">>>>>>>"
_FENCE = re.compile(rb"[ ]{0,3}(?:```|~~~)")


def find_conflict_markers(context: StaticContext) -> list[Finding]:
    """One finding for each file with a marker that git left in a conflict."""
    found = []
    for file in context.files:
        markers = [one for one in _added(context, file) if _MARKER.match(one.line)]
        ends = [one for one in markers if one.line[:7] in (_OPEN, _CLOSE)]
        if not ends or not (texts := context.texts(file)) or not _is_conflict(file.path, *texts):
            continue
        number, line = ends[0]
        found.append(
            Finding(
                "conflict-marker", context.levels["conflict-marker"],
                f"{file.path} has the conflict marker {line[:7].decode()}", Location(file.path, number, number),
                "The change contains the markers that git writes into a file with conflicts."
                + _and_more([one.number for one in markers if one.number >= number]),
                key="marker", quote=line.decode("utf-8", "replace").rstrip(),
            )
        )  # fmt: skip
    return found


def _is_conflict(path: str, old: bytes, new: bytes) -> bool:
    """Whether the markers are those of a conflict, not an example in a text, a test or a heredoc: the file no longer
    parses, or has all three in order outside of tests and code blocks."""
    from repoagent.syntax.languages import language_of

    if any(line[:7] in (_OPEN, _CLOSE) and _MARKER.match(line) for line in old.split(b"\n")):
        return False
    language = language_of(path, new)
    if language in ("c", "cpp") or no_longer_parses(path, old, new) is not None:
        return True
    if file_origin.is_test(path):
        return False
    expected, fenced = [_OPEN, _MIDDLE, _CLOSE], False
    for line in new.split(b"\n"):
        fenced ^= language == "markdown" and _FENCE.match(line) is not None
        if not fenced and _MARKER.match(line) and line[:7] == expected[0]:
            expected.pop(0)
            if not expected:
                return True
    return False


_EXAMPLE = re.compile(r"secret|passw|token", re.IGNORECASE)  # a value that is made up for an example


def find_secrets(context: StaticContext) -> list[Finding]:
    """One finding for each file to which a key, a token or a password is added; the value is never shown. Tests,
    examples and documents contain made-up ones and are skipped."""
    found = []
    for file in context.files:
        if (
            file_origin.is_lock(file.path)
            or file_origin.is_vendored_path(file.path)
            or file_origin.is_test(file.path)
        ):
            continue
        lines = list(_added(context, file))
        text = b"".join(line for _, line in lines).decode("utf-8", "replace")
        if not text.strip():
            continue
        from repoagent.storage.secrets import secrets_in

        values = sorted(set(secrets_in(text)), key=len, reverse=True)
        texts = context.texts(file) if values else None
        if texts is None:
            continue
        before = texts[0].decode("utf-8", "replace")
        values = [value for value in values if value not in before and not _EXAMPLE.search(value)]
        where = [(number, line) for number, line in lines if any(value in _text(line) for value in values)]
        if not where:
            continue
        context.secrets.extend(values)
        number, line = where[0]
        value = next(value for value in values if value in _text(line))
        shown = masked(_text(line), values).rstrip()
        found.append(
            Finding(
                "secret", context.levels["secret"],
                f"{file.path} adds what looks like a key, a token or a password", Location(file.path, number, number),
                f"The value ({len(value)} characters) is not shown. Read it from the environment or from a file that "
                "git ignores; if it was pushed, revoke it."
                + _and_more([one for one, _ in where]),
                key=shown.strip(), quote=shown,
            )
        )  # fmt: skip
    return found


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")


def masked(text: str, values: list[str] | tuple[str, ...]) -> str:
    """`text` with stars for each of the values, the longest first."""
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


class _Debugging(NamedTuple):
    """Patterns, compiled when a line is looked at: `always` is for debugging alone, `output` may be what a program
    prints as its work."""

    always: bytes
    output: bytes = b""


_SCRIPT = _Debugging(rb"^\s*debugger\s*;?\s*$", rb"\bconsole\.(?:log|debug|dir)\(")
_DEBUGGING = {
    "py": _Debugging(
        rb"^\s*(?:import \w*pdb\s*;\s*)?(?:breakpoint|\w*pdb\.set_trace)\(\)",
        rb"(?<![\w.])print\(",
    ),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "vue"), _SCRIPT),
    "rb": _Debugging(rb"^\s*(?:binding\.(?:pry|irb)|byebug)\b"),
    "rs": _Debugging(rb"\bdbg!\(", rb"\be?println!\("),
    "go": _Debugging(rb"\bspew\.Dump\(", rb"\bfmt\.Print(?:ln|f)?\(|(?<![\w.])println\("),
    "php": _Debugging(rb"^\s*(?:var_dump|dd)\("),
}  # fmt: skip
# Of what may be normal output only this: a variable alone, all variables, a mark that catches the eye.
_LOOKS = rb"(?:\s*(?:[\w.$]+\s*\)|[fbru]?[\"'`]\s*(?:(?i:here|debug|xxx)\b|[>*=#-]{3})|[^)]*(?:\{\w+=\}|\blocals\(\))))"
_NOTE = rb"\b(?:TODO:?\s+REMOVE\b|DO\s?NOT\s?COMMIT\b|NOCOMMIT\b|REMOVE BEFORE (?:COMMIT|MERGE)\b)"
_OUTPUT_PATH = (
    r"(?:^|/)(?:tests?|testing|examples?|docs?|scripts?|tools?|bin|bench\w*|demos?|utils|cmd|cli|tasks)(?:/|\.|$)"
    r"|(?:^|/)(?:test_|conftest|setup|build|main|cli|manage|__main__)[^/]*$|_test\.\w+$"
)


def find_debug_leftovers(context: StaticContext) -> list[Finding]:
    """One finding for each file with such a line."""
    found = []
    for file in context.files:
        if file_origin.is_vendored_path(file.path):
            continue
        table = _DEBUGGING.get(file.path.rpartition(".")[2].lower())
        lines = [one for one in _added(context, file) if _is_leftover(file.path, one.line, table)]
        if not lines or not (texts := context.texts(file)):
            continue
        old = texts[0]
        if table and table.output and not _is_quiet(file, old, table.output):
            lines = [one for one in lines if re.search(table.always, one.line) or re.search(_NOTE, one.line)]
        lines = [one for one in lines if one.line.strip() not in old]
        if not lines:
            continue
        number, line = lines[0]
        code = line.decode("utf-8", "replace").strip()
        found.append(
            Finding(
                "debug-leftover", context.levels["debug-leftover"],
                f"{file.path} adds a line that looks left over from debugging: {code[:60]}",
                Location(file.path, number, number),
                "The file had no such line before." + _and_more([one.number for one in lines]),
                quote=line.decode("utf-8", "replace").rstrip(),
            )
        )  # fmt: skip
    return found


def _is_leftover(path: str, line: bytes, table: _Debugging | None) -> bool:
    if len(line) > _LONGEST:
        return False
    if re.search(_NOTE, line):
        return True
    if table is None or is_comment(path, line):
        return False
    return bool(re.search(table.always, line) or (table.output and re.search(table.output + _LOOKS, line)))


def _is_quiet(file: ChangedFile, old: bytes, output: bytes) -> bool:
    """Whether printing is not part of what the file does."""
    if file.status not in ("modified", "renamed") or re.search(_OUTPUT_PATH, file.path.lower()):
        return False
    return not re.search(output, old) and not old.startswith(b"#!") and b"__main__" not in old
