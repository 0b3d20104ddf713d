"""What a prompt contains of a memory: the notes, the last edits, and the earlier exchanges relevant to the request.

Notes stay the same from one request to the next, which keeps prompt caches valid. Exchanges are shown in a few lines
without code: those that share rare words and names with the request, and the last ones.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from repoagent.llm.conversation import Turn
from repoagent.llm.model import without_thought
from repoagent.llm.usage import estimate_tokens
from repoagent.memory.edit_records import Exchange, exchanges, read_edits
from repoagent.memory.identity.record import Memory, came_along
from repoagent.memory.notes import COMPACTED, Note, Older, read_notes, stale_notes
from repoagent.memory.search.tokenize import is_common, words_of
from repoagent.storage.layout import Warn, to_stderr

_NOTES_SHARE = 2 / 3  # of the budget, if there are edits
_STALE_SHARE = 1 / 6  # of the budget for notes, if there are others
_EDITS = 8
_STALE = 6
_LONGEST_REQUEST = 400  # characters
FOREIGN = "(The following came with the repository; its author is unknown, whatever it claims.)"
_NOTES = "Notes on this file:"
_OUTDATED = "Notes that may be out of date, because the file no longer contains what they name:"


def block(
    memory: Memory,
    budget_tokens: int,
    *,
    data: bytes | None = None,
    older: Older | None = None,
    warn: Warn = to_stderr,
) -> str:
    """Notes, then the last edits (request and outcome), oldest first, in at most `budget_tokens` (estimated).

    For a model that gets no more than that; `data` and `older` as in `notes_block`. "" if nothing is remembered.
    """
    edits = read_edits(memory.edits, warn=warn)[-_EDITS:]
    lines = [
        f"- {edit.time[:10]}: {cut(edit.request, _LONGEST_REQUEST)} ({edit.state}{_as_commit(edit.commit)})"
        for edit in edits
    ]
    share = _NOTES_SHARE if edits else 1.0
    notes = _notes(memory, int(budget_tokens * share), data=data, older=older)
    rest = _section("Last edits of this file:", lines, budget_tokens - estimate_tokens(notes))
    return mark_foreign(memory, notes + rest)


def mark_foreign(memory: Memory, text: str) -> str:
    """The text of a memory, after a line that says so if it came with the repository."""
    return f"{FOREIGN}\n{text}" if text and came_along(memory.folder) else text


def notes_block(
    memory: Memory, budget_tokens: int, *, data: bytes | None = None, older: Older | None = None
) -> str:
    """The notes in the order of their file, in at most `budget_tokens` (estimated); "" for none.

    If not all fit, those of the user are preferred, then the newest. With `data`, the present bytes of the file,
    notes about code that is gone are listed apart; `older` is as in `notes.stale_notes`. Lines about exchanges that
    were compacted are left out: they are shown with the exchanges.
    """
    return mark_foreign(memory, _notes(memory, budget_tokens, data=data, older=older))


def _notes(memory: Memory, budget_tokens: int, *, data: bytes | None, older: Older | None) -> str:
    notes = [note for note in read_notes(memory.notes) if note.source != COMPACTED]
    stale = stale_notes(notes, data, older) if data is not None else {}
    good = [note for note in notes if note not in stale]
    outdated = [f"{_line(note, memory)} [gone: {', '.join(stale[note])}]" for note in notes if note in stale]
    for_stale = int(budget_tokens * (_STALE_SHARE if good else 1)) if outdated else 0
    apart = _section(_OUTDATED, outdated[-_STALE:], for_stale)
    lines, left = [_line(note, memory) for note in good], budget_tokens - estimate_tokens(apart)
    return _section(_NOTES, lines, left, preferred=[note.is_by_hand for note in good]) + apart


def _section(title: str, lines: Sequence[str], budget_tokens: int, *, preferred: Sequence[bool] = ()) -> str:
    """`title` and as many of the last `lines` as the budget allows, the `preferred` ones before others; "" for
    none."""
    left = budget_tokens - estimate_tokens(title + "\n\n")
    chosen = []
    for number in sorted(
        range(len(lines)), key=lambda number: (not (preferred and preferred[number]), -number)
    ):
        left -= estimate_tokens(lines[number] + "\n")
        if left < 0:
            break
        chosen.append(number)
    return "\n".join([title, *(lines[number] for number in sorted(chosen)), ""]) + "\n" if chosen else ""


def _line(note: Note, memory: Memory) -> str:
    by = f"by {note.source}" if note.source and note.day else ""
    stamp = " ".join(part for part in (note.day, by) if part)
    line = f"- {stamp}: {note.text}" if stamp else f"- {note.text}"
    is_older = memory.identity.is_of_older_text(note.day, note.blob)
    return f"{line} (about an older version of this file)" if is_older else line


def _as_commit(commit: str | None) -> str:
    return f" as {commit[:12]}" if commit else ""


WORDS = 400  # characters of what a model said, and of a reason
REQUEST = 400
_READ = 8_000  # characters of a reply without its code: no more of it is looked at
_FENCED = re.compile(r"(?ms)^(`{3,}|~{3,})[^\n]*\n.*?(?:^\1[ \t]*$|\Z)")
_BARE_DIFF = re.compile(r"(?ms)^(?:diff --git |--- \S+\n\+\+\+ ).*?(?=^[^-+ @\\\n]|\Z)")
_NOTE = re.compile(r"<note>[^<]*</note>")
_TAG = re.compile(r"</?[a-z]+(?: [^<>]*)?/?>")
_REASON = re.compile(r"\AThe (?:person|user) [a-z ]+ the change: ")
_OUTPUT, _AFTER = "Its output:\n", "\n\nThe files "
_FRAME = re.compile(  # of a traceback, or decoration of a test runner
    r"\s*(?:Traceback |File \"|at \S|\^+\s*$|[-=_ ]{5,}|=+ .* =+$|\.+[.FEsx]*(?:\s*\[.*\])?$)"
)


def heading(one: Exchange) -> str:
    """The request with its day and its outcome, on one line."""
    outcome = f" ({one.state}{_as_commit(one.commit)})" if one.state else ""
    return f"- {one.time[:10] or 'some day'}: {cut(one.request, REQUEST)}{outcome}"


def lines(one: Exchange) -> list[str]:
    """What was said after the request, a line for each turn that says something."""
    said = []
    replies = [turn for turn in one.turns if turn.role == "assistant"]
    for turn in one.turns[1:]:
        if turn.role == "assistant":
            if text := cut(prose_of(turn.text), WORDS if turn is replies[-1] else WORDS // 2):
                said.append(f"  the model: {text}")
        elif turn.role == "observation" and (reason := reason_of(turn)):
            said.append(f"  the user: {reason}")
        elif turn.role == "observation" and (failure := failure_of(turn)):
            said.append(f"  the {turn.meta.get('kind', 'check')}: {failure}")
    return said


def prose_of(reply: str) -> str:
    """The prose of a model's reply, with its commit message; code, patches, notes and what it asked for left out."""
    text = _FENCED.sub("\n", without_thought(reply))[:_READ]
    text = _BARE_DIFF.sub("\n", text)
    return " ".join(_TAG.sub(" ", _NOTE.sub(" ", text)).split())


