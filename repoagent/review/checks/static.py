"""conflict-marker, secret, debug-leftover and parse-error: what a changed text should not contain."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from repoagent.review.change import Change, ChangedFile
from repoagent.review.checks import file_origin
from repoagent.review.checks.context import StaticContext
from repoagent.review.checks.missing_partner import is_comment
from repoagent.review.finding import Finding, Location

_MOST_LISTED = 5  # other lines that a finding names
_LONGEST = 500  # characters of a line that may be a debugging call; a longer one is generated


class _Added(NamedTuple):
    number: int
    line: bytes


def _added(context: StaticContext, file: ChangedFile) -> Iterator[_Added]:
    for hunk in context.change.read_lines(file):
        for number, line in enumerate(hunk.added, hunk.new):
            yield _Added(number, line)


def _other_lines(numbers: list[int]) -> str:
    """`; also on lines 12, 40 and 3 more`, for the lines after the first one."""
    if len(numbers) < 2:
        return ""
    listed = ", ".join(map(str, numbers[1 : 1 + _MOST_LISTED]))
    omitted = f" and {len(numbers) - 1 - _MOST_LISTED} more" if len(numbers) > 1 + _MOST_LISTED else ""
    return f" Also on line{'s' * (len(numbers) > 2)} {listed}{omitted}."


_MARKER = re.compile(rb"(?:<{7}|>{7}|\|{7})(?: |\r?\n|\Z)|={7}\r?\n?\Z")
_OPEN, _MIDDLE, _CLOSE = b"<<<<<<<", b"=======", b">>>>>>>"
_FENCE = re.compile(rb"[ ]{0,3}(?:```|~~~)")


def find_conflict_markers(context: StaticContext) -> list[Finding]:
    """One finding for each file with a conflict marker of git."""
    findings = []
    for file in context.files:
        markers = [added for added in _added(context, file) if _MARKER.match(added.line)]
        ends = [added for added in markers if added.line[:7] in (_OPEN, _CLOSE)]
        if not ends or not (texts := context.texts(file)) or not _is_conflict(file.path, *texts):
            continue
        number, line = ends[0]
        title = f"{file.path} has the conflict marker {line[:7].decode()}"
        body = "The change contains the markers that git writes into a file with conflicts."
        body += _other_lines([added.number for added in markers if added.number >= number])
        location = Location(file.path, number, number)
        findings.append(
            context.finding(
                "conflict-marker", title, location, body, key="marker", quote=_text(line).rstrip()
            )
        )
    return findings


def _is_conflict(path: str, old: bytes, new: bytes) -> bool:
    """Whether the markers are a conflict, not an example in a text, a test or a heredoc: the file no longer parses, or
    has all three in order outside of tests and code blocks."""
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


_EXAMPLE = re.compile(r"secret|passw|token", re.IGNORECASE)  # a made-up value of an example


def find_secrets(context: StaticContext) -> list[Finding]:
    """One finding for each file to which a key, a token or a password is added; the value is never shown. Tests,
    examples and documents contain made-up ones and are skipped."""
    findings = []
    exempt = (file_origin.is_lock, file_origin.is_vendored_path, file_origin.is_test)
    for file in context.files:
        if any(is_exempt(file.path) for is_exempt in exempt):
            continue
        added = list(_added(context, file))
        text = _text(b"".join(line for _, line in added))
        if not text.strip():
            continue
        from repoagent.storage.secrets import secrets_in

        values = sorted(set(secrets_in(text)), key=len, reverse=True)
        texts = context.texts(file) if values else None
        if texts is None:
            continue
        before = _text(texts[0])
        values = [value for value in values if value not in before and not _EXAMPLE.search(value)]
        lines = [(number, _text(line)) for number, line in added]
        lines = [(number, line) for number, line in lines if any(value in line for value in values)]
        if not lines:
            continue
        context.secrets.extend(values)
        number, line = lines[0]
        value = next(value for value in values if value in line)
        quote = masked(line, values).rstrip()
        title = f"{file.path} adds what looks like a key, a token or a password"
        body = (
            f"The value ({len(value)} characters) is not shown. Read it from the environment or from a file that "
            "git ignores; if it was pushed, revoke it."
        )
        body += _other_lines([number for number, _ in lines])
        location = Location(file.path, number, number)
        findings.append(context.finding("secret", title, location, body, key=quote.strip(), quote=quote))
    return findings


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")


def masked(text: str, values: list[str] | tuple[str, ...]) -> str:
    """`text` with stars for each of the values, the longest first."""
    from repoagent.storage.secrets import MASK

    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


class _Debugging(NamedTuple):
    """Patterns, compiled on first use: `always` matches debugging only, `output` may be normal output of a program."""

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
# Output that looks like debugging: a variable alone, all variables, an eye-catching mark.
_LOOKS = rb"(?:\s*(?:[\w.$]+\s*\)|[fbru]?[\"'`]\s*(?:(?i:here|debug|xxx)\b|[>*=#-]{3})|[^)]*(?:\{\w+=\}|\blocals\(\))))"
_NOTE = rb"\b(?:TODO:?\s+REMOVE\b|DO\s?NOT\s?COMMIT\b|NOCOMMIT\b|REMOVE BEFORE (?:COMMIT|MERGE)\b)"
_OUTPUT_PATH = (
    r"(?:^|/)(?:tests?|testing|examples?|docs?|scripts?|tools?|bin|bench\w*|demos?|utils|cmd|cli|tasks)(?:/|\.|$)"
    r"|(?:^|/)(?:test_|conftest|setup|build|main|cli|manage|__main__)[^/]*$|_test\.\w+$"
)


def find_debug_leftovers(context: StaticContext) -> list[Finding]:
    """One finding for each file with a line left over from debugging."""
    findings = []
    for file in context.files:
        if file_origin.is_vendored_path(file.path):
            continue
        table = _DEBUGGING.get(file.path.rpartition(".")[2].lower())
        lines = [added for added in _added(context, file) if _is_leftover(file.path, added.line, table)]
        if not lines or not (texts := context.texts(file)):
            continue
        old = texts[0]
        if table and table.output and not _is_quiet(file, old, table.output):
            lines = [
                added
                for added in lines
                if re.search(table.always, added.line) or re.search(_NOTE, added.line)
            ]
        lines = [added for added in lines if added.line.strip() not in old]
        if not lines:
            continue
        number, line = lines[0]
        code = _text(line).rstrip()
        title = f"{file.path} adds a line that looks left over from debugging: {code.strip()[:60]}"
        body = "The file had no such line before." + _other_lines([added.number for added in lines])
        location = Location(file.path, number, number)
        findings.append(context.finding("debug-leftover", title, location, body, quote=code))
    return findings


def _is_leftover(path: str, line: bytes, table: _Debugging | None) -> bool:
    if len(line) > _LONGEST:
        return False
    if re.search(_NOTE, line):
        return True
    if table is None or is_comment(path, line):
        return False
    return bool(re.search(table.always, line) or (table.output and re.search(table.output + _LOOKS, line)))


def _is_quiet(file: ChangedFile, old: bytes, output: bytes) -> bool:
    """Whether the file does not normally print."""
    if file.status not in ("modified", "renamed") or re.search(_OUTPUT_PATH, file.path.lower()):
        return False
    return not re.search(output, old) and not old.startswith(b"#!") and b"__main__" not in old


_C = (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx")
_LINE = re.compile(r"\bline (\d+)")


def find_parse_errors(context: StaticContext) -> list[Finding]:
    """One finding for each file that parsed before the change and no longer does."""
    findings = []
    conflicts = {finding.location.path for finding in context.findings}
    for file in context.files:
        if file.status not in ("modified", "renamed") or file.path in conflicts:
            continue
        if context.late():
            context.unseen.append("whether all files still parse: the review took too long")
            break
        if file.path.endswith(_C) and not _may_break_c(context.change, file):
            continue
        texts = context.texts(file)
        error = no_longer_parses(file.path, *texts) if texts else None
        if texts is None or error is None:
            continue
        language, detail = error
        lines = texts[1].split(b"\n")
        number = min(int(match[1]), len(lines)) if (match := _LINE.search(detail)) else 0
        title = f"{file.path} no longer parses as {language}: {detail}"
        location = Location(file.path, number, number)
        quote = _text(lines[number - 1]) if number else ""
        body = "The version before this change parsed."
        findings.append(context.finding("parse-error", title, location, body, key="parse", quote=quote))
    return findings


def _may_break_c(change: Change, file: ChangedFile) -> bool:
    from repoagent.syntax.c_errors import may_add_faults

    return any(
        may_add_faults(b"".join(hunk.removed), b"".join(hunk.added)) for hunk in change.read_lines(file)
    )


@cache
def no_longer_parses(path: str, old: bytes, new: bytes) -> tuple[str, str] | None:
    """The language, and a description of the error with its line; None if the new text parses, or the old one did not
    parse either."""
    from repoagent.syntax.languages import language_of

    language = language_of(path, new)
    if language is None or not old or (language == "python" and _is_python(new)):
        return None
    if language in ("c", "cpp"):
        # Macros make the grammar useless, so compare the tokens of the definitions around the change, with their line
        # numbers. A macro may end with its own `;`.
        from repoagent.syntax.c_errors import new_c_faults

        faults = [
            fault
            for fault in new_c_faults(*_changed_region(old, new))
            if not fault.message.startswith("a `;`")
        ]
        return (language, faults[0].message) if faults else None
    from repoagent.syntax.parser import error_count
    from repoagent.syntax.regressions import parses_worse

    sentence = parses_worse(path, old, new)
    if sentence is None or error_count(path, old):
        return None
    reason = sentence.partition(" would no longer parse as ")[2]
    language, _, detail = reason.rstrip(".").partition(": ")
    return language, detail


def _is_python(text: bytes) -> bool:
    import ast
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def _changed_region(old: bytes, new: bytes) -> tuple[bytes, bytes]:
    """Both texts from the last `}` at the start of a line before the change to the first one after it. Empties the
    lines before, to keep the line numbers."""
    before, after = old.split(b"\n"), new.split(b"\n")
    shorter = min(len(before), len(after))
    head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    tail = next((n for n in range(shorter - head) if before[-1 - n] != after[-1 - n]), shorter - head)
    while head and not before[head - 1].startswith(b"}"):
        head -= 1
    while tail and not before[len(before) - tail - 1].startswith(b"}"):
        tail -= 1

    def part(lines: list[bytes]) -> bytes:
        return b"\n".join([*[b""] * head, *lines[head : len(lines) - tail]])

    return part(before), part(after)
