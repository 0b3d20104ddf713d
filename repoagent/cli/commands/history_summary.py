"""The summaries of `repoagent history`: the saved ones, the cost and confirmation of new ones, sharing in git notes."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.cli.ui.progress import about, agree, as_object, ready_for, report
from repoagent.dataclass import dataclass
from repoagent.errors import Busy, ModelError, UsageError
from repoagent.git.process import GitError
from repoagent.git.worktree import layout
from repoagent.history.commit_summaries import KnownSummaries, Outcome, find_known
from repoagent.history.file_history import with_summaries
from repoagent.history.summary_store import Summary, as_lines, merge_fetched, write_notes
from repoagent.llm.model import display_name

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.git.worktree import WorkTree
    from repoagent.history.commit_summaries import Plan
    from repoagent.history.file_history import HistoryReport

FEW = 5  # commits that need no confirmation


@dataclass
class Summarizing:
    """The summaries of one command. `share`: read and write git notes; `yes`: do not ask about the cost."""

    worktree: WorkTree
    settings: Settings
    terminal: Terminal
    share: bool = False
    yes: bool = False
    record: Path | None = None
    outcome: Outcome = field(default_factory=Outcome)
    _known: KnownSummaries = field(default_factory=lambda: KnownSummaries({}, {}, {}))

    def known(self, found: HistoryReport, *, thorough: bool) -> HistoryReport:
        """`found` with the summaries that are saved or in the notes."""
        if self.share:
            try:
                for ref in merge_fetched(self.worktree.top):
                    self.terminal.note(f"merged the notes of {ref}", "dim")
            except GitError as error:
                self.terminal.warn(f"could not merge the fetched notes: {error}")
        place = layout(self.worktree)
        self._known = find_known(
            self.worktree.top, place, found.steps,
            share=self.share, thorough=thorough, warn=self.terminal.warn,
        )  # fmt: skip
        return self.told(found)

    def ask(self, found: HistoryReport) -> tuple[HistoryReport, dict[str, object] | None]:
        """`found` with the missing summaries written by the model, and what that cost (None: none was missing).

        Raises UsageError if the cost cannot be confirmed, NothingDone if it is declined, and what the model and the
        limits raise.
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
                on_wait=lambda seconds, why: working.note(f"{why}; retrying in {seconds:.0f} s"),
            )  # fmt: skip
        self._report(todo, ready)
        return self.told(found), self._paid(ready)

    def told(self, found: HistoryReport) -> HistoryReport:
        """`found` with all summaries so far."""
        return with_summaries(found, as_lines(self._all(), found.steps))

    def shared(self) -> None:
        """With `share`, add the summaries to the notes. A failure is a warning: they are saved here too."""
        if not self.share:
            return
        try:
            count = write_notes(self.worktree.top, self._all().values())
        except (GitError, UsageError, Busy) as error:
            self.terminal.warn(f"could not share the summaries, which are saved here: {error}")
            return
        if count:
            self.terminal.note(
                f"updated {count} note{'s' * (count > 1)}; share them with: git push REMOTE refs/notes/repoagent",
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
        """Show the cost, and ask if there are many commits."""
        cost = todo.cost(ready.meter.price_of(ready.model.spec))
        sentence = f"{display_name(ready.model.spec)} would summarize {todo.commits} commits "
        sentence += about(len(todo.batches), todo.usage, cost)
        agree(self.terminal, sentence, few=self.yes or todo.commits <= FEW, less="use a lower --limit")

    def _report(self, todo: Plan, ready: ModelSetup) -> None:
        """Report the result. Raises ModelError if no summary is usable."""
        garbled = len(self.outcome.garbled)
        if garbled == todo.commits:
            raise ModelError(f"{display_name(ready.model.spec)} wrote no usable summary; try another --model")
        if garbled:
            self.terminal.warn(
                f"dropped the missing or unusable summaries of {garbled} commit{'s' * (garbled > 1)}"
            )
        report(self.terminal, ready)
