"""One `<finding>` tag of a model becomes a claim, or the reason why it is none. Read strictly, never guessed."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from repoagent.dataclass import dataclass
from repoagent.review.finding import Level

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
    """What a model says it has found; nothing of it is checked yet. Lines count from 1, those of the file before where
    `old`; 0 where none was given. `replace` is None where nothing is suggested."""

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
    """The claim in a tag with these arguments and this body; else why there is none, in a few words."""
    rule, path = args.get("rule", "").strip(), args.get("path", "").strip()
    if rule not in rules:
        return f"its rule is not one of {', '.join(rules)}"
    if not path:
        return "it names no file"
    lines = _lines(args.get("lines", args.get("line", "")))
    if lines is None:
        return 'its lines are no line numbers (lines="41-42")'
    level = _level(args.get("level", ""))
    old = args.get("old", "").strip().lower()
    if level is None or old not in _YES | _NO:
        return "its level or its old is no word that is known"
    parts = _sections(body)
    if isinstance(parts, str):
        return parts
    title, why = (" ".join(" ".join(parts[key]).split()) for key in ("title", "why"))
    title = title or why.partition(". ")[0]
    quote = parts["quote"]
    if not title or not why:
        return "it does not say what goes wrong"
    if not any(line.strip() for line in quote):
        return "it quotes no code"
    if max(len(quote), len(parts["replace"])) > CODE_LINES:
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
        replace=tuple(parts["replace"]) if "replace" in parts.given else None,
    )


class _Sections(dict[str, list[str]]):
    """The lines of each section; `given` are those that are there at all."""

    given: frozenset[str] = frozenset()


def _sections(body: str) -> _Sections | str:
    raw: dict[str, list[str]] = {}
    key, fence = "", ""
    for line in body.replace("\r\n", "\n").split("\n"):
        mark = _FENCE.fullmatch(line)
        found = None if fence else _KEY.fullmatch(line)
        if mark and key in _CODE and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
            raw[key].append(line)
        elif found:
            key = found[1].lower()
            if key in raw:
                return f"it has {key} twice"
            raw[key] = [found[2]] if found[2].strip() else []
        elif key:
            raw[key].append(line)
        elif line.strip():
            return "it begins with neither title, quote, why nor replace"
    sections = _Sections({name: raw.get(name, []) for name in ("title", "quote", "why", "replace")})
    sections.given = frozenset(raw)
    for name in _CODE:
        code = _code(sections[name])
        if code is None:
            return f"some lines of its {name} begin with a bar and some do not"
        sections[name] = code
    return sections


def _code(lines: list[str]) -> list[str] | None:
    """The code of a section: what stands behind the bars, or in the fence, or else as it is."""
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
    found = _LINES.fullmatch(text)
    if found is None:
        return None
    first, last = int(found[1]), int(found[2] or found[1])
    return (first, last) if first <= last else None


def _level(text: str) -> Level | str | None:
    """The level, "" for none given, None for a word that is no level."""
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
