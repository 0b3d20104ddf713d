"""A claim counts when the code that it quotes stands on a line of the change. The quote decides, not the number."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from repoagent.dataclass import dataclass
from repoagent.llm.quoting import printable
from repoagent.review.finding import Finding, Level, Place, Suggestion
from repoagent.review.model.parse import Claim
from repoagent.review.model.view import View
from repoagent.store.masking import mask, placeholders

FRAGMENT = 8  # characters of a piece of a line, at least, that are quoted instead of the line
TELLING = 2  # letters and digits, at least, of a quote, or its line must be right too

_SHOWN = re.compile(r"[ \t]*(?:\d+[ \t]*)?[-+]?[ \t]*\|(?: |$)")  # how a prompt shows a line

OTHER_FILE = "it names a file that is not in the change"
UNTELLING = "it quotes too little to be sure what is meant"
NOT_THERE = "what it quotes is not in the file"
NOT_CHANGED = "what it quotes stands on no line of the change"
UNSURE = "what it quotes stands in several places of the change, and its line is none of them"


@dataclass(frozen=True)
class _Match:
    """Lines `first` to `last` are quoted; `whole`: as whole lines."""

    first: int
    last: int
    whole: bool = True

    def overlaps(self, first: int, last: int) -> bool:
        return self.first <= last and first <= self.last


def verified(
    claim: Claim, views: Mapping[str, View], default: Level, symbol_at: Mapping[int, str]
) -> Finding | str:
    """The finding that the claim is, or why it is dropped. `default` is the level that a model may only lower;
    `symbol_at` names what a line of the new text is part of."""
    view = next((views[path] for path in _spellings(claim.path) if path in views), None)
    if view is None:
        return OTHER_FILE
    telling = sum(map(str.isalnum, "".join(claim.quote)))
    if not telling:
        return UNTELLING
    match = _place(claim, view)
    if isinstance(match, str):
        return match
    if telling < TELLING and not match.overlaps(claim.first, claim.last):
        return UNTELLING
    changed = set(view.changed(old=claim.old))
    side = view.side(old=claim.old)
    inside = [number for number in range(match.first, match.last + 1) if number in changed]
    place = Place(view.path, inside[0], inside[-1], claim.old)
    quote = "".join(f"{side[number]}\n" for number in range(place.start, place.end + 1))
    scope = "" if claim.old else symbol_at.get(place.start, "")
    level = default if claim.level is None else min(claim.level, default)
    return Finding(
        claim.rule,
        level,
        _plain(claim.title),
        place,
        body=_plain(claim.why),
        key="\n".join(filter(None, [scope, *(" ".join(line.split()) for line in quote.split("\n"))])),
        quote=quote,
        suggestion=_suggestion(claim, match, view),
    )


def _spellings(path: str) -> tuple[str, ...]:
    """A path as it is, or as it stands in a diff."""
    return path, path.removeprefix("./"), re.sub(r"\A[ab]/", "", path)


def _plain(text: str) -> str:
    return printable(mask(text)).replace("\t", " ")


def _place(claim: Claim, view: View) -> _Match | str:
    """Where the quote stands, or why that can't be said."""
    side = view.side(old=claim.old)
    quote = [_same(line) for line in claim.quote]
    found = _matches(side, quote)
    if not found and all(map(_SHOWN.match, claim.quote)):
        found = _matches(side, [_same(_SHOWN.sub("", line, count=1)) for line in claim.quote], whole=True)
    if not found:
        return NOT_THERE
    changed = set(view.changed(old=claim.old))
    good = [match for match in found if any(n in changed for n in range(match.first, match.last + 1))]
    if not good:
        return NOT_CHANGED
    meant = [match for match in good if match.overlaps(claim.first, claim.last)]
    if len(meant) == 1:
        return meant[0]
    if meant:  # several in the lines it names: the one that begins there
        exact = [match for match in meant if match.first == claim.first]
        return exact[0] if exact else UNSURE
    if claim.first and any(match.overlaps(claim.first, claim.last) for match in found):
        return NOT_CHANGED  # it means the same text elsewhere, which the change has not made
    return good[0] if len(good) == 1 else UNSURE


def _same(line: str) -> str:
    """A line as it is compared: white space does not count but for the fact that there is some."""
    return " ".join(line.split())


