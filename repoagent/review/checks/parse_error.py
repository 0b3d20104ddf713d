"""parse-error: a file that parsed before the change no longer does."""

from __future__ import annotations

import re
from functools import cache

from repoagent.review.change import Change, ChangedFile
from repoagent.review.checks.context import StaticContext
from repoagent.review.finding import Finding, Location

_C = (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx")
_LINE = re.compile(r"\bline (\d+)")


def find_parse_errors(context: StaticContext) -> list[Finding]:
    """One finding for each file that parsed before the change and does not after it."""
    found = []
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
        broken = no_longer_parses(file.path, *texts) if texts else None
        if texts is None or broken is None:
            continue
        language, detail = broken
        lines = texts[1].split(b"\n")
        number = min(int(match[1]), len(lines)) if (match := _LINE.search(detail)) else 0
        found.append(
            Finding(
                "parse-error", context.levels["parse-error"], f"{file.path} no longer parses as {language}: {detail}",
                Location(file.path, number, number), "The version before this change parsed.", key="parse",
                quote=lines[number - 1].decode("utf-8", "replace") if number else "",
            )
        )  # fmt: skip
    return found


def _may_break_c(change: Change, file: ChangedFile) -> bool:
    from repoagent.syntax.c_errors import may_add_faults

    return any(may_add_faults(b"".join(one.removed), b"".join(one.added)) for one in change.read_lines(file))


@cache
def no_longer_parses(path: str, old: bytes, new: bytes) -> tuple[str, str] | None:
    """The language, and what is wrong on which line, if the text before had no such error; None otherwise."""
    from repoagent.syntax.languages import language_of

    language = language_of(path, new)
    if language is None or not old or (language == "python" and _is_python(new)):
        return None
    if language in ("c", "cpp"):
        # Macros make the grammar useless, so both texts are read as tokens: the definitions around the change alone,
        # each line at its number. A macro may end with its own `;`.
        from repoagent.syntax.c_errors import new_c_faults

        faults = [
            one for one in new_c_faults(*_around_change(old, new)) if not one.message.startswith("a `;`")
        ]
        return (language, faults[0].message) if faults else None
    from repoagent.syntax.parser import error_count
    from repoagent.syntax.regressions import parses_worse

    said = parses_worse(path, old, new)
    if said is None or error_count(path, old):
        return None
    reason = said.partition(" would no longer parse as ")[2]
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


def _around_change(old: bytes, new: bytes) -> tuple[bytes, bytes]:
    """Both texts from the last `}` at the start of a line before the change to the first one after it; the lines before
    are empty, so that their numbers hold."""
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
