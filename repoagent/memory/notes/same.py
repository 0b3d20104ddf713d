"""Whether one short sentence says anything that another does not. When in doubt it does: a note that is there twice
costs a line, one that was not taken is lost."""

from __future__ import annotations

import re

from repoagent.memory.recall.words import is_common, stem, tokens, words_in

_MARKS = re.compile(  # what makes two sentences differ though nearly all of their words are the same
    r"`([^`]+)`|(\d[\w.]*)|(\w+_\w+|[a-z]+[A-Z]\w*|\w+\(\))|"
    r"(?i:\b(not|cannot|never|no|nor|none|nothing|without|unless|except|only|before|after)\b|(n['’]t)\b)"
)
_SAME_NO = {"cannot": "not", "never": "not", "n't": "not", "n’t": "not"}
_ALIKE, _PREFIX = 75.0, 4  # of two forms of one word: percent, and characters at their beginning
_SHORTER, _ORDER = (
    0.6,
    0.7,
)  # how much of the old sentence the new one has, and how much of it in the same order


def says_nothing_new(new: str, old: str) -> bool:
    """Whether `old` says all that `new` does: each word of it in some form, in about the same order, with the same
    numbers, names of code and negations."""
    if new.casefold().split() == old.casefold().split():
        return True
    if _marks(new) != _marks(old):
        return False
    words, known = _words(new), _words(old)
    if not words or len(words) < _SHORTER * len(known):
        return False
    same = [_partner(word, known) for word in words]
    if "" in same:
        return False
    from rapidfuzz.distance import Indel

    return Indel.normalized_similarity(same, known) >= _ORDER


def _marks(text: str) -> list[str]:
    found = []
    for match in _MARKS.finditer(text):
        mark = next(group for group in match.groups() if group)
        mark = mark.removesuffix("()") if match[1] or match[3] else mark.lower()
        found.append(_SAME_NO.get(mark, mark))
    return found


def _words(text: str) -> list[str]:
    return [
        stem(word)
        for token in tokens(text)
        for word in words_in(token[0]).raw
        if not is_common(word) and len(word) > 1
    ]


def _partner(word: str, known: list[str]) -> str:
    """The word of `known` that `word` is a form of; "" for none."""
    if word in known:
        return word
    from rapidfuzz import fuzz

    near = [other for other in known if other[:_PREFIX] == word[:_PREFIX] and len(word) >= _PREFIX]
    best = max(near, key=lambda other: fuzz.ratio(word, other), default="")
    return best if best and fuzz.ratio(word, best) >= _ALIKE else ""
