"""The state of a chat (`Chat`), its turns and its status line. `serve_json` runs a chat for another program."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

from repoagent.agent.approvals.policy import MODES, Mode
from repoagent.agent.state import is_extra, open_state
from repoagent.cli.commands import run_options, run_output
from repoagent.cli.commands.run_ui import RunTerminal
from repoagent.cli.ui.progress import ProgressDisplay, ProseFilter
from repoagent.cli.ui.table import cut_end
from repoagent.dataclass import dataclass
from repoagent.display_text import display_width, one_line, plural, sanitize
from repoagent.errors import Busy, Exit, NothingDone, Refused, RepoagentError, UsageError
from repoagent.git.worktree import WorkTree, current_branch, layout_of
from repoagent.llm.model import display_name
from repoagent.llm.usage import Limits, Meter, dollars
from repoagent.tasks.restore import uncommitted_files
from repoagent.tasks.run_context import RunInterface, RunOutcome, RunRequest
from repoagent.tasks.runs.control import RunStopped
from repoagent.tasks.runs.directory import RunDirectory, new_name
from repoagent.tasks.session import run_task
from repoagent.tasks.worktree import close_linked, resumed_worktree

if TYPE_CHECKING:
    from repoagent.cli.session import Repository
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.llm.conversation import Turn
    from repoagent.storage.layout import Layout
    from repoagent.tasks.runs.list import Run

SHOWN = 8  # files


class ChatProgress(ProgressDisplay):
    """A `ProgressDisplay` that does not dim the model's words."""

    styles = ()


