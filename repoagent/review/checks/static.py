"""conflict-marker, secret, debug-leftover and parse-error: faults that are visible in the changed text itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from repoagent.display_text import list_some
from repoagent.review.change import ChangedFile
from repoagent.review.checks import file_kinds
from repoagent.review.checks.run import CheckContext
from repoagent.review.finding import Finding, Location
from repoagent.syntax.languages import language_of

OTHER_LINES = 5  # that a finding names
LONGEST = 500  # characters of a line that may be a debugging call; a longer one is generated


def _added(context: CheckContext, file: ChangedFile) -> list[tuple[int, bytes]]:
    """The added lines with their numbers."""
    hunks = context.change.texts.lines(file)
    return [entry for hunk in hunks for entry in enumerate(hunk.added, hunk.new)]


def _line_finding(
    context: CheckContext, rule: str, path: str, numbers: list[int], title: str, *, body: str, quote: str, key: str = ""
) -> Finding:  # fmt: skip
    """A finding at the first of these lines; the body names the others."""
    if len(numbers) > 1:
        others = list_some([str(number) for number in numbers[1:]], OTHER_LINES)
        body += f" Also on line{'s' * (len(numbers) > 2)} {others}."
    return context.finding(rule, title, Location(path, numbers[0], numbers[0]), body, key, quote=quote)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")


_MARKER = re.compile(rb"(?:<{7}|>{7}|\|{7})(?: |\r?\n|\Z)|={7}\r?\n?\Z")
_OPEN, _MIDDLE, _CLOSE = b"<<<<<<<", b"=======", b">>>>>>>"
_FENCE = re.compile(rb"[ ]{0,3}(?:```|~~~)")


def find_conflict_markers(context: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each file that contains one of git's conflict markers."""
    for file in context.files:
        markers = [(number, line) for number, line in _added(context, file) if _MARKER.match(line)]
        ends = [(number, line) for number, line in markers if line[:7] in (_OPEN, _CLOSE)]
        if not ends or not (texts := context.texts(file)) or not _is_conflict(file.path, *texts):
            continue
        first, line = ends[0]
        numbers = [number for number, _ in markers if number >= first]
        title = f"{file.path} has the conflict marker {line[:7].decode()}"
        body = "The change contains the markers that git writes into a file with conflicts."
        quote = _text(line).rstrip()
        yield _line_finding(
            context, "conflict-marker", file.path, numbers, title, body=body, quote=quote, key="marker"
        )


def _is_conflict(path: str, old: bytes, new: bytes) -> bool:
    """Whether the markers are no example in a text, a test or a here-document: the file no longer parses, or has all
    three in order outside of tests and code blocks."""
    if any(line[:7] in (_OPEN, _CLOSE) and _MARKER.match(line) for line in old.split(b"\n")):
        return False
    language = language_of(path, new)
    if language in ("c", "cpp") or no_longer_parses(path, old, new) is not None:
        return True
    if file_kinds.is_test(path):
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


