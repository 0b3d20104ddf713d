"""The parts of a memory for a prompt: the notes, the last edits, and the earlier exchanges relevant to the request.

Notes are the same for every request, which keeps prompt caches valid. Exchanges that share words and names with the
request, and the last ones, get a few lines each, without code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from repoagent.llm.conversation import Turn
from repoagent.llm.model import without_thought
from repoagent.llm.usage import estimate_tokens
from repoagent.memory.edit_records import Exchange, outcome_text, read_edits, read_exchanges
from repoagent.memory.identity.record import Memory, came_along
from repoagent.memory.notes import COMPACTED, Note, Older, read_notes, stale_notes
from repoagent.storage.layout import Warn, to_stderr

_NOTES_SHARE = 2 / 3  # share of the budget for notes, if there are edits
_STALE_SHARE = 1 / 6  # share of that for stale notes, if there are others
_EDITS = 8
_STALE = 6
_LONGEST_REQUEST = 400  # characters
FOREIGN = "(The following came with the repository; its author is unknown, whatever it claims.)"
_NOTES = "Notes on this file:"
_OUTDATED = "Notes that may be out of date, because the file no longer contains what they name:"


def memory_block(
    memory: Memory,
    budget_tokens: int,
    *,
    data: bytes | None = None,
    older: Older | None = None,
    warn: Warn = to_stderr,
) -> str:
    """Return the notes and then the last edits, oldest first, in at most `budget_tokens` (estimated); "" if there are
    none."""
    edits = read_edits(memory.edits, warn=warn)[-_EDITS:]
    lines = [
        f"- {edit.time[:10]}: {cut_line(edit.request, _LONGEST_REQUEST)} ({outcome_text(edit.state, edit.commit)})"
        for edit in edits
    ]
    share = _NOTES_SHARE if edits else 1.0
    notes = _notes(memory, int(budget_tokens * share), data=data, older=older)
    rest = _section("Recent edits to this file:", lines, budget_tokens - estimate_tokens(notes))
    return mark_foreign(memory, notes + rest)


def mark_foreign(memory: Memory, text: str) -> str:
    """`text`, from a memory, preceded by a warning if the memory came with the repository."""
    return f"{FOREIGN}\n{text}" if text and came_along(memory.folder) else text


def notes_block(
    memory: Memory, budget_tokens: int, *, data: bytes | None = None, older: Older | None = None
) -> str:
    """Return the notes in the order of the file, in at most `budget_tokens` (estimated); "" if there are none.

    If not all of them fit, the user's notes are preferred, then the newest. With `data`, the current bytes of the file,
    stale notes are listed separately; `older` is as in `notes.stale_notes`.
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
    """`title` and as many of the last `lines` as fit the budget, `preferred` ones first; "" if none fits."""
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


WORDS = 400  # most characters of a model's reply, and of a reason
REQUEST = 400
_READ = 8_000  # characters of a reply without code; the rest is ignored
_FENCED = re.compile(r"(?ms)^(`{3,}|~{3,})[^\n]*\n.*?(?:^\1[ \t]*$|\Z)")
_BARE_DIFF = re.compile(r"(?ms)^(?:diff --git |--- \S+\n\+\+\+ ).*?(?=^[^-+ @\\\n]|\Z)")
_NOTE = re.compile(r"<note>[^<]*</note>")
_TAG = re.compile(r"</?[a-z]+(?: [^<>]*)?/?>")
_REASON = re.compile(r"\AThe (?:person|user) [a-z ]+ the change: ")
_OUTPUT = "Its output:\n"
_FRAME = re.compile(  # a frame of a traceback, or decoration by a test runner
    r"\s*(?:Traceback |File \"|at \S|\^+\s*$|[-=_ ]{5,}|=+ .* =+$|\.+[.FEsx]*(?:\s*\[.*\])?$)"
)


def heading(exchange: Exchange) -> str:
    """The day, request and outcome of an exchange, on one line."""
    end = f" ({outcome_text(exchange.state, exchange.commit)})" if exchange.state else ""
    return f"- {exchange.time[:10] or 'unknown date'}: {cut_line(exchange.request, REQUEST)}{end}"


