"""What a person types, as what is asked of the index. Any text is a query; none of it is syntax but quotation marks."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from repoagent.memory.recall.words import LONGEST, is_common, tokens, words_in, words_of

_MOST = 48  # different words of a query
_QUOTED = re.compile('"([^"]+)"|“([^”]+)”')


class Query(NamedTuple):
    """`words` are stems, `common` those that say nothing, apart from them, and `raw` both as they are written; `names`
    are the compound names in it, `joined` those that its neighboring words may be; each of `phrases` is words that
    must stand there in this order."""

    words: tuple[str, ...]
    names: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    phrases: tuple[tuple[str, ...], ...] = ()
    common: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()


def parse(text: str) -> Query:
    """The query in `text`; without words where there is nothing to search for."""
    phrases = [words_of(one or other).parts for one, other in _QUOTED.findall(text)]
    found = [token[0] for token in tokens(text)][: 4 * _MOST]
    telling = [token for token in found if not is_common(token)] or found
    words = [word for token in telling for word in words_in(token).parts]
    common = [word for token in found if token not in telling for word in words_in(token).parts]
    names = [name for token in found for name in words_in(token).names]
    plain = [token.lower() if not words_in(token).names else "" for token in found]
    pairs = pairwise(plain)
    joined = ["".join(pair)[:LONGEST] for pair in pairs if all(pair) and not all(map(is_common, pair))]
    return Query(
        tuple(dict.fromkeys(words))[:_MOST],
        tuple(dict.fromkeys(names))[:_MOST],
        tuple(dict.fromkeys(joined))[:_MOST],
        tuple(phrase for phrase in phrases if len(phrase) > 1),
        tuple(dict.fromkeys(word for word in common if word not in words))[:_MOST],
        tuple(dict.fromkeys(word for token in found for word in words_in(token).raw))[:_MOST],
    )


def match(query: Query) -> str:
    """The query in the language of FTS5: any of its words, and all of its phrases."""
    any_of = [_quoted(word) for word in query.words]
    any_of += [f"names : {_quoted(name)}" for name in (*query.names, *query.joined)]
    any_of += [f"path : {_quoted(name)}" for name in query.names]
    either = " OR ".join(any_of)
    needed = [_quoted(" ".join(phrase)) for phrase in query.phrases]
    return " AND ".join([*needed, f"({either})"])


def _quoted(words: str) -> str:
    return f'"{words}"'  # they are letters and digits only