def reason_of(turn: Turn) -> str:
    """Why the person did not take a change; "" for other turns, and where no reason was given."""
    if turn.meta.get("kind") != "person" or turn.meta.get("ok") != "no":
        return ""
    return cut(_REASON.sub("", turn.text).partition("\n")[0], WORDS)


_ADVICE = re.compile(r"\n\n(?:Your edit is kept as a draft|The files )")  # of a failed check, to the model


def failure_of(turn: Turn) -> str:
    """The line of a failed check's or hook's output that says most; "" for other turns."""
    if turn.meta.get("kind") not in {"check", "hook"} or turn.meta.get("ok") != "no":
        return ""
    return failing_line(turn.text)


def failing_line(text: str) -> str:
    """The first line of a failure that is no frame of a traceback and no decoration; one that names an error first."""
    output = _ADVICE.split(text.partition(_OUTPUT)[2], maxsplit=1)[0].strip() or text
    told = [line.strip() for line in output.split("\n") if line.strip() and not _FRAME.match(line)]
    named = (line for line in told if re.search(r"(?i)\b\w*(?:error|exception|fail(?:ed|ure)?)\b", line))
    return cut(next(named, told[0] if told else ""), WORDS // 2)


def cut(text: str, most: int) -> str:
    """`text` on one line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


LAST = 8  # exchanges that are told in a line each, whatever they were about
DETAILED = 4  # exchanges that are told with what was said
ENOUGH = 0.2  # of the weight of a request's words, for an exchange to be about the same
_RECENT, _HALF = 0.3, 6.0  # what the last one gains, and after how many it is half of that
_LESSON = 1.25  # what went wrong, or a person had a reason against, says more
_TITLE = "Earlier requests for this file and their outcome:"


def exchanges_block(memory: Memory, request: str, budget_tokens: int, *, warn: Warn = to_stderr) -> str:
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
    return mark_foreign(memory, text)


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
