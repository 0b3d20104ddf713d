"""What a chat has on the table, and one turn of it."""

from __future__ import annotations

from dataclasses import field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

from repoagent.agent.approval import MODES, Mode
from repoagent.cli.chat.show import Speaking, show_turn
from repoagent.cli.run import options as run_options
from repoagent.cli.run.kept import hold_on, said
from repoagent.cli.run.place import worked_in
from repoagent.cli.run.talk import RunTalk
from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.llm import Limits
from repoagent.repo import layout as layout_of
from repoagent.repo.facts import current_branch
from repoagent.work import RunRequest, run
from repoagent.work.home import Home, new_name

if TYPE_CHECKING:
    from repoagent.cli.program.session import Session
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.config import Settings
    from repoagent.edit.means import Means
    from repoagent.llm import Meter
    from repoagent.repo import WorkTree
    from repoagent.store import Layout
    from repoagent.work import RunOutcome, Talk


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
    means: Means
    name: str
    mode: Mode
    calls: int | None = None
    seconds: float | None = None
    edits: dict[str, None] = field(default_factory=dict)
    undone: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    lives: bool = False

    @property
    def home(self) -> Home:
        return Home(self.layout, self.name)

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
    held = "" if fresh else hold_on(given, settings, Home(layout, name))
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
    from repoagent.work.ground.place import wind_up

    branch = current_branch(chat.worktree) if chat.worktree.top.is_dir() else None
    if branch and chat.worktree.top != worktree.top and (said := wind_up(worktree, chat.worktree, branch)):
        chat.terminal.note(said)


def open_means(given: SimpleNamespace, settings: Settings, terminal: Terminal, limits: Limits) -> Means:
    """The model of the settings, and a meter. Raises ModelError, UsageError."""
    from repoagent.edit.means import means

    with terminal.working("opening the model") as working:
        needed = given.agent == "model"
        return means(
            settings, given.record, given.reply, terminal.warn, working.progress, limits=limits, needed=needed
        )


def mode_of(text: str) -> Mode:
    """The mode of this name, which is known to be one."""
    return next(mode for mode in MODES if mode == text)


def turn(chat: Chat, words: str) -> None:
    """Say `words` to the model, or with "" go on where it was interrupted; show what comes, and how it ends. Raises
    what `perform` does."""
    with Speaking(chat.terminal, "reading the repository") as working:
        talk = RunTalk.of(chat.terminal, working, chat.mode)
        outcome = perform(chat, words, talk, meter_of(chat))
    show_turn(chat.worktree, outcome, chat.terminal, as_json=chat.given.as_json, answered=talk.answered)


def meter_of(chat: Chat) -> Meter:
    """What counts one turn, within its limits and those of the session."""
    return chat.means.meter.part(Limits(turns=chat.calls, seconds=chat.seconds))


def perform(chat: Chat, words: str, talk: Talk, meter: Meter) -> RunOutcome:
    """One turn. Raises KeyboardInterrupt and what `work.run` does; all that was said and done until then is kept."""
    from repoagent.cli.program.settle import settle

    settle(chat.worktree, chat.terminal)
    _refuse_lost(chat)
    ready = replace(chat.means, meter=meter)
    prompt = "\n\n".join([*chat.aside, words]) if words else ""
    try:
        return run(chat.worktree, request(chat, prompt), chat.settings, talk, ready)
    finally:
        if words and meter.attempts:  # it is in the conversation by now
            chat.aside.clear()
        note_edits(chat)
        chat.lives = chat.home.folder.is_dir()


def _refuse_lost(chat: Chat) -> None:
    """Raise Refused where the conversation was removed under the chat: a new one begins with the next words."""
    if not chat.lives or chat.home.folder.is_dir() or chat.home.conversation.exists():
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
    from repoagent.repo.undo import list_edits
    from repoagent.work.home import refreshed
    from repoagent.work.home.listing import Run
    from repoagent.work.home.record import Record

    if not chat.home.folder.is_dir():
        return
    commits = refreshed(Run(chat.home, Record(name=chat.name), ""), warn=chat.terminal.warn).record.commits
    chat.edits |= {edit.id: None for edit in list_edits(chat.worktree) if edit.commit in commits}
