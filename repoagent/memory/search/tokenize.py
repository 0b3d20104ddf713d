"""Split text into search words: stems of plain words, and names in code, both in parts and as a whole.

`readConfig`, `read_config` and `read-config` are the words "read" and "config", and the name "readconfig": each
spelling finds the others, the parts find every spelling, and the exact name ranks best.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

LONGEST = 64  # characters of a word; longer ones are data, and cut
_TOKEN = re.compile(r"[^\W_]+(?:(?:::|->|[_\-./:])_*[^\W_]+)*")
_SEGMENT = re.compile(r"(?:::|->|[./:])_*")  # separators between the names in a path
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\dA-Za-z_]+")
_HASH = re.compile(r"(?=.*\d)[0-9a-fA-F]{7,64}")
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")  # written without spaces between words
_COMMON = re.compile(
    "an?|and|are|as|at|be|been|but|by|can|do|does|for|from|ha[ds]|have|how|i|if|in|into|is|it|its|no|not|of|on|or|so|"
    "than|that|the|their|them|then|there|these|this|those|to|was|we|were|what|when|where|which|who|why|will|with|"
    "would|you|your"
)


class Words(NamedTuple):
    """The words of a text. `parts` are their stems, in order; `names` the compound names among them, each as
    one word; `raw` is `parts` before stemming."""

    parts: tuple[str, ...]
    names: tuple[str, ...]
    raw: tuple[str, ...]


def tokens(text: str) -> Iterator[re.Match[str]]:
    """The regex matches for words and compound names in `text`."""
    return _TOKEN.finditer(text)


def words_of(text: str) -> Words:
    """The words and names in `text`."""
    parts: list[str] = []
    names: list[str] = []
    raw: list[str] = []
    for token in _TOKEN.findall(text):
        words = words_in(token)
        parts += words.parts
        names += words.names
        raw += words.raw
    return Words(tuple(parts), tuple(names), tuple(raw))


@lru_cache(maxsize=1 << 16)
def words_in(token: str) -> Words:
    """The words and names in one token from `tokens`."""
    parts: list[str] = []
    names: list[str] = []
    segments = _SEGMENT.split(token)
    for segment in segments:
        words = _parts(segment)
        parts += words
        if len(words) > 1 and not _WIDE.search(segment):
            names.append("".join(words)[:LONGEST])
    if len(segments) > 1:
        names.append("".join(parts)[:LONGEST])
    raw = tuple(part[:LONGEST] for part in parts)
    return Words(tuple(map(stem, raw)), tuple(dict.fromkeys(names)), raw)


def is_common(word: str) -> bool:
    """Whether a word (unstemmed) is too common to search for if the query has other words."""
    return _COMMON.fullmatch(word.lower()) is not None


def stem(word: str) -> str:
    """An English word without plural or tense endings; other words unchanged."""
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and re.search("[aeiouy]", rest):
            if rest[-1] == rest[-2] and rest[-1] not in "lsz":
                rest = rest[:-1]
            word = rest
            break
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


def _parts(segment: str) -> list[str]:
    """The words of a name without separators, in lower case."""
    if _HASH.fullmatch(segment):
        return [segment.lower()]
    if segment.isascii():
        return [part.lower() for part in _PART.findall(segment)]
    plain = unicodedata.normalize("NFKC", segment)
    words: list[str] = []
    at = 0
    for run in _WIDE.finditer(plain):
        words += _latin(plain[at : run.start()])
        pairs = zip(run[0], run[0][1:], strict=False)
        words += ["".join(pair) for pair in pairs] or [run[0]]
        at = run.end()
    return words + _latin(plain[at:])


def _latin(text: str) -> list[str]:
    """The words of `text` without accents."""
    apart = unicodedata.normalize("NFD", text)
    bare = "".join(character for character in apart if not unicodedata.combining(character))
    parts = (unicodedata.normalize("NFC", part) for part in re.findall(r"[^\W_]+", bare))
    words = (word for part in parts for word in (_PART.findall(part) if part.isascii() else [part]))
    return [folded for word in words if (folded := word.casefold())]
