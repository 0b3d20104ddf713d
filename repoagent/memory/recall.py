"""What of a memory goes into a prompt, and a search over all of them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from repoagent.llm.usage import estimate_tokens
from repoagent.memory.identity import Memory
from repoagent.memory.notes import Note, read_notes
from repoagent.memory.records import EditRecord, read_edits
from repoagent.memory.remember import memories
from repoagent.store import Layout, Warn, to_stderr

_NOTES_SHARE = 2 / 3  # of the budget, as long as there are edits to tell
_EDITS = 8
_RESULTS = 10
_LONGEST_REQUEST = 400  # characters


def block(memory: Memory, budget_tokens: int, *, warn: Warn = to_stderr) -> str:
    """Notes, then the last edits (request and outcome), oldest first, in at most `budget_tokens` (estimated).

    What changes least comes first, so that a cached prompt stays valid as long as it can. The newest notes
    and edits are kept where not all fit. "" when there is nothing to tell.
    """
    edits = read_edits(memory.edits, warn=warn)[-_EDITS:]
    notes = [_told(note, memory) for note in read_notes(memory.notes)]
    share = _NOTES_SHARE if edits else 1.0
    told = _section("Notes on this file:", notes, int(budget_tokens * share))
    left = budget_tokens - estimate_tokens(told)
    asked = _section("Last edits of this file:", [_outcome(edit) for edit in edits], left)
    return told + asked


def search(layout: Layout, query: str, *, limit: int = _RESULTS, warn: Warn = to_stderr) -> list[str]:
    """The notes and edits of all files that fit `query` best, best first, each as one line with its path.

    A text scores for each word of the query it holds, rare words more, repeated words little more, long
    texts less (BM25 with its usual constants, Robertson and Zaragoza 2009).
    """
    texts = list(_texts(layout, warn))
    counts = [Counter(_words(text)) for text in texts]
    average = sum(c.total() for c in counts) / len(counts) if counts else 0.0
    scores = [0.0] * len(texts)
    for word in set(_words(query)):
        having = sum(word in c for c in counts)
        rarity = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        for at, count in enumerate(counts):
            times = count[word]
            scores[at] += (
                rarity * times * 2.2 / (times + 0.3 + 0.9 * count.total() / average) if times else 0.0
            )
    ranked = sorted((at for at, score in enumerate(scores) if score > 0), key=lambda at: (-scores[at], at))
    return [texts[at] for at in ranked[:limit]]


def _section(title: str, lines: list[str], budget_tokens: int) -> str:
    """`title` and as many of the last `lines` as the budget allows; "" for none."""
    left = budget_tokens - estimate_tokens(title + "\n\n")
    kept: list[str] = []
    for line in reversed(lines):
        left -= estimate_tokens(line + "\n")
        if left < 0:
            break
        kept.insert(0, line)
    return "\n".join([title, *kept, ""]) + "\n" if kept else ""


def _told(note: Note, memory: Memory) -> str:
    older = memory.identity.is_of_older_text(note.day, note.blob)
    return f"{note} (about an older text of this file)" if older else str(note)


def _outcome(edit: EditRecord) -> str:
    request = _shortened(edit.request)
    commit = f" as {edit.commit[:12]}" if edit.commit else ""
    return f"- {edit.time[:10]}: {request} ({edit.state}{commit})"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REQUEST else line[: _LONGEST_REQUEST - 1] + "…"


def _texts(layout: Layout, warn: Warn) -> Iterator[str]:
    for memory in memories(layout, warn=warn):
        path = memory.identity.path
        yield from (f"{path}: {_told(note, memory).removeprefix('- ')}" for note in read_notes(memory.notes))
        yield from (
            f"{path}: {_outcome(edit).removeprefix('- ')}" for edit in read_edits(memory.edits, warn=warn)
        )


def _words(text: str) -> list[str]:
    """Words in lower case; a name like `readConfig` or `read_config` counts whole and by its parts."""
    found: list[str] = []
    for word in re.findall(r"\w+", text):
        parts = re.findall(r"[A-Z]?[^\W_A-Z]+|[A-Z]+", word)
        found.append(word.lower())
        if len(parts) > 1:
            found.extend(part.lower() for part in parts)
    return found
