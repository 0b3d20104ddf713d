"""The state of a chat, one turn of it, what a turn prints, and the status line.

`serve_json` is the chat with a program: lines of JSON in both directions (`commands/run_output.py` has the events);
each turn ends with `end` or `error`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

from repoagent.agent.approvals.policy import MODES, Mode
from repoagent.cli.commands import run_options
from repoagent.cli.commands.run_options import explicit_options, inherit_options
from repoagent.cli.commands.run_output import (
    LONGEST,
    EventStream,
    as_object,
    emit,
    emit_error,
    show_commits,
    spent,
)
from repoagent.cli.commands.run_ui import RunTerminal
from repoagent.cli.ui.echo import collect
from repoagent.cli.ui.progress import Words, Working
from repoagent.cli.ui.terminal_text import clean, display_width, fold, one_line
from repoagent.dataclass import dataclass
from repoagent.errors import Exit, Refused, RepoagentError
from repoagent.git.facts import current_branch
from repoagent.git.worktree import layout as layout_of
from repoagent.llm.model import display_name
from repoagent.llm.usage import Limits, dollars
from repoagent.tasks.run_context import RunRequest
from repoagent.tasks.runs.directory import RunDirectory, new_name
from repoagent.tasks.session import run
from repoagent.tasks.uncommitted_by_run import uncommitted_files
from repoagent.tasks.worktree import resumed_worktree

if TYPE_CHECKING:
    from repoagent.cli.session import Session
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.git.worktree import WorkTree
    from repoagent.llm.conversation import Turn
    from repoagent.llm.usage import Meter
    from repoagent.storage.layout import Layout
    from repoagent.tasks.run_context import RunInterface
    from repoagent.tasks.session import RunOutcome


@dataclass(frozen=True)
class Then:
    """What follows a slash command: `words` go to the model ("" resumes the turn that was stopped), None sends nothing;
    `ends` ends the chat."""

    words: str | None = None
    ends: bool = False


ENDS = Then(ends=True)

SHOWN = 8  # files
_ANSWER_LINES = 8  # of the last answer, in a resumed chat
_MESSAGE_LINES = 3  # of the last message


class Speaking(Working):
    """As `Working`, but the model's words are not dim: they are what a chat is about."""

    styles = ()

    def text(self, piece: str) -> None:
        collect()
        super().text(piece)

    def words(self, piece: str) -> None:
        collect()
        super().words(piece)


def show_turn(
    worktree: WorkTree, outcome: RunOutcome, terminal: Terminal, *, as_json: bool, answered: bool
) -> None:
    """Print the end of a turn: its text unless it was streamed (`answered`), commits, uncommitted files, usage."""
    if as_json:
        terminal.result(json.dumps(as_object(outcome)) + "\n")
        return
    if outcome.text.strip() and not (answered and terminal.shows):
        terminal.reply(outcome.text.strip() + "\n")
    show_commits(worktree, outcome, terminal)
    show_left(outcome.left, terminal)
    if terminal.tells:
        terminal.note(f"{spent(outcome)}\n", "dim")


def show_left(paths: tuple[str, ...], terminal: Terminal) -> None:
    """Print which files are written and not committed, and what to do about them."""
    if not paths:
        return
    names = ", ".join(map(clean, paths[:SHOWN])) + (" …" if len(paths) > SHOWN else "")
    more = "; /diff shows the changes, /undo reverts them" if terminal.can_ask else ""
    terminal.note(f"written, not committed: {names}{more}")


def recap(turns: tuple[Turn, ...], terminal: Terminal) -> None:
    """Print the last turn of a resumed chat: the message, and the end of the answer."""
    from repoagent.agent.state import is_beside

    messages = [at for at, turn in enumerate(turns) if turn.role == "user" and not is_beside(turn)]
    if not messages:
        return
    lines = [line for line in turns[messages[-1]].text.strip().split("\n") if line.strip()]
    for line in lines[:_MESSAGE_LINES]:
        terminal.note(f"> {_cut(line, terminal.width - 2)}", "dim")
    if len(lines) > _MESSAGE_LINES:
        terminal.note("> …", "dim")
    replies = [turn.text for turn in turns[messages[-1] :] if turn.role == "assistant"]
    markdown = terminal.markdown("dim", aside=True)
    shown = markdown.feed(words_of(replies[-1]) if replies else "(no answer yet)") + markdown.rest()
    lines = shown.removesuffix("\n").split("\n")
    if len(lines) > _ANSWER_LINES:
        lines = ["…", *lines[-_ANSWER_LINES:]]
    terminal.styled("".join(f"{line}\n" for line in lines), aside=True)


