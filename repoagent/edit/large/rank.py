"""How much each segment of a file has to do with a request: BM25 over its words and names.

Robertson and Zaragoza, The Probabilistic Relevance Framework (2009): a word counts by how rare it is among the
segments, and the more often it stands in one, the less each time. The names of the definitions that a segment holds
count as if they stood there more often (the "BM25F" of that paper).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from repoagent.edit.large.terms import WORD, Query, parts

if TYPE_CHECKING:
    from repoagent.split import Symbol

SATURATION, LENGTH = 1.2, 0.75  # k1 and b
BEGINS, HOLDS = (
    4.0,
    1.0,
)  # how often a name counts in the segment where its definition begins, and in its others
QUOTE = 12.0  # of a quotation that only one segment holds


def scores(
    texts: Sequence[str],
    spans: Sequence[tuple[int, int]],
    symbols: Sequence[Symbol],
    query: Query,
) -> list[float]:
    """A score, 0 or more, for each segment: its text, and its first and last line in `spans`."""
    words = [Counter(WORD.findall(text)) for text in texts]
    known = known_terms({name for count in words for name in count}, query)
    counts = [(_count(count, known), count.total()) for count in words]
    _add_symbols(counts, spans, symbols, query)
    total = len(texts)
    among = Counter(term for count, _ in counts for term in count)
    weights = {
        term: weight * math.log(1 + (total - among[term] + 0.5) / (among[term] + 0.5))
        for term, weight in _weights(query).items()
    }
    mean = sum(length for _, length in counts) / max(1, total) or 1.0
    result = []
    for count, length in counts:
        norm = SATURATION * (1 - LENGTH + LENGTH * length / mean)
        result.append(sum(weights[term] * n * (SATURATION + 1) / (n + norm) for term, n in count.items()))
    _add_quotes(result, texts, query.quotes)
    return result


def _weights(query: Query) -> dict[str, float]:
    """What each term counts: a word of the request, or "=" and a whole name."""
    return {**query.words, **{f"={name}": weight for name, weight in query.names.items()}}


def known_terms(names: Collection[str], query: Query) -> dict[str, tuple[str, ...]]:
    """The terms of the query that names of the file stand for; names that stand for none are left out."""
    begins = {
        word[:-1] or word for word in query.words
    }  # all of a stem but its last letter is as it was in the word
    if not begins:
        return {}
    likely = re.compile("|".join(map(re.escape, sorted(begins))), re.IGNORECASE).search
    found = {}
    for name in names:
        if likely(name) and (terms := _terms(name, query)):
            found[name] = terms
    return found


def _terms(name: str, query: Query) -> tuple[str, ...]:
    own = [part for part in dict.fromkeys(parts(name)) if part in query.words]
    return (*own, f"={name.lower()}") if name.lower() in query.names else tuple(own)


def _count(words: Mapping[str, int], known: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
    """How often each term stands in a text with these words."""
    count: dict[str, float] = {}
    for word in words.keys() & known.keys():
        for term in known[word]:
            count[term] = count.get(term, 0.0) + words[word]
    return count


def _add_symbols(
    counts: Sequence[tuple[dict[str, float], int]],
    spans: Sequence[tuple[int, int]],
    symbols: Sequence[Symbol],
    query: Query,
) -> None:
    """Count the names of definitions where they begin and, less, as far as they go."""
    known = known_terms({word for symbol in symbols for word in WORD.findall(symbol.name)}, query)
    ends = [last for _, last in spans]
    for symbol in symbols:
        terms = {term for word in WORD.findall(symbol.name) for term in known.get(word, ())}
        if not terms:
            continue
        first = bisect_left(ends, symbol.first_line)
        for number in range(first, min(len(spans), first + 64)):
            if spans[number][0] > symbol.last_line:
                break
            for term in terms:
                count = counts[number][0]
                count[term] = count.get(term, 0.0) + (BEGINS if number == first else HOLDS)


def _add_quotes(result: list[float], texts: Sequence[str], quotes: Sequence[str]) -> None:
    for quote in quotes:
        holding = [number for number, text in enumerate(texts) if quote in text]
        for number in holding:
            result[number] += QUOTE / len(holding)
