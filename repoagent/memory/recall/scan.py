"""The same search without an index, for a Python whose SQLite has no FTS5: every passage is read and scored."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from datetime import date

from repoagent.memory.recall.passages import Passage
from repoagent.memory.recall.query import Query
from repoagent.memory.recall.rank import WEIGHTS, Only, Ranked, weighed
from repoagent.memory.recall.respell import alike
from repoagent.memory.recall.words import words_of

_K1, _B = 1.2, 0.75  # the constants that FTS5 has too


def scanned(texts: Iterable[tuple[str, Passage]], query: Query, only: Only, today: date) -> list[Ranked]:
    """Those of `texts` (path of the plain file, passage) that fit, best first (BM25, Robertson and Zaragoza 2009)."""
    found = list(texts)
    counts = [_counts(passage) for _, passage in found]
    sizes = [sum(count.values()) for count in counts]
    average = sum(sizes) / len(sizes) if sizes else 1.0
    scores = [0.0] * len(found)
    for word in (*query.words, *(f"{name}()" for name in (*query.names, *query.joined))):
        having = sum(word in count for count in counts)
        rarity = math.log(1 + (len(found) - having + 0.5) / (having + 0.5))
        for at, count in enumerate(counts):
            if times := count.get(word, 0.0):
                norm = _K1 * (1 - _B + _B * sizes[at] / (average or 1.0))
                scores[at] += rarity * times * (_K1 + 1) / (times + norm)
    fitting = [
        Ranked(passage, path, score)
        for (path, passage), score in zip(found, scores, strict=True)
        if score > 0 and path != only.without and _is_asked(passage, only) and _has_phrases(passage, query)
    ]
    return weighed(fitting, query, today)


def respelled_by(texts: Iterable[tuple[str, Passage]], query: Query) -> dict[str, str]:
    """As `respell.respelled`, without an index."""
    known = {word for _, passage in texts for word in _counts(passage)}
    return alike([word for word in query.words if len(word) > 3 and word not in known], sorted(known))


def _counts(passage: Passage) -> dict[str, float]:
    """How often each word is there, by the weights of the columns; a name is told from a word by its `()`."""
    count: Counter[str] = Counter()
    weights = WEIGHTS
    title, body = words_of(passage.text[: passage.title]), words_of(passage.text[passage.title :])
    path = words_of(passage.file or passage.name)
    total: dict[str, float] = {}
    for words, weight in (
        (title.parts, weights.title),
        (body.parts, weights.body),
        (path.parts, weights.path),
    ):
        for word, times in Counter(words).items():
            total[word] = total.get(word, 0.0) + weight * times
    count.update((*title.names, *body.names, *path.names))
    return total | {f"{name}()": weights.names * times for name, times in count.items()}


def _is_asked(passage: Passage, only: Only) -> bool:
    asked = [path.strip("/") for path in only.files]
    return (not only.kinds or passage.kind in only.kinds) and (
        not asked or any(passage.file == path or passage.file.startswith(f"{path}/") for path in asked)
    )


def _has_phrases(passage: Passage, query: Query) -> bool:
    words = f" {' '.join(words_of(passage.text).parts)} "
    return all(f" {' '.join(phrase)} " in words for phrase in query.phrases)