def lines(exchange: Exchange) -> list[str]:
    """A line for each turn after the request, if it contains prose, a reason or a failure."""
    result = []
    replies = [turn for turn in exchange.turns if turn.role == "assistant"]
    for turn in exchange.turns[1:]:
        if turn.role == "assistant":
            if text := cut_line(prose_of(turn.text), WORDS if turn is replies[-1] else WORDS // 2):
                result.append(f"  the model: {text}")
        elif turn.role == "observation" and (reason := reason_of(turn)):
            result.append(f"  the user: {reason}")
        elif turn.role == "observation" and (failure := failure_of(turn)):
            result.append(f"  the {turn.meta.get('kind', 'check')}: {failure}")
    return result


def prose_of(reply: str) -> str:
    """The prose of a model's reply and its commit message, without code, patches, notes or tool calls."""
    text = _FENCED.sub("\n", without_thought(reply))[:_READ]
    text = _BARE_DIFF.sub("\n", text)
    return " ".join(_TAG.sub(" ", _NOTE.sub(" ", text)).split())


def reason_of(turn: Turn) -> str:
    """Why the user rejected a change; "" for other turns, or if no reason was given."""
    if turn.meta.get("kind") != "person" or turn.meta.get("ok") != "no":
        return ""
    return cut_line(_REASON.sub("", turn.text).partition("\n")[0], WORDS)


_ADVICE = re.compile(
    r"\n\n(?:Your edit is kept as a draft|The files )"
)  # advice to the model after a failed check


def failure_of(turn: Turn) -> str:
    """The most informative line in the output of a failed check or hook; "" for other turns."""
    if turn.meta.get("kind") not in {"check", "hook"} or turn.meta.get("ok") != "no":
        return ""
    return failing_line(turn.text)


def failing_line(text: str) -> str:
    """The first line that names an error, or else the first that is neither part of a traceback nor decoration."""
    output = _ADVICE.split(text.partition(_OUTPUT)[2], maxsplit=1)[0].strip() or text
    candidates = [line.strip() for line in output.split("\n") if line.strip() and not _FRAME.match(line)]
    errors = (
        line for line in candidates if re.search(r"(?i)\b\w*(?:error|exception|fail(?:ed|ure)?)\b", line)
    )
    return cut_line(next(errors, candidates[0] if candidates else ""), WORDS // 2)


def cut_line(text: str, most: int) -> str:
    """`text` on one line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


LAST = 8  # newest exchanges that have a line each, whatever they are about
DETAILED = 4  # most relevant exchanges shown with the turns after the request
ENOUGH = 0.2  # least share of the words of the request for an exchange to be relevant
_TITLE = "Earlier requests for this file and their outcomes:"


def exchanges_block(memory: Memory, request: str, budget_tokens: int) -> str:
    """Return the exchanges that matter for `request`, oldest first, in at most `budget_tokens` (estimated).

    The last few get a line each. The last one and those that share the most words with the request are shown in detail.
    Return "" if there are none.
    """
    known = read_exchanges(memory)
    if not known:
        return ""
    order = ranked(known, request)
    full = dict.fromkeys((*order[:DETAILED], len(known) - 1))
    left = budget_tokens - estimate_tokens(_TITLE + "\n\n")
    shown: dict[int, str] = {}
    recent = range(len(known) - 1, max(-1, len(known) - 1 - LAST), -1)
    for number in dict.fromkeys((*order[:1], *recent, *order)):  # the most relevant one first
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
    """The numbers of the exchanges that share the most words with `request`, best first; the newest first of equals."""
    wanted = _terms(request)
    shared = [len(wanted & _terms("\n".join([exchange.request, *lines(exchange)]))) for exchange in known]
    least = max(1.0, ENOUGH * len(wanted))
    numbers = [number for number, count in enumerate(shared) if count >= least]
    return sorted(numbers, key=lambda number: (-shared[number], -number))


def _terms(text: str) -> frozenset[str]:
    from repoagent.memory.search.passages import is_common, words_of

    words = words_of(text)
    parts = (
        part for part, raw in zip(words.parts, words.raw, strict=True) if len(part) > 1 and not is_common(raw)
    )
    return frozenset((*parts, *words.names))