@dataclass
class Chat:
    """The state of a chat.

    model_setup: the current model and the meter of the session.
    limits: the limits of one turn.
    edits: the ids of this chat's edits.
    aside: what the user did since the last message; it goes to the model with the next message.
    always: the patterns of "always" answers.
    lives: whether the run folder was created, so that it must still exist at the next turn.
    """

    options: SimpleNamespace
    worktree: WorkTree
    layout: Layout
    settings: Settings
    terminal: Terminal
    model_setup: ModelSetup
    name: str
    mode: Mode
    limits: Limits
    edits: dict[str, None] = field(default_factory=dict)
    aside: list[str] = field(default_factory=list)
    always: list[str] = field(default_factory=list)
    lives: bool = False

    @property
    def run_dir(self) -> RunDirectory:
        return RunDirectory(self.layout, self.name)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns of the conversation, read from its file."""
        return open_state(self.run_dir.conversation).turns

    @property
    def has_user(self) -> bool:
        return self.terminal.can_ask

    def meter(self) -> Meter:
        """The meter for one turn, which enforces the limits of the turn and of the session."""
        return self.model_setup.meter.part(self.limits)

    def request(self, prompt: str = "") -> RunRequest:
        """The request for one turn, which is a run of its own."""
        options = self.options
        return RunRequest(
            prompt.strip(),
            self.name,
            kind="chat",
            mode=self.mode,
            commit=run_options.commit_options(options),
            commit_per_edit=options.commit_per_edit,
            check=options.check,
            always=self.always,
            allow_sensitive=options.allow_sensitive,
            agent=options.agent,
            branch=(current_branch(self.worktree) or "") if self.worktree.is_linked else "",
            options=run_options.explicit_options(options),
        )

    def turn(self, words: str) -> None:
        """Send `words` to the model, and print the outcome. "" resumes a stopped turn. Raises what `perform` raises."""
        terminal = self.terminal
        with ChatProgress(terminal, "reading the repository") as working:
            ui = RunTerminal.of(terminal, working, self.mode)
            outcome = self.perform(words, ui, self.meter())
        if self.options.as_json:
            terminal.result(json.dumps(run_output.as_object(outcome)) + "\n")
            return
        if outcome.text.strip() and not (ui.answered and terminal.output_tty):
            terminal.reply(outcome.text.strip() + "\n")
        run_output.show_commits(self.worktree, outcome, terminal)
        self.show_uncommitted(outcome.left)
        if terminal.error_tty:
            terminal.note(f"{run_output.spent(outcome)}\n", "dim")

    def perform(self, words: str, ui: RunInterface, meter: Meter) -> RunOutcome:
        """Run one turn. Raises what `tasks.session.run_task` raises; everything up to then is saved.

        Raises Refused if the conversation was deleted; the next message then starts a new one.
        """
        from repoagent.cli.app import settle_interrupted_edits

        settle_interrupted_edits(self.worktree, self.terminal)
        if self.lives and not self.run_dir.folder.is_dir() and not self.run_dir.conversation.exists():
            before, self.name, self.lives = self.name, new_name("chat"), False
            self.aside.clear()
            raise Refused(
                f"{before} was deleted (by `git clean -x`, for example); your next message starts a new "
                "conversation"
            )
        request = self.request("\n\n".join([*self.aside, words]) if words else "")
        try:
            return run_task(self.worktree, request, self.settings, ui, replace(self.model_setup, meter=meter))
        finally:
            if words and meter.attempts:  # they are in the conversation now
                self.aside.clear()
            self.note_edits()
            self.lives = self.run_dir.folder.is_dir()

    def note_edits(self) -> None:
        """Add to `edits` the edits in this work tree whose commits the chat has recorded."""
        from repoagent.git.undo_log import list_edits

        if self.run_dir.folder.is_dir():
            commits = self._run().record.commits
            self.edits |= {edit.id: None for edit in list_edits(self.worktree) if edit.commit in commits}

    def unfinished(self) -> bool:
        from repoagent.tasks.runs.list import CONVERSATION

        if not any(turn.role == "user" and not is_extra(turn) for turn in self.turns):
            return False
        return self._run().state not in {"done", "answered", "rejected", CONVERSATION}

    def _run(self) -> Run:
        from repoagent.tasks.runs.list import read_run

        return read_run(self.run_dir, warn=self.terminal.warn)

    def uncommitted(self) -> tuple[str, ...]:
        return uncommitted_files(self.worktree, self.run_dir)

    def show_uncommitted(self, paths: tuple[str, ...] | None = None) -> None:
        if paths := self.uncommitted() if paths is None else paths:
            names = ", ".join(map(sanitize, paths[:SHOWN])) + (" …" if len(paths) > SHOWN else "")
            more = "; /diff shows the changes, /undo reverts them" if self.has_user else ""
            self.terminal.note(f"written, not committed: {names}{more}")

    def show_error(self, error: RepoagentError) -> None:
        """Print why a turn or a command failed, and what is left of it."""
        self.terminal.note(str(error), *(() if isinstance(error, NothingDone | RunStopped) else ("red",)))
        # Busy: the turn belongs to another process
        if not isinstance(error, NothingDone | UsageError | Busy):
            with suppress(RepoagentError):  # the note above reports it
                self.show_uncommitted()
                if self.unfinished():
                    self.terminal.note("/continue resumes the turn", "dim")


def open_chat(options: SimpleNamespace, repo: Repository) -> Chat:
    """Open a new or a resumed chat. Raises what `chosen_name` and `model_setup` raise."""
    worktree, layout, settings, terminal = repo.worktree, repo.layout, repo.settings, repo.terminal
    name, fresh = run_options.chosen_name(options, worktree, "chat")
    note = "" if fresh else run_options.inherit_options(options, settings, RunDirectory(layout, name))
    if note:
        terminal.note(note)
    previous = worktree if fresh else resumed_worktree(worktree, name)
    if previous.top != worktree.top:
        terminal.note(f"working in {previous.top}, as before")
        worktree, layout = previous, layout_of(previous)
    limits = run_options.limits(options, settings)
    setup = open_model(options, settings, terminal, replace(limits, turns=None, seconds=None))
    mode = next(mode for mode in MODES if mode == (options.mode or settings.text("run.mode")))
    limits = Limits(turns=limits.turns, seconds=limits.seconds)
    chat = Chat(options, worktree, layout, settings, terminal, setup, name, mode, limits)
    chat.note_edits()
    return chat


def open_model(
    options: SimpleNamespace, settings: Settings, terminal: Terminal, limits: Limits
) -> ModelSetup:
    """Set up the model from the settings, with a meter. Raises what `model_setup` raises."""
    from repoagent.edit.model_setup import model_setup

    with terminal.working("opening the model"):
        needed = options.agent == "model"
        return model_setup(
            settings, options.record, options.reply, terminal.warn, limits=limits, needed=needed
        )


def leave_worktree(chat: Chat, worktree: WorkTree) -> None:
    """Remove the linked work tree of a resumed chat if everything in it is committed. `worktree` is the work tree in
    which the command was started."""
    if chat.worktree.top != worktree.top and chat.worktree.top.is_dir():
        branch = current_branch(chat.worktree)
        if branch and (note := close_linked(worktree, chat.worktree, branch)):
            chat.terminal.note(note)


def print_recap(turns: tuple[Turn, ...], terminal: Terminal) -> None:
    """Print the last turn of a resumed chat: the beginning of the message, and the answer."""
    messages = [at for at, turn in enumerate(turns) if turn.role == "user" and not is_extra(turn)]
    if not messages:
        return
    text = turns[messages[-1]].text
    terminal.note(f"> {cut_end(one_line(' '.join(text.split())), terminal.width - 2)}", "dim")
    replies = [turn.text for turn in turns[messages[-1] :] if turn.role == "assistant"]
    markdown = terminal.markdown("dim", aside=True)
    shown = markdown.feed(words_of(replies[-1]) if replies else "(no answer yet)") + markdown.rest()
    terminal.styled(shown, aside=True)


def words_of(reply: str) -> str:
    """The prose of a reply, without actions and patches."""
    words = ProseFilter(ends=True)
    return (words.feed(reply) + words.rest()).strip() or "(only actions, no text)"


def status_bar(chat: Chat, width: int) -> str:
    """The status line, cut to `width`: model, mode, branch, cost and uncommitted files. Long names are cut first."""
    meter = chat.model_setup.meter
    cost = dollars(meter.cost) if meter.cost else f"{meter.usage.total:,} tokens" if meter.usage.total else ""
    branch, uncommitted = "no branch", ""
    with suppress(RepoagentError, OSError):  # /diff reports it
        branch = current_branch(chat.worktree) or "detached HEAD"
        count = len(chat.uncommitted())
        uncommitted = f"{plural(count, 'file')} uncommitted" if count else ""
    model = display_name(chat.model_setup.model.spec)
    for most in range(32, 7, -1):
        parts = [cut_end(model, most), chat.mode, cut_end(branch, most), cost, uncommitted]
        line = " · ".join(map(one_line, filter(None, parts)))
        if display_width(line) < width:
            break
    return cut_end(line, width - 1)


def serve_json(chat: Chat) -> Exit:
    """Run the turns that a program sends, until it sends `stop` or its input ends. Each turn prints an `end` or `error`
    event. Returns the exit code of the last turn."""
    events = run_output.EventStream(yes=chat.mode in {"auto", "auto-edit"})
    model = display_name(chat.model_setup.model.spec)
    run_output.emit_event("start", {"run": chat.name, "kind": "chat", "mode": chat.mode, "model": model})
    code = Exit.DONE
    while not events.stopped and (line := sys.stdin.readline(run_output.LONGEST)):
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        words = message.get("say") if isinstance(message, dict) else None
        if not (isinstance(words, str) and words.strip()):
            if isinstance(message, dict) and message.get("stop"):
                break
            events.say('ignored an invalid line: send {"say": "WORDS"}, or {"stop": true} to end')
            continue
        meter = chat.meter()
        try:
            events.end(chat.perform(words, events, meter))
            code = Exit.DONE
        except RepoagentError as error:
            run_output.emit_error(error, meter)
            code = error.exit_code
    return code