def _matches(side: Mapping[int, str], quote: Sequence[str], *, whole: bool = False) -> list[_Match]:
    """Where the lines stand one after the other; else, for a single one and not for `whole` ones, where it is a piece
    of a line."""
    while quote and not quote[0]:
        quote = quote[1:]
    while quote and not quote[-1]:
        quote = quote[:-1]
    if not quote:
        return []
    lines = {number: _same(line) for number, line in side.items()}
    found = [
        _Match(number, number + len(quote) - 1)
        for number, line in lines.items()
        if line == quote[0] and all(lines.get(number + n) == text for n, text in enumerate(quote))
    ]
    if found or whole or len(quote) > 1 or len(quote[0]) < FRAGMENT:
        return found
    return [_Match(number, number, whole=False) for number, line in lines.items() if quote[0] in line]


def _suggestion(claim: Claim, match: _Match, view: View) -> Suggestion | None:
    """The replacement as whole lines of the file, or None where it is not sure that it fits."""
    if claim.replace is None or claim.old or not match.whole or view.data is None:
        return None
    numbers = range(match.first, match.last + 1)
    lines = list(claim.replace)
    if any(map(placeholders, [*lines, *(view.new[number] for number in numbers)])):
        return None  # a key would have to be written out
    shift = _shift(claim.quote, [view.new[number] for number in numbers])
    if shift is None:
        return None
    lines = [shift + line.rstrip("\r") if line.strip() else "" for line in lines]
    if lines == [view.new[number] for number in numbers]:
        return None
    suggestion = Suggestion(
        Place(view.path, match.first, match.last), "".join(line + view.ending for line in lines)
    )
    return None if _breaks(view, suggestion) else suggestion


def _shift(quote: Sequence[str], lines: Sequence[str]) -> str | None:
    """What white space is missing at the beginning of all quoted lines; None where they differ in other ways."""
    quoted = [line for line in quote if line.strip()]
    real = [line for line in lines if line.strip()]
    shifts = set()
    for said, line in zip(quoted, real, strict=False):
        if not line.rstrip().endswith(said.rstrip()):
            return None
        shifts.add(line.rstrip()[: len(line.rstrip()) - len(said.rstrip())])
    if len(shifts) != 1:
        return None
    (shift,) = shifts
    return shift if not shift.strip() else None


def _breaks(view: View, suggestion: Suggestion) -> bool:
    """Whether the file would parse worse with it."""
    from repoagent.split import parses_worse

    after = applied(view.data or b"", suggestion)
    return after is None or parses_worse(view.path, view.data, after) is not None


def applied(data: bytes, suggestion: Suggestion) -> bytes | None:
    """The bytes of the file with the suggestion taken; None where they have no such lines, or can't hold it."""
    lines = data.split(b"\n")
    place = suggestion.place
    if not 1 <= place.start <= place.end <= len(lines):
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
    whole = [line + b"\n" for line in lines[:-1]] + [lines[-1]]
    tail = whole[place.end :]
    if text and tail == [b""] and not data.endswith(b"\n"):
        text = text.rstrip(b"\r\n")
    return b"".join([*whole[: place.start - 1], text, *tail])


def merged(findings: Sequence[Finding]) -> list[Finding]:
    """Without doubles: of those of the same rule on the same lines the more serious one, or the one that says more."""
    kept: list[Finding] = []
    for finding in findings:
        for number, other in enumerate(kept):
            if _is_double(finding, other):
                better = max(
                    other, finding, key=lambda one: (one.level, one.suggestion is not None, len(one.body))
                )
                kept[number] = better
                break
        else:
            kept.append(finding)
    return _numbered(kept)


def _is_double(one: Finding, other: Finding) -> bool:
    here, there = one.place, other.place
    same = (one.rule, here.path, here.old) == (other.rule, there.path, there.old)
    return same and here.start <= there.end and there.start <= here.end


def _numbered(findings: list[Finding]) -> list[Finding]:
    """The same text may stand twice in one symbol: each finding has an id of its own."""
    seen: dict[str, int] = {}
    found = []
    for finding in findings:
        count = seen[finding.id] = seen.get(finding.id, 0) + 1
        found.append(finding._replace(key=f"{finding.key}\n{count}") if count > 1 else finding)
    return found
