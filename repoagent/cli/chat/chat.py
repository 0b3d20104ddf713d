"""What comes after a command of the chat.

What a person sees of a turn: the model's words, a line for each action, how it ended.

What a chat has on the table, and one turn of it.

The line at the bottom of a chat: who is asked, what may be done, where, and what it has cost.

A chat with a program: lines of JSON in both directions. `run/events.py` has the events, and how questions are
answered; each turn ends with `end` or `error`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

from repoagent.agent.approvals.policy import MODES, Mode
from repoagent.cli.commands import run_options
from repoagent.cli.commands.run import worked_in
from repoagent.cli.commands.run_options import hold_on, said
from repoagent.cli.commands.run_output import (
    LONGEST,
    Events,
    as_object,
    emit,
    emit_error,
    show_commits,
    spent,
)
from repoagent.cli.commands.run_ui import RunTerminal
from repoagent.cli.ui.echo import collect
from repoagent.cli.ui.progress import Fold, Words, Working
from repoagent.cli.ui.sanitize import clean, display_width, one_line
from repoagent.dataclass import dataclass
from repoagent.errors import Exit, Refused, RepoagentError
from repoagent.git.facts import current_branch
from repoagent.git.worktree import layout as layout_of
from repoagent.llm.model import display_name
from repoagent.llm.usage import Limits, dollars
from repoagent.tasks.context import RunRequest
from repoagent.tasks.finish import left
from repoagent.tasks.runs.directory import RunDirectory, new_name
from repoagent.tasks.session import run

if TYPE_CHECKING:
    from repoagent.cli.session import Session
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.git.worktree import WorkTree
    from repoagent.llm.conversation import Turn
    from repoagent.llm.usage import Meter
    from repoagent.storage.layout import Layout
    from repoagent.tasks.context import RunInterface
    from repoagent.tasks.session import RunOutcome


@dataclass(frozen=True)
class Then:
    """`words` are said to the model ("": it goes on where it was stopped), None for nothing; `ends` ends the chat."""

    words: str | None = None
    ends: bool = False


ENDS = Then(ends=True)

SHOWN = 8  # files
_RECALLED = 8  # lines of the last answer
_ASKED = 3  # lines of the last words of the person


class Speaking(Working):
    """The model's words are what a chat is about: they are not dim."""

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
    """Print the last word of a turn unless it was `answered` as it came, its commits, what is left, what it took."""
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
    """What is written and not committed, and what can be done about it."""
    if not paths:
        return
    names = ", ".join(map(clean, paths[:SHOWN])) + (" …" if len(paths) > SHOWN else "")
    more = ": /diff shows it, /undo takes it back" if terminal.can_ask else ""
    terminal.note(f"written, not committed: {names}{more}")


def recap(turns: tuple[Turn, ...], terminal: Terminal) -> None:
    """The last turn of a chat that is gone on with: what was asked, and the end of what was answered."""
    from repoagent.agent.state import is_beside

    asked = [at for at, turn in enumerate(turns) if turn.role == "user" and not is_beside(turn)]
    if not asked:
        return
    said = [line for line in turns[asked[-1]].text.strip().split("\n") if line.strip()]
    for line in said[:_ASKED]:
        terminal.note(f"> {_cut(line, terminal.width - 2)}", "dim")
    if len(said) > _ASKED:
        terminal.note("> …", "dim")
    replies = [turn.text for turn in turns[asked[-1] :] if turn.role == "assistant"]
    markdown = terminal.markdown("dim", aside=True)
    lines = (markdown.feed(words_of(replies[-1]) if replies else "(no answer yet)") + markdown.rest()).split(
        "\n"
    )
    lines = lines if lines[-1] else lines[:-1]
    if len(lines) > _RECALLED:
        lines = ["…", *lines[-_RECALLED:]]
    terminal.styled("".join(f"{line}\n" for line in lines), aside=True)


def words_of(reply: str) -> str:
    """The words of a whole reply, without the actions and patches in it."""
    words = Words(ends=True)
    return (words.feed(reply) + words.rest()).strip() or "(a change, or a look around)"


