"""Which earlier exchanges a request is shown: those that share its rare words and names, and the last ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from repoagent.llm.usage import estimate_tokens
from repoagent.memory.identity.record import Memory
from repoagent.memory.prompt import marked
from repoagent.memory.recall.words import is_common, words_of
from repoagent.memory.turns.exchanges import Exchange, exchanges
from repoagent.memory.turns.said import heading, lines
from repoagent.store import Warn, to_stderr

LAST = 8  # exchanges that are told in a line each, whatever they were about
DETAILED = 4  # exchanges that are told with what was said
ENOUGH = 0.2  # of the weight of a request's words, for an exchange to be about the same
_RECENT, _HALF = 0.3, 6.0  # what the last one gains, and after how many it is half of that
_LESSON = 1.25  # what went wrong, or a person had a reason against, says more
_TITLE = "Earlier requests for this file, and what came of them:"


def told(memory: Memory, request: str, budget_tokens: int, *, warn: Warn = to_stderr) -> str:
    """The exchanges about a file that matter for `request`, oldest first, in at most `budget_tokens` (estimated).

    The last ones have a line each. The last one, and those that share most of the request's words (weighted by how
    rare they are among all exchanges; Robertson and Zaragoza 2009), are told with what was said. "" for none.
    """
    known = exchanges(memory, warn=warn)
    if not known:
        return ""
    order = ranked(known, request)
    full = dict.fromkeys((*order[:DETAILED], len(known) - 1))
    left = budget_tokens - estimate_tokens(_TITLE + "\n\n")
    shown: dict[int, str] = {}
    recent = range(len(known) - 1, max(-1, len(known) - 1 - LAST), -1)
    for number in dict.fromkeys((*order[:1], *recent, *order)):  # a line of each, the best before all
        if (line := heading(known[number])) and (cost := estimate_tokens(line + "\n")) <= left:
            shown[number] = line
            left -= cost
    for number in (number for number in full if number in shown):
        for line in lines(known[number]):
            cost = estimate_tokens(line + "\n")
            if cost <= left:
                shown[number] += "\n" + line
                left -= cost
    text = "\n".join([_TITLE, *(shown[number] for number in sorted(shown)), ""]) + "\n" if shown else ""
    return marked(memory, text)


def ranked(known: Sequence[Exchange], request: str) -> list[int]:
    """The numbers of the exchanges that are about what `request` is about, the best first."""
    wanted = _terms(request)
    asked = [_terms(one.request) for one in known]
    said = [own | _terms("\n".join(lines(one))) for one, own in zip(known, asked, strict=True)]
    counts = Counter(term for terms in said for term in terms)
    weight = {
        term: math.log(1 + (len(known) - counts[term] + 0.5) / (counts[term] + 0.5))
        for term in sorted(wanted)
    }
    whole = sum(weight.values())
    if not whole:
        return []
    scored = []
    for number, (own, terms) in enumerate(zip(asked, said, strict=True)):
        share = sum(weight[t] * (1.0 if t in own else 0.6) for t in weight if t in terms) / whole
        if share >= ENOUGH:
            recent = _RECENT * 0.5 ** ((len(known) - 1 - number) / _HALF)
            lesson = _LESSON if known[number].went_wrong or _has_reason(known[number]) else 1.0
            scored.append((-(share * lesson + recent), -number))
    return [-number for _, number in sorted(scored)]


def _has_reason(one: Exchange) -> bool:
    return any(turn.meta.get("kind") == "person" for turn in one.turns)


def _terms(text: str) -> frozenset[str]:
    found = words_of(text)
    parts = (
        part for part, raw in zip(found.parts, found.raw, strict=True) if len(part) > 1 and not is_common(raw)
    )
    return frozenset((*parts, *found.names))
