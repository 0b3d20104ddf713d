"""Parse hunks as models write them. Counts and numbers are recorded but never trusted to find the end of a hunk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from repoagent.patch.errors import PatchError
from repoagent.patch.files import NO_FILE, is_no_file, plain_name
from repoagent.patch.model import ADD, CONTEXT, DELETE, Hunk, Line, settle
from repoagent.patch.parse.cleanup import without_inner_numbers, without_numbers
from repoagent.patch.parse.markers import (
    COMBINED,
    COMMAND,
    DIRECTIVE,
    NUMBERS,
    is_file_header,
    is_half_header,
    is_index,
    is_lone_header,
    is_mail,
    is_signature,
)

_MOST_HEADINGS = 16
_OLD_NUMBER = re.compile(r"@@+[ \t]*-(\d{1,9})(?:,\d{1,9})?[ \t]*@@+(.*)$")
_LINE_NUMBER = re.compile(
    r"@@+[ \t]*(?:lines?[ \t]+)?(\d{1,9})(?:[ \t]*[-,][ \t]*\d{1,9})?[ \t]*@@+(.*)$", re.I
)
_DOTS = re.compile(r"[ \t]*[\[(]?(?:\.{3,}|…)[\])]?[ \t]*\r?$")
_NAMES = re.compile(r"(?:[ab]/|[^ ]*/)?[^ /]+\.\w{1,12}$")


def sent_with_crlf(lines: Sequence[str]) -> bool:
    """Whether the whole answer was sent with CRLF, as its first header shows."""
    headers = (line for line in lines if line.startswith(("@@", "--- ", "+++ ", "diff --git ", "*** ")))
    return next(headers, "").endswith("\r")


def read_hunk(lines: Sequence[str], at: int, number: int, *, envelope: bool = False) -> tuple[Hunk, int]:
    """The hunk at line `at`, and the line after it. A hunk may lack its `@@` line, or have several headings.

    In an `envelope` numbers are not part of the format, and its directives end a hunk. Raises PatchError for a combined
    diff.
    """
    hunk = Hunk((), number, tolerances=frozenset() if envelope else frozenset({"numbers"}))
    headings: list[str] = []
    first = at = _last_of_empty(lines, at)
    while at < len(lines) and lines[at].startswith("@@"):
        if COMBINED.match(lines[at]):
            raise combined()
        if headings and NUMBERS.match(lines[at]):
            break
        hunk, at = _header(lines[at], hunk), at + 1
        headings.append(hunk.section)
    hunk = replace(hunk, headings=tuple(heading for heading in headings if heading))
    raw, after, marks = _body(lines, at, hunk, envelope)
    if not raw:
        return hunk, max(after, first + 1)
    return _read(hunk, raw, marks), max(after, first + 1)


def _last_of_empty(lines: Sequence[str], at: int) -> int:
    """The last of the `@@` lines at `at` that can have lines below it: of numbered ones the last, of headings a few."""
    end = at
    while end < len(lines) and lines[end].startswith("@@"):
        end += 1
    at = max(at, end - _MOST_HEADINGS)
    return max([at, *(row for row in range(at, end) if NUMBERS.match(lines[row]))])


def combined() -> PatchError:
    return PatchError(
        "combined",
        "combined diffs (of a merge) are not supported. Send a plain diff against the current file.",
    )


def _header(line: str, hunk: Hunk) -> Hunk:
    found = NUMBERS.match(line)
    if found is not None:
        start, old, _new_start, new, section = found.groups()
        counts = (int(old or 1), int(new or 1))
        names = hunk.tolerances - {"numbers"}
        return replace(
            hunk, start=int(start), counts=counts, section=section.strip(" .\t\r"), tolerances=names
        )
    partly = _OLD_NUMBER.match(line) or _LINE_NUMBER.match(line)
    if partly is not None:
        return replace(hunk, start=int(partly[1]), section=partly[2].strip(" .\t\r"))
    return replace(hunk, section=line.strip("@ .…\r\t"))


def _body(lines: Sequence[str], at: int, hunk: Hunk, envelope: bool) -> tuple[list[str], int, dict[int, str]]:
    """The hunk's lines, the line after them, and after which of them a missing newline is marked."""
    raw: list[str] = []
    marks: dict[int, str] = {}
    left = list(hunk.counts or ())
    while at < len(lines):
        line = lines[at]
        if line.startswith("@@") or _ends(lines, at, left):
            break
        if envelope and DIRECTIVE.match(line):
            break
        if line.startswith("\\"):
            marks[len(raw) - 1] = line
        else:
            raw.append(line)
            if left:
                left = [left[0] - (line[:1] != ADD), left[1] - (line[:1] != DELETE)]
        at += 1
    return raw, at, marks


def _starts_file(lines: Sequence[str], at: int) -> bool:
    return COMMAND.match(lines[at]) is not None or is_index(lines, at)