def find_secrets(context: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each file to which a key, a token or a password is added. The value is never shown."""
    for file in context.files:
        path = file.path
        if file_kinds.is_lock(path) or file_kinds.is_vendored_path(path) or file_kinds.is_test(path):
            continue
        added = [(number, _text(line)) for number, line in _added(context, file)]
        text = "".join(line for _, line in added)
        if not text.strip():
            continue
        from repoagent.storage.secrets import MASK, secrets_in

        values = sorted(set(secrets_in(text)), key=len, reverse=True)
        if not values or (texts := context.texts(file)) is None:
            continue
        before = _text(texts[0])
        values = [value for value in values if value not in before and not _EXAMPLE.search(value)]
        lines = [(number, line) for number, line in added if any(value in line for value in values)]
        if not lines:
            continue
        context.secrets.extend(values)
        quote = lines[0][1].rstrip()
        value = next(value for value in values if value in lines[0][1])
        for secret in values:
            quote = quote.replace(secret, MASK)
        title = f"{path} adds what looks like a key, a token or a password"
        body = (
            f"The value ({len(value)} characters) is not shown. Read it from the environment or from a file that "
            "git ignores; if it was pushed, revoke it."
        )
        numbers = [number for number, _ in lines]
        yield _line_finding(
            context, "secret", path, numbers, title, body=body, quote=quote, key=quote.strip()
        )


class _Debugging(NamedTuple):
    """Patterns, compiled on first use: `always` matches debugging only, `output` may be normal output of a program."""

    always: bytes
    output: bytes = b""


_SCRIPT = _Debugging(rb"^\s*debugger\s*;?\s*$", rb"\bconsole\.(?:log|debug|dir)\(")
_DEBUGGING = {
    "py": _Debugging(
        rb"^\s*(?:import \w*pdb\s*;\s*)?(?:breakpoint|\w*pdb\.set_trace)\(\)", rb"(?<![\w.])print\("
    ),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "vue"), _SCRIPT),
    "rb": _Debugging(rb"^\s*(?:binding\.(?:pry|irb)|byebug)\b"),
    "rs": _Debugging(rb"\bdbg!\(", rb"\be?println!\("),
    "go": _Debugging(rb"\bspew\.Dump\(", rb"\bfmt\.Print(?:ln|f)?\(|(?<![\w.])println\("),
    "php": _Debugging(rb"^\s*(?:var_dump|dd)\("),
}
# Output that looks like debugging: a single variable, all variables, an eye-catching mark.
_LOOKS = rb"(?:\s*(?:[\w.$]+\s*\)|[fbru]?[\"'`]\s*(?:(?i:here|debug|xxx)\b|[>*=#-]{3})|[^)]*(?:\{\w+=\}|\blocals\(\))))"
_NOTE = rb"\b(?:TODO:?\s+REMOVE\b|DO\s?NOT\s?COMMIT\b|NOCOMMIT\b|REMOVE BEFORE (?:COMMIT|MERGE)\b)"
_OUTPUT_PATH = (
    r"(?:^|/)(?:tests?|testing|examples?|docs?|scripts?|tools?|bin|bench\w*|demos?|utils|cmd|cli|tasks)(?:/|\.|$)"
    r"|(?:^|/)(?:test_|conftest|setup|build|main|cli|manage|__main__)[^/]*$|_test\.\w+$"
)


def find_debug_leftovers(context: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each file with a line left over from debugging."""
    for file in context.files:
        if file_kinds.is_vendored_path(file.path):
            continue
        patterns = _DEBUGGING.get(file.path.rpartition(".")[2].lower())
        lines = []
        for number, line in _added(context, file):
            if len(line) > LONGEST:
                continue
            certain = [_NOTE]
            if patterns and not file_kinds.is_comment(file.path, line):
                certain += [patterns.always, *([patterns.output + _LOOKS] if patterns.output else [])]
            if any(re.search(pattern, line) for pattern in certain):
                lines.append((number, line))
        if not lines or not (texts := context.texts(file)):
            continue
        old = texts[0]
        may_print = bool(
            file.status not in ("modified", "renamed")
            or re.search(_OUTPUT_PATH, file.path.lower())
            or (patterns and patterns.output and re.search(patterns.output, old))
            or old.startswith(b"#!")
            or b"__main__" in old
        )
        if patterns and patterns.output and may_print:
            certain = [patterns.always, _NOTE]
            lines = [entry for entry in lines if any(re.search(pattern, entry[1]) for pattern in certain)]
        lines = [(number, line) for number, line in lines if line.strip() not in old]
        if not lines:
            continue
        code = _text(lines[0][1]).rstrip()
        title = f"{file.path} adds a line that looks left over from debugging: {code.strip()[:60]}"
        numbers = [number for number, _ in lines]
        body = "The file had no such line before."
        yield _line_finding(context, "debug-leftover", file.path, numbers, title, body=body, quote=code)


_LINE = re.compile(r"\bline (\d+)")


def find_parse_errors(context: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each file that parsed before the change and no longer does."""
    conflicts = {finding.location.path for finding in context.findings}
    for file in context.files:
        if file.status not in ("modified", "renamed") or file.path in conflicts:
            continue
        if context.remaining() < 0:
            context.unseen.append("whether all files still parse (the review took too long)")
            break
        texts = context.texts(file)
        error = no_longer_parses(file.path, *texts) if texts else None
        if texts is None or error is None:
            continue
        language, detail = error
        lines = texts[1].split(b"\n")
        number = min(int(match[1]), len(lines)) if (match := _LINE.search(detail)) else 0
        title = f"{file.path} no longer parses as {language}: {detail}"
        quote = _text(lines[number - 1]) if number else ""
        body = "The version before this change parsed."
        yield _line_finding(
            context, "parse-error", file.path, [number], title, body=body, quote=quote, key="parse"
        )


@cache
def no_longer_parses(path: str, old: bytes, new: bytes) -> tuple[str, str] | None:
    """Return the language, and the error with its line.

    Return None if the new text parses, or if the old text did not parse either.
    """
    language = language_of(path, new)
    if language is None or not old or (language == "python" and file_kinds.parse_python(new)):
        return None
    if language in ("c", "cpp"):
        # Macros make a grammar useless, so compare the tokens from the last `}` at the start of a line before the
        # change to the first one after it, with empty lines before, to keep the line numbers. A macro may contain its
        # `;`, and a comment may begin before the definition.
        from repoagent.syntax.c_errors import new_c_faults

        sides = before, after = old.split(b"\n"), new.split(b"\n")
        shorter = min(len(before), len(after))
        head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
        tail = next((n for n in range(shorter - head) if before[-1 - n] != after[-1 - n]), shorter - head)
        while head and not before[head - 1].startswith(b"}"):
            head -= 1
        while tail and not before[len(before) - tail - 1].startswith(b"}"):
            tail -= 1
        regions = (b"\n".join([*[b""] * head, *lines[head : len(lines) - tail]]) for lines in sides)
        messages = [fault.message for fault in new_c_faults(*regions)]
        messages = [
            text for text in messages if not text.startswith("a `;`") and not text.endswith("not code")
        ]
        return (language, messages[0]) if messages else None
    from repoagent.syntax.parser import error_count
    from repoagent.syntax.regressions import parses_worse

    sentence = parses_worse(path, old, new)
    if sentence is None or error_count(path, old):
        return None
    reason = sentence.partition(" would no longer parse as ")[2]
    language, _, detail = reason.rstrip(".").partition(": ")
    return language, detail
