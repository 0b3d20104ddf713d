"""`TerminalInterface`: show the progress of an edit and ask about the change; in a pipe it is silent. `choose_hunks`
asks hunk by hunk, as `git add -p` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from repoagent.cli.ui.outcome import ModelOutput
from repoagent.cli.ui.progress import ProgressDisplay, ProseFilter
from repoagent.cli.ui.terminal import Terminal, seconds_waited
from repoagent.dataclass import dataclass
from repoagent.display_text import one_line, plural
from repoagent.edit.ui import Decision, Proposal, placements_text, tolerated
from repoagent.errors import CheckFailed, Refused, RepoagentError
from repoagent.git.files import FileChange

if TYPE_CHECKING:
    from pathlib import Path

    from repoagent.agent.actions import Observation
    from repoagent.agent.loop import LoopEvent
    from repoagent.edit.guards.risky_changes import Concern

CHOICES = {
    "y": "apply and commit it",
    "n": "do not apply it; give a reason, and the model tries again",
    "e": "edit the diff first",
    "p": "choose hunk by hunk",
    "q": "quit; change nothing",
}
EDIT_HEAD = (
    "# Edit the diff: it is applied as you save it. An empty file changes nothing.\n"
    "# Line numbers need not be correct; lines that start with # are ignored.\n"
)
NOTICES = {  # by the kind of the observation
    "skipped": "",
    "correction": "the reply was malformed; asking for it again",
    "repeated": "the model is repeating itself; asking for another answer",
}
MAX_LINES = 12  # of a refusal, or of the output of a command, without --verbose


@dataclass
class TerminalInterface:
    """The `UserInterface` of a terminal or a pipe.

    yes: apply the change without asking.
    by_hunk: ask about each hunk.
    commits: whether a "yes" makes a commit, so that the question shows its message.
    model: whether there is a model, which is told the reason for a "no".
    shown_remarks: the remarks that were shown.
    answered: whether the model's last reply was shown.
    stopped: whether ^C was reported.
    ending: the text in the model's <finish> tag.
    """

    terminal: Terminal
    working: ProgressDisplay
    yes: bool = False
    by_hunk: bool = False
    commits: bool = True
    model: bool = True
    shown_remarks: set[str] = field(default_factory=set)
    model_output: ModelOutput = field(default_factory=ModelOutput)
    answered: bool = False
    stopped: bool = False
    ending: str = ""
    _refused: list[Observation] = field(default_factory=list, repr=False)  # refused edits of this reply
    _tail: str = field(default="", repr=False)  # the last failure, for the error that ends the run
    _since: float = field(default_factory=seconds_waited, repr=False)
    _words: ProseFilter = field(default_factory=ProseFilter, repr=False)

    @property
    def waited(self) -> float:
        return seconds_waited() - self._since

    @property
    def _talks(self) -> bool:
        return self.terminal.error_tty or self.terminal.verbose

    def text(self, piece: str) -> None:
        """Show the prose in a piece of the reply; with --verbose, show the whole piece."""
        if not self.terminal.error_tty:
            return
        self.answered = True
        if self.terminal.verbose:
            self.working.text(piece)
        else:
            hidden_before = self._words.hides
            self.working.words(self._words.feed(piece))
            if self._words.hides and not hidden_before:
                self.working.label("writing the change")

    def void(self, text: str) -> None:
        self.answered = False
        if self.terminal.error_tty:
            self._end_reply()
            self.working.note("(the reply was cut off and discarded)")

    def event(self, event: LoopEvent) -> None:
        self.model_output.event(event)
        action, observation = event.action, event.observation
        if not (action and action.kind == "edit") and not (observation and observation.kind == "edit"):
            self._show_refused()
        if event.kind == "reply":
            self._end_reply()
        elif event.kind == "action" and action is not None:
            ends = action.kind in {"finish", "reject"}
            self.ending = action.body.strip() if ends else self.ending
            self.answered = self.answered and ends and not self.ending
            shown = (" ".join(action.args.values()) or action.body).strip()
            if action.kind == "message":
                self.working.note(action.body.strip() or shown, "dim")
            elif not ends and action.kind not in {"edit", "think"}:
                self._dim_note(f"{action.kind} {shown[:120]}".strip())
        elif event.kind == "observation" and observation is not None:
            self.answered, self.ending = False, ""
            if observation.ok:
                if self.terminal.verbose:
                    self._dim_note(_first_line(observation.text))
            elif observation.kind == "edit":
                self._refused.append(observation)
            else:
                self._fail(_refusal(observation), [observation], from_end=True)
        elif event.kind == "dropped":
            self._dim_note("discarded the end of the reply, where the model spoke for the user or a tool")

    def note(self, sentence: str) -> None:
        self._show_refused()
        if self._talks:
            self.working.label(sentence)

    def say(self, sentence: str) -> None:
        self._show_refused()
        self.working.note(sentence)

    def running(self, command: str, output: Path) -> None:
        if self._talks:
            self.working.label(f"running {first_line(command)}", output)

    def quiet(self) -> None:
        self._show_refused()
        self.working.quiet()

    def interrupted(self, sentence: str) -> None:
        self.working.interrupted()
        self.say(sentence)
        self.stopped = True

    def output(self, data: bytes) -> None:
        """Show the output of hooks, as `git commit` does. In a pipe it is not shown; the error of a failed hook
        includes it."""
        if self._talks:
            self.working.text(data.decode("utf-8", "replace"))

    def decide(self, proposal: Proposal) -> Decision:
        """Show the diff and ask. With --yes, which is required in a pipe, the answer is yes."""
        self._show_refused()
        self.working.quiet()
        if self.terminal.error_tty:
            self._show(proposal)
        choices = dict(CHOICES)
        if not self.model:
            choices["n"] = CHOICES["q"]
        if not self.commits:
            choices["y"] = "apply it"
        answer = "p" if self.by_hunk else "y" if self.yes else self.terminal.ask("Apply this change", choices)
        if answer == "e":
            changes = self._edited(proposal)
            return Decision("revise", changes=changes) if changes else self.decide(proposal)
        if answer == "y":
            return Decision("yes", by_person=not self.yes)
        if answer == "p":
            return Decision("yes", changes=choose_hunks(self.terminal, proposal.changes), by_person=True)
        if answer == "q" or not self.model:
            return Decision("no")
        return Decision("no", reason=self.terminal.ask_line("Tell the model why (leave empty to stop)"))

    def agrees(self, concerns: Sequence[Concern]) -> bool | None:
        """Ask about sensitive files; --yes does not cover them."""
        names = ", ".join(dict.fromkeys(concern.path for concern in concerns if not concern.deletes))
        parts = [f"a change to {names}"] if names else []
        parts += [f"the deletion of {concern.deletes} files" for concern in concerns if concern.deletes][:1]
        question = f"You did not ask for {' and '.join(parts)}. Apply it anyway"
        return self._permission(question, "make this change, too", "stop; change nothing")

    def permits(self, paths: Sequence[str]) -> bool | None:
        """Ask about files outside the scope of the edit."""
        question = f"{', '.join(paths)} {'has' if len(paths) == 1 else 'have'} to change, too. Allow it"
        return self._permission(question, "allow it for this edit", "do not allow it")

    def _permission(self, question: str, yes: str, no: str) -> bool | None:
        if self.yes or not self.terminal.can_ask:
            return None
        self.working.quiet()
        return self.terminal.ask(question, {"y": yes, "n": no}) == "y"

    def last_words(self, error: BaseException) -> None:
        """In a pipe, print the last reply and the last failure before the error that ended the run."""
        self._show_refused()
        self.model_output.add_to(error)
        if isinstance(error, CheckFailed):
            error.shown = self.terminal.error_tty and error.printed.strip() in self._tail
        elif self._tail and not (self.terminal.error_tty or isinstance(error, Refused)):
            self.working.note(self._tail)  # the message of Refused contains it
        words = self.model_output.words
        if words and not self.terminal.error_tty and words not in str(error):
            self.working.note(words)

    def _end_reply(self) -> None:
        if self.terminal.error_tty:
            self.working.words(self._words.rest())
            self.working.quiet()

    def _edited(self, proposal: Proposal) -> tuple[FileChange, ...] | None:
        """The changes of the diff that the user edits; None to ask again."""
        from repoagent.patch.apply_answer import apply_answer

        text = self.terminal.edit_text(EDIT_HEAD + proposal.diff, ".diff")
        if text is None:
            self.terminal.note("the editor failed or left the diff empty; keeping the diff as it was")
            return None
        body = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
        if not body.strip():
            self.terminal.note("that diff does not apply: the diff is empty")
            return None
        texts = {change.old_path: change.old for change in proposal.changes if change.old_path and change.old}
        new = {change.path for change in proposal.changes if change.path not in texts}
        try:
            changes = apply_answer(body, texts, may_create=lambda path: path in new).changes
        except RepoagentError as error:
            self.terminal.note(f"that diff does not apply: {error.sentence}")
            return None
        if changes == proposal.changes:
            self.terminal.note("same diff as before")
            return None
        return changes

    def _show(self, proposal: Proposal) -> None:
        """Show the diff, the commit message without trailers of repoagent, and remarks."""
        note = self.terminal.note
        note("")
        if not self.by_hunk:
            self.terminal.diff(proposal.diff, aside=True)
        if self.commits:
            message = proposal.message.strip()
            words, _, trailers = message.rpartition("\n\n")
            shown = words if "\nRepoagent-Edit: " in f"\n{trailers}" else message
            for line in ["", *(f"    {line}".rstrip() for line in shown.split("\n")), ""]:
                note(line)
        warnings = {concern.sentence for concern in proposal.concerns}
        self.shown_remarks.update(proposal.remarks)
        for remark in proposal.remarks:
            if remark in warnings:
                self.terminal.warn(remark)
            else:
                note(f"note: {remark}")
        if loose := tolerated(proposal.placements):
            note(f"inexact match: {placements_text(loose)}")

    def _show_refused(self) -> None:
        """Show why edits of the reply were refused, and the number of hunks."""
        edits, self._refused = self._refused, []
        reasons = [text for edit in edits if (text := _refusal(edit))]
        if reasons:
            hunks = sum(int(str(edit.data.get("hunks", 1))) for edit in edits)
            head = "edit refused: " if hunks == 1 else f"edit refused, {hunks} hunks:\n"
            self._fail(head + (reasons[0] if hunks == 1 else "\n".join(reasons)), edits)

    def _fail(self, text: str, observations: Sequence[Observation], *, from_end: bool = False) -> None:
        """Show a failure: its first line and some others, the last ones if `from_end`; all that the model gets with
        --verbose."""
        self._tail = text
        head, *lines = text.split("\n")
        hidden = len(lines) - MAX_LINES
        if self.terminal.verbose:
            from repoagent.llm.model import unfence

            head, *lines = "\n".join(unfence(each.text).strip() for each in observations).split("\n")
        elif hidden > 0:
            gap = f"… {plural(hidden, 'more line')} (-v shows all)"
            lines = [gap, *lines[hidden:]] if from_end else [*lines[:MAX_LINES], gap]
        shown = "\n".join([head, *(f"  {line}".rstrip() for line in lines)]).removeprefix("\n")
        if shown.strip():
            self._dim_note(shown)

    def _dim_note(self, text: str) -> None:
        if self._talks:
            self.working.note(text, "dim")


def _refusal(observation: Observation) -> str:
    """The text of a failure for the user, "" to show nothing."""
    if observation.shown is not None:
        return observation.shown.rstrip()
    return NOTICES.get(observation.kind, _first_line(observation.text).rstrip(":"))


def first_line(command: str) -> str:
    """The first line of a command, followed by … if it has more lines."""
    first, _, more = command.strip().partition("\n")
    return one_line(first) + (" …" if more else "")


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:200]


QUESTIONS = {
    "hunk": "Apply this hunk",
    "mode": "Apply this mode change",
    "rename": "Apply this rename",
    "file": "Apply the change to this file",
}
HUNK_CHOICES = {  # git's letters
    "y": "apply this",
    "n": "do not apply this",
    "q": "quit; apply neither this nor the remaining ones",
    "a": "apply this and all later ones in the file",
    "d": "apply neither this nor later ones in the file",
}


def choose_hunks(terminal: Terminal, changes: Sequence[FileChange]) -> tuple[FileChange, ...]:
    """Ask about each part of `changes`, and return the parts that the user chose. The user can split a hunk into
    smaller parts.

    Raises UsageError without a terminal, NothingDone if the input ends.
    """
    from repoagent.edit.review_and_commit import select_pieces, split_changes, split_piece
    from repoagent.patch.render import header_of, hunks_of

    queue = list(split_changes(changes))
    answers: list[bool | None] = [None] * len(queue)
    at, shown, has_asked = 0, -1, False
    while None in answers:
        piece = queue[at]
        change = changes[piece.change]
        if piece.change != shown:
            terminal.diff(header_of(change), aside=True)
            shown = piece.change
        hunks = hunks_of(change) if piece.kind == "file" else [piece.hunk] if piece.hunk else []
        terminal.diff("".join(hunk.text for hunk in hunks), aside=True)
        parts = split_piece(piece)
        more = {"s": f"split this hunk into {len(parts)} smaller ones"} if len(parts) > 1 else {}
        question = f"({at + 1}/{len(queue)}) {QUESTIONS[piece.kind]}"
        answer = terminal.ask(question, HUNK_CHOICES | more, typed_ahead=has_asked)
        has_asked = True
        if answer == "q":
            break
        if answer == "s":
            terminal.note(f"split into {len(parts)} hunks")
            queue[at : at + 1] = parts
            answers[at : at + 1] = [None] * len(parts)
            continue
        answers[at] = answer in {"y", "a"}
        if answer in {"a", "d"}:
            for later in range(at + 1, len(queue)):
                if queue[later].change == piece.change and answers[later] is None:
                    answers[later] = answer == "a"
        at = next((index for index, answer in enumerate(answers) if answer is None), at)
    return tuple(
        select_pieces(changes, [piece for piece, answer in zip(queue, answers, strict=True) if answer])
    )
