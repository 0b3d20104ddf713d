"""Parse a `<finding>` tag of a model into a claim, and verify the claim against the change.

Parsing is strict and never guesses. A claim becomes a finding only if the code that it quotes is on a changed line;
the quote decides, not the line number.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from repoagent.dataclass import dataclass
from repoagent.llm.model import printable
from repoagent.review.finding import Finding, Level, Location, Suggestion
from repoagent.review.llm.chunks import FileView
from repoagent.storage.secrets import mask, placeholders

TITLE, WHY, CODE_LINES = 200, 4_000, 60  # characters of a title and of an explanation; lines of code

_KEY = re.compile(r"[ \t]{0,3}(title|quote|why|replace)[ \t]*:[ \t]*(.*)", re.IGNORECASE)
_BAR = re.compile(r"[ \t]{0,8}\|(?: (.*)|)")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[^`]*")
_LINES = re.compile(
    r"[ \t]*(?:L|lines?[ \t]*)?(\d{1,7})(?:[ \t]*(?:-|to|\.\.)[ \t]*L?(\d{1,7}))?[ \t]*", re.IGNORECASE
)
_YES = frozenset({"yes", "true", "1", "old"})
_NO = frozenset({"", "no", "false", "0", "new"})
_CODE = frozenset({"quote", "replace"})


@dataclass(frozen=True)
class Claim:
    """An unverified finding of a model. Lines count from 1, in the file before if `old`; 0 if none is given. `replace`
    is None if it suggests nothing."""

    rule: str
    path: str
    first: int
    last: int
    title: str
    quote: tuple[str, ...]
    why: str
    old: bool = False
    level: Level | None = None
    replace: tuple[str, ...] | None = None


def parse_finding(args: Mapping[str, str], body: str, rules: Collection[str]) -> Claim | str:
    """The claim in a tag with these arguments and this body, or else why it is invalid, as a clause."""
    rule, path = args.get("rule", "").strip(), args.get("path", "").strip()
    if rule not in rules:
        return f"its rule is not one of {', '.join(rules)}"
    if not path:
        return "it has no path"
    lines = _lines(args.get("lines", args.get("line", "")))
    if lines is None:
        return 'its lines are not line numbers such as lines="41-42"'
    level = _level(args.get("level", ""))
    old = args.get("old", "").strip().lower()
    if level is None or old not in _YES | _NO:
        return "its level or its old has an unknown value"
    parts = _sections(body)
    if isinstance(parts, str):
        return parts
    title, why = (" ".join(" ".join(parts.get(key, [])).split()) for key in ("title", "why"))
    title = title or why.partition(". ")[0]
    quote = parts.get("quote", [])
    if not title or not why:
        return "it does not say what goes wrong"
    if not any(line.strip() for line in quote):
        return "it quotes no code"
    if max(len(quote), len(parts.get("replace", []))) > CODE_LINES:
        return f"it quotes or replaces more than {CODE_LINES} lines"
    return Claim(
        rule,
        path,
        *lines,
        title=_cut(title, TITLE),
        quote=_trimmed(quote),
        why=_cut(_paragraphs(parts["why"]), WHY),
        old=old in _YES,
        level=level if isinstance(level, Level) else None,
        replace=tuple(parts["replace"]) if "replace" in parts else None,
    )


def _sections(body: str) -> dict[str, list[str]] | str:
    """The lines of each section that the body has, or else why it is invalid."""
    sections: dict[str, list[str]] = {}
    key, fence = "", ""
    for line in body.replace("\r\n", "\n").split("\n"):
        mark = _FENCE.fullmatch(line)
        heading = None if fence else _KEY.fullmatch(line)
        if mark and key in _CODE and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
            sections[key].append(line)
        elif heading:
            key = heading[1].lower()
            if key in sections:
                return f"it has two sections {key}"
            sections[key] = [heading[2]] if heading[2].strip() else []
        elif key:
            sections[key].append(line)
        elif line.strip():
            return "it does not begin with title, quote, why or replace"
    for name in _CODE & sections.keys():
        code = _code(sections[name])
        if code is None:
            return f"some lines of its {name} begin with a bar and some do not"
        sections[name] = code
    return sections


def _code(lines: list[str]) -> list[str] | None:
    """The code of a section: after the bars, or inside the fence, or else all of it."""
    lines = list(_trimmed(lines))
    if lines and _FENCE.fullmatch(lines[0]):
        end = len(lines) - (len(lines) > 1 and _FENCE.fullmatch(lines[-1]) is not None)
        return lines[1:end]
    bars = [_BAR.fullmatch(line) for line in lines]
    if not any(bars):
        return lines
    barred = [bar for bar, line in zip(bars, lines, strict=True) if bar or line.strip()]
    return None if None in barred else [bar[1] or "" for bar in barred if bar]


def _lines(text: str) -> tuple[int, int] | None:
    if not text.strip():
        return 0, 0
    match = _LINES.fullmatch(text)
    if match is None:
        return None
    first, last = int(match[1]), int(match[2] or match[1])
    return (first, last) if first <= last else None


def _level(text: str) -> Level | str | None:
    """The level, "" if none is given, None for an unknown one."""
    word = text.strip().upper()
    return "" if not word else Level[word] if word in Level.__members__ else None


def _trimmed(lines: list[str]) -> tuple[str, ...]:
    """Without blank lines at the beginning and the end."""
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return tuple(lines[filled[0] : filled[-1] + 1]) if filled else ()


def _paragraphs(lines: list[str]) -> str:
    return "\n".join(line.rstrip() for line in _trimmed(lines))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


FRAGMENT = 8  # least characters of a quote that is only part of a line
TELLING = 2  # least letters and digits of a quote; a shorter one needs the right line number too

_LINE_PREFIX = re.compile(r"[ \t]*(?:\d+[ \t]*)?[-+]?[ \t]*\|(?: |$)")  # of a line in a prompt

OTHER_FILE = "its path is not in the change"
UNTELLING = "its quote is too short to be unique"
NOT_THERE = "its quote is not in the file"
NOT_CHANGED = "its quote is not on a changed line"
UNSURE = "its quote occurs more than once in the change, and not at its lines"


@dataclass(frozen=True)
class _Match:
    """The quoted lines `first` to `last`; `whole` if they are quoted as whole lines."""

    first: int
    last: int
    whole: bool = True

    def overlaps(self, first: int, last: int) -> bool:
        return self.first <= last and first <= self.last


def verify(
    claim: Claim, views: Mapping[str, FileView], default: Level, symbol_at: Mapping[int, str]
) -> Finding | str:
    """The verified finding, or why the claim is dropped. A model may only lower the level `default`; `symbol_at` maps
    lines of the new text to the definitions that contain them."""
    view = next((views[path] for path in _spellings(claim.path) if path in views), None)
    if view is None:
        return OTHER_FILE
    telling = sum(map(str.isalnum, "".join(claim.quote)))
    if not telling:
        return UNTELLING
    match = _find_quote(claim, view)
    if isinstance(match, str):
        return match
    if telling < TELLING and not match.overlaps(claim.first, claim.last):
        return UNTELLING
    changed = set(view.changed(old=claim.old))
    side = view.side(old=claim.old)
    inside = [number for number in range(match.first, match.last + 1) if number in changed]
    location = Location(view.path, inside[0], inside[-1], claim.old)
    quote = "".join(f"{side[number]}\n" for number in range(location.start, location.end + 1))
    scope = "" if claim.old else symbol_at.get(location.start, "")
    level = default if claim.level is None else min(claim.level, default)
    return Finding(
        claim.rule,
        level,
        _plain(claim.title),
        location,
        body=_plain(claim.why),
        key="\n".join(filter(None, [scope, *(" ".join(line.split()) for line in quote.split("\n"))])),
        quote=quote,
        suggestion=_suggestion(claim, match, view),
    )


def _spellings(path: str) -> tuple[str, ...]:
    """The path as given, and without a prefix as in a diff."""
    return path, path.removeprefix("./"), re.sub(r"\A[ab]/", "", path)


def _plain(text: str) -> str:
    return printable(mask(text)).replace("\t", " ")


def _find_quote(claim: Claim, view: FileView) -> _Match | str:
    """The match of the quote, or why there is not exactly one."""
    side = view.side(old=claim.old)
    quote = [_same(line) for line in claim.quote]
    matches = _matches(side, quote)
    if not matches and all(map(_LINE_PREFIX.match, claim.quote)):
        matches = _matches(
            side, [_same(_LINE_PREFIX.sub("", line, count=1)) for line in claim.quote], whole=True
        )
    if not matches:
        return NOT_THERE
    changed = set(view.changed(old=claim.old))
    in_change = [match for match in matches if any(n in changed for n in range(match.first, match.last + 1))]
    if not in_change:
        return NOT_CHANGED
    overlapping = [match for match in in_change if match.overlaps(claim.first, claim.last)]
    if len(overlapping) == 1:
        return overlapping[0]
    if overlapping:  # several at the claimed lines: take the one that begins there
        exact = [match for match in overlapping if match.first == claim.first]
        return exact[0] if exact else UNSURE
    if claim.first and any(match.overlaps(claim.first, claim.last) for match in matches):
        return NOT_CHANGED  # the claim means an unchanged occurrence
    return in_change[0] if len(in_change) == 1 else UNSURE


def _same(line: str) -> str:
    """A line for comparison, with each run of white space as one space."""
    return " ".join(line.split())


def _matches(side: Mapping[int, str], quote: Sequence[str], *, whole: bool = False) -> list[_Match]:
    """The consecutive lines that equal the quote; else, for a single line and unless `whole`, the lines that contain
    it."""
    while quote and not quote[0]:
        quote = quote[1:]
    while quote and not quote[-1]:
        quote = quote[:-1]
    if not quote:
        return []
    lines = {number: _same(line) for number, line in side.items()}
    matches = [
        _Match(number, number + len(quote) - 1)
        for number, line in lines.items()
        if line == quote[0] and all(lines.get(number + n) == text for n, text in enumerate(quote))
    ]
    if matches or whole or len(quote) > 1 or len(quote[0]) < FRAGMENT:
        return matches
    return [_Match(number, number, whole=False) for number, line in lines.items() if quote[0] in line]


def _suggestion(claim: Claim, match: _Match, view: FileView) -> Suggestion | None:
    """The replacement as whole lines of the file, or None if it may not fit."""
    if claim.replace is None or claim.old or not match.whole or view.data is None:
        return None
    numbers = range(match.first, match.last + 1)
    lines = list(claim.replace)
    if any(map(placeholders, [*lines, *(view.new[number] for number in numbers)])):
        return None  # the text contains a masked key
    shift = _shift(claim.quote, [view.new[number] for number in numbers])
    if shift is None:
        return None
    lines = [shift + line.rstrip("\r") if line.strip() else "" for line in lines]
    if lines == [view.new[number] for number in numbers]:
        return None
    suggestion = Suggestion(
        Location(view.path, match.first, match.last), "".join(line + view.ending for line in lines)
    )
    return None if _breaks(view, suggestion) else suggestion


def _shift(quote: Sequence[str], lines: Sequence[str]) -> str | None:
    """The indentation that all quoted lines lack; None if they differ in any other way."""
    quoted = [line for line in quote if line.strip()]
    real = [line for line in lines if line.strip()]
    shifts = set()
    for quoted_line, line in zip(quoted, real, strict=False):
        if not line.rstrip().endswith(quoted_line.rstrip()):
            return None
        shifts.add(line.rstrip()[: len(line.rstrip()) - len(quoted_line.rstrip())])
    if len(shifts) != 1:
        return None
    (shift,) = shifts
    return shift if not shift.strip() else None


def _breaks(view: FileView, suggestion: Suggestion) -> bool:
    """Whether the file would parse worse with the suggestion."""
    from repoagent.syntax.regressions import parses_worse

    after = apply_suggestion(view.data or b"", suggestion)
    return after is None or parses_worse(view.path, view.data, after) is not None


def apply_suggestion(data: bytes, suggestion: Suggestion) -> bytes | None:
    """The file with the suggestion applied; None if it lacks these lines, or its encoding cannot represent the text."""
    lines = data.split(b"\n")
    location = suggestion.location
    if not 1 <= location.start <= location.end <= len(lines):
        return None
    try:
        data.decode("utf-8")
        encoding = "utf-8"
    except UnicodeDecodeError:
        encoding = "latin-1"
    try:
        text = suggestion.text.encode(encoding)
    except UnicodeEncodeError:
        return None
    with_endings = [line + b"\n" for line in lines[:-1]] + [lines[-1]]
    tail = with_endings[location.end :]
    if text and tail == [b""] and not data.endswith(b"\n"):
        text = text.rstrip(b"\r\n")
    return b"".join([*with_endings[: location.start - 1], text, *tail])


def merge_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Remove duplicates: of findings of one rule on overlapping lines keep the more serious or more detailed one."""
    merged: list[Finding] = []
    for finding in findings:
        for number, other in enumerate(merged):
            if _is_duplicate(finding, other):
                better = max(
                    other,
                    finding,
                    key=lambda candidate: (
                        candidate.level,
                        candidate.suggestion is not None,
                        len(candidate.body),
                    ),
                )
                merged[number] = better
                break
        else:
            merged.append(finding)
    return _numbered(merged)


def _is_duplicate(finding: Finding, other: Finding) -> bool:
    location, other_location = finding.location, other.location
    same = (finding.rule, location.path, location.old) == (
        other.rule,
        other_location.path,
        other_location.old,
    )
    return same and location.start <= other_location.end and other_location.start <= location.end


def _numbered(findings: list[Finding]) -> list[Finding]:
    """Make ids unique: the same text may occur twice in one symbol."""
    counts: dict[str, int] = {}
    numbered = []
    for finding in findings:
        count = counts[finding.id] = counts.get(finding.id, 0) + 1
        numbered.append(finding._replace(key=f"{finding.key}\n{count}") if count > 1 else finding)
    return numbered