def folded(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` columns."""
    fold = Fold(max(20, width))
    return (fold.feed(text) + fold.rest()).split("\n")


def _cut(line: str, width: int) -> str:
    shown = one_line(line)
    return shown if display_width(shown) <= width else shown[: max(10, width - 2)] + " …"


@dataclass
class Chat:
    """A chat under way. `given` are the options, `flags` those of them that stand for settings.

    `means` holds the model that is asked next, and the meter of the whole session; `calls` and `seconds` are the limits
    of one turn. `edits` are the ids of edits that were made in this chat, `undone` of those that /undo took back, the
    last one last. `aside` is told to the model with the next words: what the person did meanwhile. `lives`: it has a
    home, which should be there at its next turn.
    """

    session: Session
    given: SimpleNamespace
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
        """Whether somebody types, and can be asked."""
        return self.terminal.can_ask


def open_chat(
    session: Session,
    given: SimpleNamespace,
    worktree: WorkTree,
    opened: tuple[Layout, Settings, Terminal],
    flags: dict[str, object],
) -> Chat:
    """A chat with the model and the limits that the options and the settings say. Raises what `means` raises."""
    layout, settings, terminal = opened
    name, fresh = run_options.chosen_name(given, worktree, "chat")
    held = "" if fresh else hold_on(given, settings, RunDirectory(layout, name))
    if held:
        terminal.note(held)
    place = worktree if fresh else worked_in(worktree, name)
    if place.top != worktree.top:
        terminal.note(f"working in {place.top}, as before")
        worktree, layout = place, layout_of(place)
    limits = run_options.limits(given, settings)
    whole = replace(limits, turns=None, seconds=None)
    chat = Chat(
        session, given, flags, worktree, layout, settings, terminal,
        open_means(given, settings, terminal, whole), name, mode_of(given.mode or settings.text("run.mode")),
        limits.turns, limits.seconds,
    )  # fmt: skip
    note_edits(chat)
    return chat


def leave(chat: Chat, worktree: WorkTree) -> None:
    """At the end of a chat that began in `worktree`: the linked work tree that it opened again goes, as at the end of a
    run, when all in it is committed."""
    from repoagent.tasks.worktree import wind_up

    branch = current_branch(chat.worktree) if chat.worktree.top.is_dir() else None
    if branch and chat.worktree.top != worktree.top and (said := wind_up(worktree, chat.worktree, branch)):
        chat.terminal.note(said)


def open_means(given: SimpleNamespace, settings: Settings, terminal: Terminal, limits: Limits) -> ModelSetup:
    """The model of the settings, and a meter. Raises ModelError, UsageError."""
    from repoagent.edit.model_setup import model_setup

    with terminal.working("opening the model") as working:
        needed = given.agent == "model"
        return model_setup(
            settings, given.record, given.reply, terminal.warn, working.progress, limits=limits, needed=needed
        )


def mode_of(text: str) -> Mode:
    """The mode of this name, which is known to be one."""
    return next(mode for mode in MODES if mode == text)


def turn(chat: Chat, words: str) -> None:
    """Say `words` to the model, or with "" go on where it was interrupted; show what comes, and how it ends. Raises
    what `perform` does."""
    with Speaking(chat.terminal, "reading the repository") as working:
        ui = RunTerminal.of(chat.terminal, working, chat.mode)
        outcome = perform(chat, words, ui, meter_of(chat))
    show_turn(chat.worktree, outcome, chat.terminal, as_json=chat.given.as_json, answered=ui.answered)


def meter_of(chat: Chat) -> Meter:
    """What counts one turn, within its limits and those of the session."""
    return chat.model_setup.meter.part(Limits(turns=chat.calls, seconds=chat.seconds))


def perform(chat: Chat, words: str, ui: RunInterface, meter: Meter) -> RunOutcome:
    """One turn. Raises KeyboardInterrupt and what `work.run` does; all that was said and done until then is kept."""
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
    """Raise Refused where the conversation was removed under the chat: a new one begins with the next words."""
    if not chat.lives or chat.run_dir.folder.is_dir() or chat.run_dir.conversation.exists():
        return
    before, chat.name = chat.name, new_name("chat")
    chat.lives = False
    chat.aside.clear()
    raise Refused(
        f"the folder and the conversation of {before} were removed (by `git clean -x`, say): what you say next begins "
        "a new conversation"
    )


def request(chat: Chat, prompt: str) -> RunRequest:
    """What one turn asks of a run."""
    given = chat.given
    return RunRequest(
        prompt.strip(),
        chat.name,
        kind="chat",
        mode=chat.mode,
        commit=run_options.commit_options(given),
        commit_per_edit=given.commit_per_edit,
        check=given.check,
        allow_sensitive=given.allow_sensitive,
        agent=given.agent,
        branch=(current_branch(chat.worktree) or "") if chat.worktree.is_linked else "",
        said=said(given),
    )


def note_edits(chat: Chat) -> None:
    """Learn from the record of the chat which edits of this work tree were made in it."""
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
    """The line as of now, in at most `width` columns: what fits no more is left out from its end on. It reads two small
    files and asks nobody."""
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
        count = len(left(chat.worktree, chat.run_dir))
    except (RepoagentError, OSError):  # /diff says what is wrong with it
        return []
    return [f"{count} file{'s' * (count != 1)} uncommitted"] if count else []


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def ui(chat: Chat) -> Exit:
    """From turn to turn, until the program says stop or its input is at its end; the exit code of the last turn."""
    events = Events(yes=chat.mode in {"auto", "auto-edit"})
    model = display_name(chat.model_setup.model.spec)
    emit("start", {"run": chat.name, "kind": "chat", "mode": chat.mode, "model": model})
    code = Exit.DONE
    while not events.stopped and (words := _said(events)) is not None:
        meter = meter_of(chat)
        try:
            events.end(perform(chat, words, events, meter))
            code = Exit.DONE
        except RepoagentError as error:
            emit_error(error, meter)
            code = error.exit_code
    return code


def _said(events: Events) -> str | None:
    """What is said next; None for the end."""
    while line := sys.stdin.readline(LONGEST):
        try:
            told = json.loads(line)
        except ValueError:
            told = None
        words = told.get("say") if isinstance(told, dict) else None
        if isinstance(words, str) and words.strip():
            return words
        if isinstance(told, dict) and told.get("stop"):
            return None
        events.say('that is no turn: {"say": "WORDS"} is one, {"stop": true} is the end; it was not heeded')
    return None
