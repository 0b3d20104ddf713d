"""What a request can be looked up by: its words, the names it holds, what it quotes, the lines it names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

from repoagent.dataclass import dataclass

QUOTED = re.compile(r"`([^`\n]{2,200})`|\"([^\"\n]{2,200})\"|(?<!\w)'([^'\n]{2,200})'(?!\w)")
WORD = re.compile(r"\w+")
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[^\W\da-zA-Z_]+|\d+")
_LIKE_CODE = re.compile(r"_|\d|[a-z][A-Z]|^[A-Z]{2}.*[a-z]")
# Lines that a person or a program names: "line 12", "lines 10-40", "L12", `file.py:12`, `File "file.py", line 12`.
_LINES = re.compile(
    r"(?:(?P<file>[\w./\\+-]*\w\.\w{1,8})[:(]|(?:\"(?P<quoted>[^\"\n]+)\", )?\b[Ll]ines?\s+|\bL)"
    r"(?P<first>\d{1,7})(?:\s*(?:-|–|to|and|\.\.)\s*L?(?P<last>\d{1,7}))?\b"
)
_FEW = 40  # lines that a request names; a log may name thousands
# What nearly every request says, and what says nothing of a place.
_PLAIN = frozenset(
    WORD.findall(
        """
        a able about according add added adding adds after again all allow allowed allows also always an and any are as
        at avoid be because been before behavior behaviour being better both bug but by can case cases change changed
        changes code comment comments correct correctly could do docs documentation does doing don down each ensure
        error errors etc even every example few file files fix fixed fixes fixing for from function functions get give
        gives had handle handled handles handling has have if implement implemented improve improved in instead into is
        issue issues it its just keep let like line lines made make makes making may method methods minor missing more
        move must need needs never new no not now of on once one only or other our out over possible problem properly
        refactor remove removed removes removing rename renamed replace request return returns same set shall should
        simplify so some still such support supports sure test tests than that the their them then there these they
        this to too try typo up update updated updates use used uses using very was way we were what when where whether
        which while will with without work works would wrong you your
        """
    )
)
_PLAIN_WEIGHT = 0.15
_NAME_WEIGHT = 2.5  # of a whole name, beside that of its parts


@dataclass(frozen=True)
class Query:
    """`words` and `names` (whole identifiers) with what each counts, all in lower case and the words by their stems;
    `quotes` as they are; `lines` are ranges from 1, both included."""

    words: dict[str, float]
    names: dict[str, float]
    quotes: tuple[str, ...]
    lines: tuple[tuple[int, int], ...]


def read_query(text: str, path: str = "") -> Query:
    """What the text of a request about the file `path` holds. Lines that it names of other files do not count."""
    words: dict[str, float] = {}
    names: dict[str, float] = {}
    quotes = tuple(dict.fromkeys(quote for found in QUOTED.findall(text) for quote in found if quote))
    marked = {word for quote in quotes for word in WORD.findall(quote)}
    for word in WORD.findall(text):
        name = word.lower()
        if word in marked or _LIKE_CODE.search(word):
            names[name] = _NAME_WEIGHT
        plain = name in _PLAIN and word not in marked
        for part in parts(word):
            words[part] = max(words.get(part, 0.0), _PLAIN_WEIGHT if plain else 1.0)
    return Query(words, names, quotes, tuple(_lines(text, path)))


def _lines(text: str, path: str) -> Iterable[tuple[int, int]]:
    own = path.rpartition("/")[2]
    for match in islice(_LINES.finditer(text), _FEW):
        file = match["file"] or match["quoted"]
        if file and re.split(r"[/\\]", file)[-1] != own:
            continue
        first = int(match["first"])
        last = int(match["last"] or first)
        if 0 < first <= last:
            yield first, last


@lru_cache(maxsize=1 << 16)
def parts(name: str) -> tuple[str, ...]:
    """The words of an identifier by their stems: `parseHTTPHeaders` is parse, http, header."""
    return tuple(stem(part.lower()) for part in _PARTS.findall(name) if len(part) > 1)


def stem(word: str) -> str:
    """A word without the ending that its other forms have not; good for comparing, not for reading."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) > 2 and not word.endswith("ss"):
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word
