"""What an edit records: the commit message with its trailers, and the memory of each file."""

from __future__ import annotations

from collections.abc import Sequence

from repoagent.agent.loop import account
from repoagent.agent.state import State, open_state
from repoagent.dataclass import dataclass
from repoagent.edit.commit import CommitOutcome, compose, trailers_of, with_trailers
from repoagent.edit.memory import Story, remember
from repoagent.edit.model_setup import ModelSetup
from repoagent.edit.pending import Pending, to_remember
from repoagent.edit.prompt.build import Prepared
from repoagent.edit.sent_requests import forget_sent
from repoagent.edit.ui import UserInterface
from repoagent.edit.unfinished import conversation_file, forget, set_aside
from repoagent.errors import RepoagentError
from repoagent.git.files import FileChange
from repoagent.git.process import uninterrupted
from repoagent.git.worktree import layout
from repoagent.llm.conversation import Turn
from repoagent.llm.model import public
from repoagent.llm.provider import provider_of
from repoagent.storage.secrets import mask, without_secrets


def model_of_record(spec: str, turns: Sequence[Turn]) -> str:
    """The model to record: for a replay the recorded one, for a command the one that it reports."""
    if provider_of(spec).reports_model:
        spec = next((turn.meta.get("model", spec) for turn in turns[::-1] if turn.role == "assistant"), spec)
    return public(spec)


@dataclass(frozen=True)
class EditLog:
    """Writes the record of an edit when it ends."""

    prepared: Prepared
    model_setup: ModelSetup
    ui: UserInterface
    pending: Pending

    @property
    def edit_id(self) -> str:
        return self.pending.name

    def message(self, state: State, changes: Sequence[FileChange]) -> str:
        """The whole commit message with its trailers."""
        tool_context = self.prepared.tool_context
        words, _ = account(self.prepared.tools, state)
        trailer = self.model_setup.settings.text("commit.trailer")
        text = compose(words, tool_context.request.instruction, trailer)
        worktree = tool_context.worktree
        trailers = trailers_of(worktree, self.model_setup.settings, self.who(state), self.edit_id, changes)
        return with_trailers(text, trailers, worktree.top)

    def who(self, state: State) -> str:
        return model_of_record(self.model_setup.model.spec, state.turns)

    def save_pending(self, state: State) -> None:
        """Save what has to be recorded once the change is made: a kill after that must not lose it."""
        tool_context = self.prepared.tool_context
        if self.model_setup.settings.switch("memory.enabled"):
            story = self._story(state, None, "answered", "")
            self.pending.keep(
                self.prepared.memories, to_remember(story, tool_context.draft.edits, tool_context.placements)
            )

    def remember(self, landed: CommitOutcome | None, ended: str, answer: str) -> None:
        """Record how the edit ended in the memory of each file, and its conversation with it.

        The edit is done: neither ^C nor a memory that cannot be written makes it look undone.
        """
        dirs = layout(self.prepared.tool_context.worktree)
        with uninterrupted():
            try:
                self._remember(landed, ended, answer)
            except (RepoagentError, OSError) as error:
                if landed is not None and self.pending.descriptor is not None:
                    forget(dirs, self.edit_id)
                    what = "the next command will retry"
                else:
                    what = f"its conversation is saved in {set_aside(dirs, self.edit_id)}"
                self.ui.say(f"warning: could not record this edit in memory ({error}); {what}")
                return
            if landed is not None:
                self.pending.drop()
            try:
                forget(dirs, self.edit_id)
                forget_sent(dirs, self.model_setup.settings.whole("sent.keep_days"))
                days = self.model_setup.settings.whole_or_none("conversations.keep_days")
                if days is not None:
                    from repoagent.memory.archive.gc import forget_daily

                    forget_daily(dirs, days)
            except (RepoagentError, OSError) as error:
                self.ui.say(f"warning: could not remove old files ({error})")

    def _remember(self, landed: CommitOutcome | None, ended: str, answer: str) -> None:
        tool_context = self.prepared.tool_context
        state = open_state(conversation_file(layout(tool_context.worktree), self.edit_id))
        story = self._story(state, landed, ended, answer)
        if self.model_setup.settings.switch("memory.enabled"):
            remember(
                tool_context.worktree, story, tool_context.draft.sources, self.prepared.memories,
                tool_context.request.paths,
                limit=self.model_setup.settings.whole("memory.limit"),
            )  # fmt: skip

    def _story(self, state: State, landed: CommitOutcome | None, ended: str, answer: str) -> Story:
        _, notes = account(self.prepared.tools, state)
        return Story(
            edit_id=self.edit_id,
            request=self.prepared.tool_context.request.instruction,
            turns=state.turns,
            notes=notes,
            ended=ended,
            answer=mask(without_secrets(answer)),
            landed=landed,
            model=self.who(state),
            usage=self.model_setup.meter.usage,
            cost=self.model_setup.meter.cost,
        )
