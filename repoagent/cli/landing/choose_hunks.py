"""Choose what of a change is taken, hunk by hunk, as `git add -p` asks."""

from __future__ import annotations

from collections.abc import Sequence

from repoagent.cli.screen.terminal import Terminal
from repoagent.edit.landing.hunks import Piece, parse_hunks, pieces, select, split
from repoagent.repo.change import FileChange

QUESTIONS = {
    "hunk": "Apply this hunk",
    "mode": "Apply this mode change",
    "rename": "Apply this rename",
    "file": "Apply this file",
}


def choose_hunks(terminal: Terminal, changes: Sequence[FileChange]) -> tuple[FileChange, ...]:
    """Ask for each piece of `changes` and return what is left of them; empty when nothing was taken.

    Raises UsageError without a terminal, NothingDone when the input ends.
    """
    return tuple(select(changes, choose_pieces(terminal, changes)))


def choose_pieces(terminal: Terminal, changes: Sequence[FileChange]) -> list[Piece]:
    """The pieces that were taken; a hunk may have been split."""
    from repoagent.patch import canonical_diff

    diffs = [parse_hunks(canonical_diff([change])) for change in changes]
    asked = list(pieces(changes))
    answers: list[bool | None] = [None] * len(asked)
    place, shown, questions = 0, -1, 0
    while None in answers:
        piece = asked[place]
        header, hunks = diffs[piece.change]
        if piece.change != shown:
            terminal.diff(header, aside=True)
            shown = piece.change
        of_piece = hunks if piece.kind == "file" else [piece.hunk] if piece.hunk else []
        terminal.diff("".join(hunk.text for hunk in of_piece), aside=True)
        parts = split(piece)
        question = f"({place + 1}/{len(asked)}) {QUESTIONS[piece.kind]}"
        letters = _letters(answers, place, len(parts))
        answer = terminal.ask(question, letters, typed_ahead=questions > 0)
        questions += 1
        if answer == "q":
            break
        if answer == "s":
            terminal.note(f"split into {len(parts)} hunks")
            asked[place : place + 1] = parts
            answers[place : place + 1] = [None] * len(parts)
            continue
        if answer in {"y", "n"}:
            answers[place] = answer == "y"
        elif answer in {"a", "d"}:
            for later in range(place, len(asked)):
                if asked[later].change == piece.change and (later == place or answers[later] is None):
                    answers[later] = answer == "a"
        place = _next_open(answers, place, -1 if answer == "k" else 1)
    return [piece for piece, answer in zip(asked, answers, strict=True) if answer]


def _letters(answers: list[bool | None], place: int, parts: int) -> dict[str, str]:
    """What can be answered here: git's letters and, nearly, its words."""
    letters = {
        "y": "apply this",
        "n": "do not apply this",
        "q": "quit; apply neither this nor what is left",
        "a": "apply this and all later ones in the file",
        "d": "apply neither this nor later ones in the file",
    }
    if None in answers[:place] + answers[place + 1 :]:
        letters["j"] = "leave this undecided, see the next undecided one"
        letters["k"] = "leave this undecided, see the previous undecided one"
    if parts > 1:
        letters["s"] = f"split this hunk into {parts} smaller ones"
    return letters


def _next_open(answers: list[bool | None], place: int, step: int) -> int:
    """The next undecided place after `place` in this direction, around the end; else `place`."""
    for distance in range(1, len(answers)):
        candidate = (place + step * distance) % len(answers)
        if answers[candidate] is None:
            return candidate
    return place
