"""The edit's side of the conversation with a person: at a terminal it shows and asks, in a pipe it is silent.

Choose what of a change is taken, hunk by hunk, as `git add -p` asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from repoagent.cli.ui import echo
from repoagent.cli.ui.outcome import Told
from repoagent.cli.ui.progress import Words
from repoagent.cli.ui.sanitize import one_line
from repoagent.cli.ui.terminal import Terminal
from repoagent.dataclass import dataclass
from repoagent.edit.hunk_selection import Piece, parse_hunks, pieces, select, split
from repoagent.edit.ui import Decision, Proposal, summary, tolerated
from repoagent.errors import CheckFailed, NothingDone, Refused, RepoagentError
from repoagent.git.files import FileChange

if TYPE_CHECKING:
    from pathlib import Path

    from repoagent.agent.actions import Action, Observation
    from repoagent.agent.loop import LoopEvent
    from repoagent.cli.ui.progress import Working
    from repoagent.edit.guards.sensitive import Concern

CHOICES = {
    "y": "apply and commit it",
    "n": "do not; you are asked why, and the model tries again if you say",
    "e": "edit the diff first",
    "p": "choose hunk by hunk",
    "x": "have the model explain it",
    "q": "stop, nothing is changed",
}
ALONE = {letter: CHOICES["q" if letter == "n" else letter] for letter in "ynepq"}  # with no model to tell
APART = {"y": "make this change too", "n": "stop, nothing is changed"}
WIDER = {"y": "let this edit change it too", "n": "do not; the model is told so"}
EDIT_HEAD = (
    "# Change the diff as you like: only what it then says is applied. An empty file changes nothing.\n"
    "# Line numbers need not be right; these lines are left out.\n"
)
ENDS = {"finish", "reject"}
SILENT = ENDS | {"edit", "think"}
TOLD = {  # what goes back to the model and is not in its words
    "skipped": "",
    "correction": "the reply was malformed; asking for it again",
    "repeated": "the model repeats itself; asking for something else",
}
MOST_LINES = 12  # of a refusal, or of what a command printed, without --verbose
OWN_TRAILER = "\nRepoagent-Edit: "


@dataclass
class TerminalInterface:
    """A `Dialogue` over a terminal or a pipe. `yes` answers every question, `by_hunk` asks for each hunk.

    `commits` says that a yes makes a commit, so its message is a part of the question; `model` that there is one, which
    can be told why not. `said` holds what was told
    of the edit, `answered` whether the last reply was shown.
    """

    terminal: Terminal
    working: Working
    yes: bool = False
    by_hunk: bool = False
    commits: bool = True
    model: bool = True
    said: set[str] = field(default_factory=set)
    told: Told = field(default_factory=Told)
    answered: bool = False
    stopped: bool = False  # a ^C was said
    ending: str = ""  # what `finish` says, until it is not accepted
    _refused: list[Observation] = field(default_factory=list, repr=False)  # edits of the present reply
    _tail: str = field(default="", repr=False)  # of the last refusal that was not shown
    _declined: set[str] = field(default_factory=set, repr=False)  # the diffs that the user did not want
    _since: float = field(default_factory=echo.waited, repr=False)
    _words: Words = field(default_factory=Words, repr=False)
    _first: str = field(default="", repr=False)  # the diff as the model sent it
    _explains: bool = field(default=False, repr=False)
    _shown: tuple[str, str] = field(default=("", ""), repr=False)  # what the person has before their eyes

    @property
    def waited(self) -> float:
        return echo.waited() - self._since

    def text(self, piece: str) -> None:
        """A piece of the reply: its words; or, with --verbose, all of it."""
        echo.resume()
        if not self.terminal.tells:
            return
        self.answered = True
        if self.terminal.verbose:
            self.working.text(piece)
            return
        if self._explains:  # here a diff is a part of the answer
            self.working.words(piece)
            return
        hid = self._words.hides
        self.working.words(self._words.feed(piece))
        if self._words.hides and not hid:
            self.working.label("writing the change")

    def void(self, text: str) -> None:
        self.answered = False
        if self.terminal.tells:
            self._end_reply()
            self.working.note("(that reply broke off and does not count)")

    def event(self, event: LoopEvent) -> None:
        """Say what is done: actions as the model asks for them, refusals as they come; those of the edits of a reply
        together."""
        self.told.event(event)
        action, seen = event.action, event.observation
        if not (action and action.kind == "edit") and not (seen and seen.kind == "edit"):
            self._say_refused()
        if event.kind == "reply":
            self._end_reply()
        elif event.kind == "action" and event.action is not None:
            self._action(event.action)
        elif event.kind == "observation" and event.observation is not None:
            self.answered, self.ending = False, ""
            seen = event.observation
            if seen.ok:
                if self.terminal.verbose:
                    self._aside(_first_line(seen.text))
            elif seen.kind == "edit":
                self._refused.append(seen)
            else:
                self._fail(refusal(seen), seen)
        elif event.kind == "dropped":
            self._aside("the end of the reply imitated another speaker and was dropped")

    def _action(self, action: Action) -> None:
        """Say what is about to be done."""
        if action.kind in ENDS:
            self.ending = action.body.strip()
        self.answered = self.answered and action.kind in ENDS and not self.ending
        shown = (" ".join(action.args.values()) or action.body).strip()
        if action.kind == "message":
            self.working.note(action.body.strip() or shown, "dim")
        elif action.kind not in SILENT:
            self._aside(f"{action.kind} {shown[:120]}".strip())

    def note(self, sentence: str) -> None:
        self._say_refused()
        echo.resume()
        if self.terminal.tells or self.terminal.verbose:
            self.working.label(sentence)

    def say(self, sentence: str) -> None:
        self._say_refused()
        self.working.note(sentence)

    def running(self, command: str, output: Path) -> None:
        echo.resume()
        if self.terminal.tells or self.terminal.verbose:
            self.working.label(f"running {first_line(command)}", output)

    def quiet(self) -> None:
        """Leave the terminal to git, a hook or a paste."""
        self._say_refused()
        self.working.quiet()
        echo.lend()

    def interrupted(self, sentence: str) -> None:
        self.working.interrupted()
        self.say(sentence)
        self.stopped = True

    def output(self, data: bytes) -> None:
        """What hooks print, as they do in `git commit`; in a pipe only if they say no, which is an error then."""
        if self.terminal.tells or self.terminal.verbose:
            self.working.text(data.decode("utf-8", "replace"))

    def decide(self, proposal: Proposal) -> Decision:
        """Show the diff and ask. Without a person the answer is yes: who calls has seen to `--yes` before."""
        self._say_refused()
        self.working.quiet()
        self._first = self._first or proposal.diff
        if self.terminal.tells and proposal.diff in self._declined:
            self.terminal.note("same diff as before")
        elif self.terminal.tells and self._shown != (proposal.diff, proposal.message):
            self._shown = (proposal.diff, proposal.message)
            self.terminal.note("")
            if not self.by_hunk:
                self.terminal.diff(proposal.diff, aside=True)
            self._message(proposal)
            self._remarks(proposal)
        if self.by_hunk:
            return self._by_hunk(proposal)
        if self.yes:
            return Decision("yes")
        while True:
            choices = CHOICES if self.model else ALONE
            if not self.commits:
                choices = {**choices, "y": "apply it"}
            answer = self.terminal.ask("Apply this change", choices)
            decision = self._decision(answer, proposal)
            if decision is not None:
                return decision

    def agrees(self, concerns: Sequence[Concern]) -> bool | None:
        """Ask about these files alone; `--yes` was said to the change that was asked for, not to them."""
        if self.yes or not self.terminal.can_ask:
            return None
        names = ", ".join(dict.fromkeys(concern.path for concern in concerns if not concern.deletes))
        many = next(
            (f"the deletion of {concern.deletes} files" for concern in concerns if concern.deletes), ""
        )
        what = " and ".join(filter(None, [names and f"a change of {names}", many]))
        answer = self.terminal.ask(f"You did not ask for {what}. Apply it anyway", APART)
        return answer == "y"

    def permits(self, paths: Sequence[str]) -> bool | None:
        """Ask about files that the edit may not change as it was asked for."""
        if self.yes or not self.terminal.can_ask:
            return None
        self.working.quiet()
        has = "has" if len(paths) == 1 else "have"
        return self.terminal.ask(f"{', '.join(paths)} {has} to change too: allow it", WIDER) == "y"

    def explained(self, text: str) -> None:
        """The words were shown as they came; why there are none is still to be said."""
        if self.answered:
            self._end_reply()
        else:
            self.working.note(text)
        self.answered = self._explains = False
        self.terminal.note("")

    def last_words(self, error: BaseException) -> None:
        """The model's last words, and why it was asked again last, where an error ended the run: on a terminal they
        were shown as they came."""
        self._say_refused()
        self.told.add_to(error)
        if isinstance(error, CheckFailed):
            error.shown = self.terminal.tells and error.printed.strip() in self._tail
        elif not self.terminal.tells and self._tail and not isinstance(error, Refused):  # which says it
            self.working.note(self._tail)
        if self.told.words and not self.terminal.tells and self.told.words not in str(error):
            self.working.note(self.told.words)

    def _end_reply(self) -> None:
        if self.terminal.tells:
            self.working.words(self._words.rest())
            self.working.quiet()

    def _decision(self, answer: str, proposal: Proposal) -> Decision | None:
        """What an answer means; None when the question is to be asked again."""
        if answer == "y":
            return Decision("yes", by_person=True)
        if answer == "q" or (answer == "n" and not self.model):
            return Decision("no")
        if answer == "x":
            self._explains = True
            return Decision("explain")
        if answer == "p":
            return self._by_hunk(proposal)
        if answer == "e":
            return self._edited(proposal)
        self._declined |= {proposal.diff, self._first}
        self._first = ""
        return Decision("no", reason=self.terminal.ask_line("Why not, for the model (empty: stop)"))

    def _by_hunk(self, proposal: Proposal) -> Decision:
        chosen = choose_hunks(self.terminal, proposal.changes)
        return Decision("yes", changes=tuple(chosen), by_person=True)

    def _edited(self, proposal: Proposal) -> Decision | None:
        text = self.terminal.edit_text(EDIT_HEAD + proposal.diff, ".diff")
        if text is None:
            self.terminal.note("the editor failed or left nothing; the diff is as before")
            return None
        try:
            changes = edited_changes(proposal.changes, text)
        except RepoagentError as error:
            self.terminal.note(f"that diff does not fit: {error.sentence}")
            return None
        if changes == proposal.changes:
            self.terminal.note("same diff as before")
            return None
        return Decision("revise", changes=changes)

    def _message(self, proposal: Proposal) -> None:
        """The commit message; of its last paragraph, which is the program's own, nothing."""
        if not self.commits:
            return
        words, _, trailers = proposal.message.strip().rpartition("\n\n")
        shown = words if OWN_TRAILER in f"\n{trailers}" else proposal.message.strip()
        self.terminal.note("")
        for line in shown.split("\n"):
            self.terminal.note(f"    {line}".rstrip())
        self.terminal.note("")

    def _remarks(self, proposal: Proposal) -> None:
        grave = {concern.sentence for concern in proposal.concerns}
        for remark in proposal.remarks:
            self.said.add(remark)
            if remark in grave:
                self.terminal.warn(remark)
            else:
                self.terminal.note(f"note: {remark}")
        if loose := tolerated(proposal.placements):
            self.terminal.note(f"placed with tolerance: {summary(loose)}")

    def _say_refused(self) -> None:
        """Why edits of the reply were refused, once, with how many hunks it is about."""
        edits, self._refused = self._refused, []
        said = [text for edit in edits if (text := refusal(edit))]
        if not said:
            return
        hunks = sum(int(str(edit.data.get("hunks", 1))) for edit in edits)
        head = "edit refused:" if hunks == 1 else f"edit refused, {hunks} hunks:"
        self._fail("\n".join([f"{head} {said[0]}"] if hunks == 1 else [head, *said]), *edits, keep="first")

    def _fail(self, text: str, *seen: Observation, keep: Literal["first", "last"] = "last") -> None:
        """What failed and why: of what follows its first line a part; with --verbose all that the model is told."""
        self._tail = text
        head, *lines = text.split("\n")
        left = len(lines) - MOST_LINES
        if self.terminal.verbose:
            from repoagent.llm.model import unfenced

            head, *lines = "\n".join(unfenced(one.text).strip() for one in seen).split("\n")
        elif left > 0:
            gap = f"… {left} more line{'s' * (left > 1)} (-v shows all)"
            lines = [gap, *lines[left:]] if keep == "last" else [*lines[:MOST_LINES], gap]
        shown = "\n".join([head, *(f"  {line}".rstrip() for line in lines)]).removeprefix("\n")
        if shown.strip():
            self._aside(shown)

    def _aside(self, text: str) -> None:
        if self.terminal.tells or self.terminal.verbose:
            self.working.note(text, "dim")


def edited_changes(changes: tuple[FileChange, ...], diff: str) -> tuple[FileChange, ...]:
    """What a person's version of the diff does to the files as they were. Raises PatchRefused."""
    from repoagent.git.files import REGULAR
    from repoagent.patch.apply_file import apply_answer
    from repoagent.patch.model import SourceText

    body = "".join(line for line in diff.splitlines(keepends=True) if not line.startswith("#"))
    if not body.strip():
        raise NothingDone("the diff is empty")
    texts = {
        change.old_path: SourceText(change.before, change.old_mode or REGULAR)
        for change in changes
        if change.old_path is not None and change.before is not None
    }
    new = {change.path for change in changes if change.path not in texts}
    return apply_answer(body, texts, may_create=lambda path: path in new).changes


def refusal(seen: Observation) -> str:
    """What the user sees of a failure; "" for nothing."""
    if seen.shown is not None:
        return seen.shown.rstrip()
    return TOLD.get(seen.kind, _first_line(seen.text).rstrip(":"))


def first_line(command: str) -> str:
    """The first line of a command, and whether there are more."""
    first, _, more = command.strip().partition("\n")
    return one_line(first) + (" …" if more else "")


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:200]


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
    from repoagent.patch.render import canonical_diff

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
