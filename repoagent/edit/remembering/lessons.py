"""What an edit teaches beyond its change: what the model offers as notes, and what happened, where it is worth a line.

A plain success is no lesson. A model's words about a file are kept as its own; the reason of a person who said no is
kept as the person's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from repoagent.dataclass import dataclass
from repoagent.edit.dialogue import SAID_NO
from repoagent.llm import Turn
from repoagent.memory.notes.file import PERSON, PROGRAM, Note, shortened
from repoagent.memory.notes.stale import missing, names
from repoagent.memory.turns.said import cut, failing_line, failure_of, reason_of

MOST = 5  # notes that a model may add with one edit
_ASKED = 120  # characters of the request in a note


@dataclass(frozen=True)
class Lesson:
    """A note to be added, and who says it (as `memory.Note.source`)."""

    text: str
    source: str


def offered(notes: Sequence[str], model: str, path: str, contents: Mapping[str, bytes]) -> Iterator[Lesson]:
    """The model's notes that are about `path`; `contents` has all files that were changed."""
    for note in notes[:MOST]:
        if path in about(note, contents) or path not in contents:
            yield Lesson(shortened(note), model)


def about(note: str, contents: Mapping[str, bytes]) -> set[str]:
    """Which of the files a note is about: those that it names, else those that hold most of the code that it names,
    else all."""
    called = {path for path in contents if PurePosixPath(path).name in note}
    if called:
        return called
    count = len(names(note))
    lacking = {path: len(missing(note, data)) for path, data in contents.items()}
    least = min(lacking.values(), default=count)
    return {path for path, number in lacking.items() if number == least or count == 0}


def happened(request: str, turns: Sequence[Turn], state: str, answer: str, model: str) -> Iterator[Lesson]:
    """What happened on the way to `state` (as in `EditRecord`), in lines; `answer` as in `Story`."""
    asked = f'"{cut(request, _ASKED)}"'
    landed = state in ("committed", "written")
    reasons = list(dict.fromkeys(reason for turn in turns if (reason := reason_of(turn))))
    for reason in reasons:
        after = "; then another version was taken" if landed else ""
        yield Lesson(
            shortened(f"did not want a change as it was proposed: {reason} (asked: {asked}{after})"), PERSON
        )
    failures = [failure for turn in turns if (failure := failure_of(turn))]
    if state == "failed":
        failure = failures[-1] if failures else failing_line(answer)
        yield Lesson(
            shortened(f"tried and failed its check, nothing was changed: {asked}: {failure}"), PROGRAM
        )
    elif failures and landed:
        yield Lesson(shortened(f"the first try at {asked} failed its check: {failures[0]}"), PROGRAM)
    if state == "refused":
        # what `is_overtaken` knows again
        why = ", ".join(refused_for(turns)) or cut(answer, _ASKED)
        yield Lesson(shortened(f"tried and refused ({why}), nothing was changed: {asked}"), PROGRAM)
    elif state == "declined" and answer.startswith(SAID_NO) and not reasons:
        yield Lesson(shortened(f"did not want what was proposed for {asked}"), PERSON)
    elif state == "rejected" and answer.strip():
        yield Lesson(shortened(f"declined to do {asked}: {answer}"), model)


def refused_for(turns: Sequence[Turn]) -> tuple[str, ...]:
    """The codes of what was refused last."""
    return tuple(
        next((turn.meta["reasons"] for turn in reversed(turns) if "reasons" in turn.meta), "").split()
    )


def is_overtaken(note: Note, request: str) -> bool:
    """Whether a note says no more than that `request` was refused, which has been done by now."""
    end = f'), nothing was changed: "{cut(request, _ASKED)}"'
    return note.source == PROGRAM and note.text.startswith("tried and refused (") and note.text.endswith(end)


def taken_back(request: str) -> Lesson:
    """What is noted of an edit that a person takes back, and forgotten when it is made again."""
    return Lesson(shortened(f'took back the edit "{cut(request, _ASKED)}"'), PERSON)