def _ends(lines: Sequence[str], at: int, left: Sequence[int]) -> bool:
    """Does another file, another mail or nothing begin at line `at`?"""
    line = lines[at]
    if line[:1] in {" ", "+", "-"} and line[:2] not in {"++", "--"}:
        return False
    if line.startswith(("--- ", "+++ ", "*** ")):
        return _is_header(lines, at, left)
    if line.startswith("--"):
        return is_signature(lines, at)
    return _starts_file(lines, at) or is_mail(line)


def _is_header(lines: Sequence[str], at: int, left: Sequence[int]) -> bool:
    """Is `--- x` / `+++ y` inside a hunk the next file's header? It can also delete `-- x` and add `++ y`."""
    done = bool(left) and max(left) <= 0
    if not is_file_header(lines, at):
        lone, half = is_lone_header(lines, at), is_half_header(lines[at])
        if left:
            promised = list(left) == ([1, 0] if lines[at][0] == DELETE else [0, 1])  # as the hunk's last line
            return lone and (done or (half and not promised))
        return half or (lone and _NAMES.match(_name(lines[at])) is not None)
    old, new = _name(lines[at]), _name(lines[at + 1])
    followed = _followed(lines, at + 2) or (at + 2 >= len(lines) and _NAMES.match(old) is not None)
    alike = is_no_file(old) or is_no_file(new) or old.split("/")[-1] == new.split("/")[-1]
    if left:
        return (followed and alike) or min(left) < 1
    return alike or (followed and bool(_NAMES.match(old) and _NAMES.match(new)))


def _followed(lines: Sequence[str], at: int) -> bool:
    """Does an `@@` line stand here, or after a blank line?"""
    at += at < len(lines) and not lines[at].strip()
    return at < len(lines) and lines[at].startswith("@@")


def _name(line: str) -> str:
    return plain_name(line[4:]) if len(line) < 4000 else NO_FILE


def _read(hunk: Hunk, raw: list[str], marks: dict[int, str]) -> Hunk:
    if raw and not any(line.startswith((ADD, DELETE)) for line in raw):
        bare = without_numbers(raw, hunk.counts, hunk.start)
        if bare is not None:
            raw, hunk = bare, replace(hunk, tolerances=hunk.tolerances | {"numbered"})
    if hunk.counts == (0, 0):
        hunk = replace(hunk, counts=None, tolerances=hunk.tolerances | {"counts"})
    result = _with_lines(hunk, raw, marks)
    inner = without_inner_numbers(raw) if result.changes else []
    numbered = replace(hunk, tolerances=hunk.tolerances | {"numbered"})
    return replace(result, otherwise=tuple(_with_lines(numbered, other, marks) for other in inner))


def _with_lines(hunk: Hunk, raw: Sequence[str], marks: dict[int, str]) -> Hunk:
    body = [_line(line, first=(hunk.start or 1) <= 1) for line in raw]
    old_marker = new_marker = False
    for row in marks:
        kind = body[row].kind if 0 <= row < len(body) else CONTEXT
        old_marker, new_marker = old_marker or kind != ADD, new_marker or kind != DELETE
    body = _without_rest(body, hunk.counts)
    names = set(hunk.tolerances)
    lines = settle(body)
    if lines != tuple(body) and not old_marker and not new_marker:
        names.add("marked-context")
    if any(line.bare and not line.text.strip() for line in body):
        names.add("blank-context")
    if any(line.bare and line.text.strip() for line in body):
        names.add("bare-context")
    result = replace(hunk, lines=lines, old_marker=old_marker, new_marker=new_marker)
    if result.counts is not None and not result.exact_counts:
        names.add("counts")
    return replace(result, tolerances=frozenset(names))


def _line(line: str, *, first: bool) -> Line:
    """A line of a hunk; `first`: it can be that of its file, whose byte-order mark is no part of the text."""
    carriage = line.endswith("\r")
    text = line[:-1] if carriage else line
    if text[:1] == ADD and not first:
        return Line(ADD, text[1:], cr=carriage)
    if text[:1] in {CONTEXT, DELETE, ADD}:
        return Line(text[0], text[1:].removeprefix("\ufeff"), cr=carriage)
    return Line(CONTEXT, text.removeprefix("\ufeff"), bare=True, cr=carriage)


def _without_rest(body: list[Line], counts: tuple[int, int] | None) -> list[Line]:
    """Cut what stands between this hunk and what follows it, as far as the header does not count it: blank
    lines, prose, and dots for what is left out."""
    old = sum(line.kind != ADD for line in body)
    while body and body[-1].bare:
        text = body[-1].text
        if counts is not None and old <= counts[0]:
            break
        if not text:
            if counts is None and len(body) > 1 and not body[-2].bare:
                break
        elif counts is None and not _DOTS.match(text):
            break
        body.pop()
        old -= 1
    return body
