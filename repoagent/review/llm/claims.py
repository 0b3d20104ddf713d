"""Parse a model's `<finding>` tag into a claim, and verify the claim against the change.

A claim becomes a finding only if the code that it quotes is on a changed line; its line number does not decide.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from repoagent.dataclass import dataclass
from repoagent.display_text import truncate
from repoagent.llm.model import printable
from repoagent.review.finding import Finding, Level, Location, Suggestion, apply_suggestion
from repoagent.review.llm.chunks import FileView
from repoagent.storage.secrets import mask, placeholders

TITLE, WHY, CODE_LINES = 200, 4_000, 60  # characters of a title and of an explanation; lines of code
TELLING = 2  # least letters and digits of a quote

OTHER_FILE = "its path is not in the change"
UNTELLING = "its quote is too short to be unique"
NOT_THERE = "its quote is not in the file"
NOT_CHANGED = "its quote is not on a changed line"
UNSURE = "its quote occurs more than once in the change, and its line numbers do not single one out"

_KEY = re.compile(r"[ \t]{0,3}(title|quote|why|replace)[ \t]*:[ \t]*(.*)", re.IGNORECASE)
_BAR = re.compile(r"[ \t]{0,8}\|(?: (.*)|)")
_LINES = re.compile(r"(?i)\s*(?:lines?)?\s*L?(\d{1,7})(?:\s*(?:-|to|\.\.)\s*L?(\d{1,7}))?\s*")
_OLD = {"": False, "no": False, "false": False, "yes": True, "true": True}
_CODE = frozenset({"quote", "replace"})


@dataclass(frozen=True)
class Claim:
    """An unverified finding from a model. `first` and `last` count from 1, in the old file if `old` is set; both are 0
    if the model gave no line numbers. `replace` is None if it suggests no replacement."""

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

    def meets(self, match: range) -> bool:
        """Whether the claimed lines overlap those of the match."""
        return self.first < match.stop and match.start <= self.last


def parse_finding(args: Mapping[str, str], body: str, rules: Collection[str]) -> Claim | str:
    """The claim in a tag with these arguments and this body, or the reason why it is invalid, as a clause."""
    rule, path = args.get("rule", "").strip(), args.get("path", "").strip()
    if rule not in rules:
        return f"its rule is not one of {', '.join(rules)}"
    if not path:
        return "it has no path"
    lines = args.get("lines", args.get("line", ""))
    match = _LINES.fullmatch(lines)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if (match is None and lines.strip()) or first > last:
        return 'its lines are not line numbers such as lines="41-42"'
    word, old = args.get("level", "").strip().upper(), _OLD.get(args.get("old", "").strip().lower())
    if (word and word not in Level.__members__) or old is None:
        return "its `level` or `old` has an unknown value"
    parts = _sections(body)
    if isinstance(parts, str):
        return parts
    quote, replace = parts.get("quote", []), parts.get("replace")
    title, why = (" ".join(" ".join(parts.get(key, [])).split()) for key in ("title", "why"))
    title = title or why.partition(". ")[0]
    if not why:
        return "it does not say what goes wrong"
    if not any(line.strip() for line in quote):
        return "it quotes no code"
    if max(len(quote), len(replace or [])) > CODE_LINES:
        return f"it quotes or replaces more than {CODE_LINES} lines"
    paragraphs = "\n".join(line.rstrip() for line in _trimmed(parts["why"]))
    return Claim(
        rule, path, first, last, truncate(title, TITLE), tuple(_trimmed(quote)), truncate(paragraphs, WHY), old,
        Level[word] if word else None, None if replace is None else tuple(replace),
    )  # fmt: skip


def _sections(body: str) -> dict[str, list[str]] | str:
    """The lines of each section of the body, or the reason why it is invalid. Code is what is after the bars, or all
    lines if there are none."""
    sections: dict[str, list[str]] = {}
    key = ""
    for line in body.replace("\r\n", "\n").split("\n"):
        if heading := _KEY.fullmatch(line):
            key = heading[1].lower()
            if key in sections:
                return f"it has two `{key}` sections"
            sections[key] = [heading[2]] if heading[2].strip() else []
        elif key:
            sections[key].append(line)
        elif line.strip():
            return "it does not begin with title, quote, why or replace"
    for name in _CODE & sections.keys():
        bars = [_BAR.fullmatch(line) for line in sections[name] if line.strip()]
        if any(bars) and None in bars:
            return f"some lines of its {name} begin with a bar and some do not"
        sections[name] = [bar[1] or "" for bar in bars if bar] or _trimmed(sections[name])
    return sections


def _trimmed(lines: list[str]) -> list[str]:
    """The lines without blank ones at the beginning and the end."""
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return lines[filled[0] : filled[-1] + 1] if filled else []


def verify_claim(claim: Claim, views: Mapping[str, FileView], default: Level) -> Finding | str:
    """The verified finding, or the reason to drop the claim. A model may only lower the level `default`."""
    view = views.get(claim.path)
    if view is None:
        return OTHER_FILE
    if sum(map(str.isalnum, "".join(claim.quote))) < TELLING:
        return UNTELLING
    side, changed = view.side(old=claim.old), view.changed(old=claim.old)
    lines = {number: _same(line) for number, line in side.items()}
    quoted = [_same(line) for line in claim.quote]
    matches = [
        range(number, number + len(quoted))
        for number, line in lines.items()
        if line == quoted[0] and all(lines.get(number + n) == text for n, text in enumerate(quoted))
    ]
    if not matches:
        return NOT_THERE
    in_change = [match for match in matches if any(number in match for number in changed)]
    likely = [match for match in in_change if claim.meets(match)]
    if not likely:
        if not in_change or (claim.first and any(map(claim.meets, matches))):
            return NOT_CHANGED  # or the claim means an unchanged occurrence
        likely = in_change
    elif len(likely) > 1:  # take the one that begins at the claimed lines
        likely = [match for match in likely if match.start == claim.first]
    if len(likely) != 1:
        return UNSURE
    match = likely[0]
    inside = [number for number in changed if number in match]
    location = Location(view.path, inside[0], inside[-1], claim.old)
    quote = "".join(f"{side[number]}\n" for number in range(location.start, location.end + 1))
    symbol = None if claim.old else view.enclosing(location.start, location.start)
    key = filter(None, [symbol.qualified_name if symbol else "", *map(_same, quote.split("\n"))])
    level = default if claim.level is None else min(claim.level, default)
    title, why = (printable(mask(text)).replace("\t", " ") for text in (claim.title, claim.why))
    suggestion = _suggestion(claim, match, view)
    return Finding(claim.rule, level, title, location, why, "\n".join(key), quote, suggestion=suggestion)


def _same(line: str) -> str:
    """A line for comparison, with each run of white space as one space."""
    return " ".join(line.split())


def _suggestion(claim: Claim, match: range, view: FileView) -> Suggestion | None:
    """The replacement as whole lines; None if it may not fit or the file would parse worse."""
    if claim.replace is None or claim.old or view.data is None:
        return None
    before = [view.new[number] for number in match]
    if any(map(placeholders, [*claim.replace, *before])):
        return None  # the text contains a masked key
    if [line.rstrip() for line in claim.quote] != [line.rstrip() for line in before]:
        return None  # the quote lacks the indentation, so the replacement may lack it too
    lines = [line.rstrip("\r") if line.strip() else "" for line in claim.replace]
    suggestion = Suggestion(
        Location(view.path, match[0], match[-1]), "".join(line + view.ending for line in lines)
    )
    after = None if lines == before else apply_suggestion(view.data, suggestion)
    if after is None:
        return None
    from repoagent.syntax.regressions import parses_worse

    return None if parses_worse(view.path, view.data, after) is not None else suggestion


def merge_findings(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without duplicates: of two findings with the same rule and overlapping lines, the more serious or
    more detailed one is kept."""
    merged: list[Finding] = []
    for finding in findings:
        location = finding.location
        for number, other in enumerate(merged):
            span = other.location
            is_same = (finding.rule, location.path, location.old) == (other.rule, span.path, span.old)
            if is_same and location.start <= span.end and span.start <= location.end:
                best = max(
                    other, finding, key=lambda each: (each.level, bool(each.suggestion), len(each.body))
                )
                merged[number] = best
                break
        else:
            merged.append(finding)
    return merged
