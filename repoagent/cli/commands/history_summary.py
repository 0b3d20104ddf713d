"""The part of `repoagent history` that has summaries written: what is known, what it would cost, the question."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.cli.ui.progress import about, agree, as_object, ready_for, report
from repoagent.dataclass import dataclass
from repoagent.errors import Busy, ModelError, UsageError
from repoagent.git.process import GitError
from repoagent.git.worktree import layout
from repoagent.history.commit_summaries import Known, Outcome, find_known
from repoagent.history.file_history import with_summaries
from repoagent.history.summary_store import Summary, as_lines, merge_fetched, write_notes
from repoagent.llm.model import display_name

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.git.worktree import WorkTree
    from repoagent.history.commit_summaries import Plan
    from repoagent.history.file_history import Past

FEW = 5  # commits that are asked about without a question


@dataclass
class Summarizing:
    """The summaries of one run. `share`: git notes are read and written; `yes`: nobody is asked what it may cost."""

    worktree: WorkTree
    settings: Settings
    terminal: Terminal
    share: bool = False
    yes: bool = False
    record: Path | None = None
    outcome: Outcome = field(default_factory=Outcome)
    _known: Known = field(default_factory=lambda: Known({}, {}, {}))

    def known(self, found: Past, *, thorough: bool) -> Past:
        """`found` with the lines that are kept, or that the notes have."""
        if self.share:
            try:
                for ref in merge_fetched(self.worktree.top):
                    self.terminal.note(f"took over the notes of {ref}", "dim")
            except GitError as error:
                self.terminal.warn(f"the notes that were fetched could not be merged: {error}")
        place = layout(self.worktree)
        self._known = find_known(
            self.worktree.top, place, found.steps,
            share=self.share, thorough=thorough, warn=self.terminal.warn,
        )  # fmt: skip
        return self.told(found)

    def ask(self, found: Past) -> tuple[Past, dict[str, object] | None]:
        """Have the model write the lines that are missing: `found` with them, and what was paid (None: nobody was
        asked, nothing was missing).

        Raises UsageError where nobody can say yes to the cost, NothingDone where somebody says no, and what the
        model and the limits raise.
        """
        from repoagent.edit.guards.scope import gate
        from repoagent.history.commit_summaries import plan, summarize

        if all(step.commit.commit in self._known.summaries for step in found.steps):
            return found, None
        waiting = self.terminal.working("asking the model")
        ready = ready_for(self.settings, self.terminal, waiting, record=self.record)
        top = self.worktree.top
        todo = plan(
            top, found.steps, self._known,
            why_not=gate(top, [found.path]), context_tokens=ready.context_tokens,
            output_tokens=ready.max_output_tokens,
        )  # fmt: skip
        self._agree(todo, ready)
        if ready.meter.book is not None:
            ready.meter.book = ready.meter.book.about("history", str(top), (found.path,))
        with waiting as working:
            summarize(
                todo, ready.model, ready.meter, layout(self.worktree),
                outcome=self.outcome,
                on_batch=lambda done, of: working.label(f"summarizing: {done} of {of} commits"),
                on_wait=lambda seconds, why: working.note(f"{why}; trying again in {seconds:.0f} s"),
            )  # fmt: skip
        self._report(todo, ready)
        return self.told(found), self._paid(ready)

    def told(self, found: Past) -> Past:
        """`found` with all lines that there are by now."""
        return with_summaries(found, as_lines(self._all(), found.steps))

    def shared(self) -> None:
        """Add what is known to the notes, where that is wanted. What is kept here is not lost when that fails."""
        if not self.share:
            return
        try:
            count = write_notes(self.worktree.top, self._all().values())
        except (GitError, UsageError, Busy) as error:
            self.terminal.warn(f"the summaries are kept here and not shared: {error}")
            return
        if count:
            self.terminal.note(
                f"added to {count} note{'s' * (count > 1)}; to share: git push REMOTE refs/notes/repoagent",
                "dim",
            )

    def _paid(self, ready: ModelSetup) -> dict[str, object]:
        return {
            "model": display_name(ready.model.spec),
            "summarized": len(self.outcome.summaries),
            "garbled": len(self.outcome.garbled),
            **as_object(ready),
        }

    def _all(self) -> dict[str, Summary]:
        return {**self._known.summaries, **self.outcome.summaries}

    def _agree(self, todo: Plan, ready: ModelSetup) -> None:
        """Say what it will cost; ask, where that is worth a question."""
        cost = todo.cost(ready.meter.price_of(ready.model.spec))
        sentence = f"{display_name(ready.model.spec)} would summarize {todo.commits} commits "
        sentence += about(len(todo.batches), todo.usage, cost)
        agree(self.terminal, sentence, few=self.yes or todo.commits <= FEW, less="a lower --limit")

    def _report(self, todo: Plan, ready: ModelSetup) -> None:
        """What came of it. Raises ModelError where no line could be used."""
        garbled = len(self.outcome.garbled)
        if garbled == todo.commits:
            raise ModelError(f"{display_name(ready.model.spec)} gave no usable line; try another --model")
        if garbled:
            self.terminal.warn(
                f"of {garbled} commit{'s' * (garbled > 1)} the lines were missing or garbled: nothing is kept of them"
            )
        report(self.terminal, ready)