def words_of(reply: str) -> str:
    """The prose of a whole reply, without the actions and patches in it."""
    words = Words(ends=True)
    return (words.feed(reply) + words.rest()).strip() or "(only actions, no text)"


def folded(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` columns."""
    return fold(text, max(20, width)).split("\n")


def _cut(line: str, width: int) -> str:
    shown = one_line(line)
    return shown if display_width(shown) <= width else shown[: max(10, width - 2)] + " …"


@dataclass
class Chat:
    """The state of a chat. `flags` are those of the options that are settings.

    `model_setup` holds the current model and the meter of the session; `calls` and `seconds` limit one turn. `edits`
    are the ids of the edits of this chat, `undone` those that /undo undid, the last one last. `aside` goes to the model
    with the next message: what the user did in between. `lives`: the run folder exists, and must exist at the next
    turn."""

    session: Session
    options: SimpleNamespace
    flags: dict[str, object]
    worktree: WorkTree
    layout: Layout
    settings: Settings
    terminal: Terminal
    model_setup: ModelSetup
    name: str
    mode: Mode
    calls: int | None = None
    seconds: float | None = None
    edits: dict[str, None] = field(default_factory=dict)
    undone: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    lives: bool = False

    @property
    def run_dir(self) -> RunDirectory:
        return RunDirectory(self.layout, self.name)

    @property
    def person(self) -> bool:
        """Whether a user types at a terminal, who can answer questions."""
        return self.terminal.can_ask


def open_chat(
    session: Session,
    options: SimpleNamespace,
    worktree: WorkTree,
    opened: tuple[Layout, Settings, Terminal],
    flags: dict[str, object],
) -> Chat:
    """Open a new or a resumed chat, with the model and the limits of the options and the settings. Raises ModelError,
    UsageError."""
    layout, settings, terminal = opened
    name, fresh = run_options.chosen_name(options, worktree, "chat")
    note = "" if fresh else inherit_options(options, settings, RunDirectory(layout, name))
    if note:
        terminal.note(note)
    previous = worktree if fresh else resumed_worktree(worktree, name)
    if previous.top != worktree.top:
        terminal.note(f"working in {previous.top}, as before")
        worktree, layout = previous, layout_of(previous)
    limits = run_options.limits(options, settings)
    whole = replace(limits, turns=None, seconds=None)
    chat = Chat(
        session, options, flags, worktree, layout, settings, terminal,
        open_model(options, settings, terminal, whole), name, mode_of(options.mode or settings.text("run.mode")),
        limits.turns, limits.seconds,
    )  # fmt: skip
    note_edits(chat)
    return chat


def leave(chat: Chat, worktree: WorkTree) -> None:
    """Remove the linked work tree that a resumed chat was in, as at the end of a run, when all in it is committed.
    `worktree` is where the command was started."""
    from repoagent.tasks.worktree import close_linked

    branch = current_branch(chat.worktree) if chat.worktree.top.is_dir() else None
    if (
        branch
        and chat.worktree.top != worktree.top
        and (note := close_linked(worktree, chat.worktree, branch))
    ):
        chat.terminal.note(note)


def open_model(
    options: SimpleNamespace, settings: Settings, terminal: Terminal, limits: Limits
) -> ModelSetup:
    """The model of the settings, and a meter. Raises ModelError, UsageError."""
    from repoagent.edit.model_setup import model_setup

    with terminal.working("opening the model") as working:
        needed = options.agent == "model"
        return model_setup(
            settings,
            options.record,
            options.reply,
            terminal.warn,
            working.progress,
            limits=limits,
            needed=needed,
        )


def mode_of(text: str) -> Mode:
    """The mode of this name, which must be one."""
    return next(mode for mode in MODES if mode == text)


def turn(chat: Chat, words: str) -> None:
    """Send `words` to the model ("" resumes the turn that was stopped), print what comes and how it ends. Raises what
    `perform` does."""
    with Speaking(chat.terminal, "reading the repository") as working:
        ui = RunTerminal.of(chat.terminal, working, chat.mode)
        outcome = perform(chat, words, ui, meter_of(chat))
    show_turn(chat.worktree, outcome, chat.terminal, as_json=chat.options.as_json, answered=ui.answered)


def meter_of(chat: Chat) -> Meter:
    """The meter of one turn, within its limits and those of the session."""
    return chat.model_setup.meter.part(Limits(turns=chat.calls, seconds=chat.seconds))


def perform(chat: Chat, words: str, ui: RunInterface, meter: Meter) -> RunOutcome:
    """Run one turn. Raises KeyboardInterrupt and what `tasks.session.run` does; what happened before that is kept."""
    from repoagent.cli.app import settle

    settle(chat.worktree, chat.terminal)
    _refuse_lost(chat)
    ready = replace(chat.model_setup, meter=meter)
    prompt = "\n\n".join([*chat.aside, words]) if words else ""
    try:
        return run(chat.worktree, request(chat, prompt), chat.settings, ui, ready)
    finally:
        if words and meter.attempts:  # it is in the conversation by now
            chat.aside.clear()
        note_edits(chat)
        chat.lives = chat.run_dir.folder.is_dir()


def _refuse_lost(chat: Chat) -> None:
    """Raise Refused where the conversation was deleted during the chat; the next message starts a new one."""
    if not chat.lives or chat.run_dir.folder.is_dir() or chat.run_dir.conversation.exists():
        return
    before, chat.name = chat.name, new_name("chat")
    chat.lives = False
    chat.aside.clear()
    raise Refused(
        f"the files of {before} were deleted (by `git clean -x`, for example); your next message starts a new "
        "conversation"
    )


def request(chat: Chat, prompt: str) -> RunRequest:
    """The run that one turn is."""
    options = chat.options
    return RunRequest(
        prompt.strip(),
        chat.name,
        kind="chat",
        mode=chat.mode,
        commit=run_options.commit_options(options),
        commit_per_edit=options.commit_per_edit,
        check=options.check,
        allow_sensitive=options.allow_sensitive,
        agent=options.agent,
        branch=(current_branch(chat.worktree) or "") if chat.worktree.is_linked else "",
        options=explicit_options(options),
    )


def note_edits(chat: Chat) -> None:
    """Read from the record of the chat which edits of this work tree belong to it."""
    from repoagent.git.undo_log import list_edits
    from repoagent.tasks.runs.list import Run, refreshed
    from repoagent.tasks.runs.record import Record

    if not chat.run_dir.folder.is_dir():
        return
    commits = refreshed(Run(chat.run_dir, Record(name=chat.name), ""), warn=chat.terminal.warn).record.commits
    chat.edits |= {edit.id: None for edit in list_edits(chat.worktree) if edit.commit in commits}


_BETWEEN = " · "
_NAME = 32  # columns of a model's name, or of a branch


def bar(chat: Chat, width: int) -> str:
    """The status line: model, mode, branch, cost, uncommitted files. It drops from its end what does not fit into
    `width` columns. It reads two small files and starts no process."""
    meter = chat.model_setup.meter
    cost = dollars(meter.cost) if meter.cost else f"{meter.usage.total:,} tokens" if meter.usage.total else ""
    parts = [
        _short(display_name(chat.model_setup.model.spec)),
        chat.mode,
        _short(_branch(chat)),
        cost,
        *_left(chat),
    ]
    line = one_line(parts[0])[: max(0, width - 1)]
    for part in map(one_line, filter(None, parts[1:])):
        if display_width(line) + display_width(_BETWEEN) + display_width(part) >= width:
            break
        line += _BETWEEN + part
    return line


def _branch(chat: Chat) -> str:
    try:
        return current_branch(chat.worktree) or "detached HEAD"
    except (RepoagentError, OSError):
        return "no branch"


def _left(chat: Chat) -> list[str]:
    try:
        count = len(uncommitted_files(chat.worktree, chat.run_dir))
    except (RepoagentError, OSError):  # /diff reports it
        return []
    return [f"{count} file{'s' * (count != 1)} uncommitted"] if count else []


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def serve_json(chat: Chat) -> Exit:
    """Run the turns of a program until it sends stop or its input ends; returns the exit code of the last turn."""
    events = EventStream(yes=chat.mode in {"auto", "auto-edit"})
    model = display_name(chat.model_setup.model.spec)
    emit("start", {"run": chat.name, "kind": "chat", "mode": chat.mode, "model": model})
    code = Exit.DONE
    while not events.stopped and (words := _next_message(events)) is not None:
        meter = meter_of(chat)
        try:
            events.end(perform(chat, words, events, meter))
            code = Exit.DONE
        except RepoagentError as error:
            emit_error(error, meter)
            code = error.exit_code
    return code


def _next_message(events: EventStream) -> str | None:
    """The next message of the program; None for the end."""
    while line := sys.stdin.readline(LONGEST):
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        words = message.get("say") if isinstance(message, dict) else None
        if isinstance(words, str) and words.strip():
            return words
        if isinstance(message, dict) and message.get("stop"):
            return None
        events.say('ignored a line that is not a turn: send {"say": "WORDS"}, or {"stop": true} to end')
    return None
