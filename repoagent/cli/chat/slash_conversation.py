"""Slash commands of the conversation itself: who is asked, what may be done, copies, what it costs.

Slash commands of what was changed: seen, taken back, made again, reviewed.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.agent.state import is_beside, open_state
from repoagent.cli.chat.chat import Then, recap
from repoagent.cli.commands.run_output import described
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.llm.model import display_name
from repoagent.llm.usage import cost_text, dollars
from repoagent.tasks.finish import Overlapping, TakenBack, left, left_as_they_are, left_diff, take_back
from repoagent.tasks.runs.directory import new_name

if TYPE_CHECKING:
    from repoagent.agent.approvals.policy import Mode
    from repoagent.cli.chat.chat import Chat
    from repoagent.git.undo_log import Edit

MODE_LINES: dict[Mode, str] = {
    "ask": "each change and each command is asked about",
    "auto-edit": "changes are made unasked, commands are asked about",
    "auto": "commands run unasked too, in a sandbox",
    "read-only": "nothing is changed",
}


def model(chat: Chat, words: str) -> None:
    """Show who is asked; or ask another from the next words on. The meter of the session goes on."""
    if not words:
        known = chat.model_setup.context_tokens
        window = f", takes {known:,} tokens" if known else ""
        chat.terminal.result(f"{display_name(chat.model_setup.model.spec)}{window}\n")
        return
    from repoagent.cli.chat.chat import open_means
    from repoagent.config.layers import load

    flags = {**chat.flags, "model": words}
    settings = load(chat.layout, flags=flags)
    fresh = open_means(chat.given, settings, chat.terminal, chat.model_setup.meter.limits)
    chat.model_setup = replace(fresh, meter=chat.model_setup.meter)
    chat.settings, chat.flags = settings, flags
    chat.terminal.note(f"from now on {display_name(fresh.model.spec)} is asked")


def mode(chat: Chat, words: str) -> None:
    """Show what may be done unasked, or change it from the next words on."""
    if not words:
        chat.terminal.result(f"{chat.mode}: {MODE_LINES[chat.mode]}\n")
        return
    found = next((name for name in MODE_LINES if name == words.lower()), None)
    if found is None:
        raise UsageError(f"{words} is no mode: say {', '.join(MODE_LINES)}")
    chat.mode = chat.given.mode = found
    chat.terminal.note(f"{found}: {MODE_LINES[found]}")


def save(chat: Chat, words: str) -> None:
    """Keep a copy under a name."""
    from repoagent.memory.conversation_changes import save as keep
    from repoagent.memory.conversations import find, here, named

    if not words:
        raise UsageError("say under which name: /save NAME")
    if not open_state(chat.run_dir.conversation).turns:
        raise NothingDone("nothing was said yet: there is nothing to save")
    at = here(chat.layout, chat.worktree, chat.worktree.top, warn=chat.terminal.warn)
    keep(chat.layout, find(at, chat.name), named(chat.layout, words, own=True))
    chat.terminal.note(f"saved as {words}; /load {words} goes on from there")


def load(chat: Chat, words: str) -> None:
    """Go on from a kept conversation: in a copy of it, so that the kept one stays as it is."""
    from repoagent.memory.conversation_changes import branch
    from repoagent.memory.conversations import find, here, named

    if not words:
        raise UsageError("say which one: /load NAME; `repoagent conversation list` shows them")
    at = here(chat.layout, chat.worktree, chat.worktree.top, warn=chat.terminal.warn)
    found = find(at, words)
    name = new_name("chat")
    branch(chat.layout, found, named(chat.layout, name))
    before = _begin(chat, name)
    chat.terminal.note(f"this chat goes on from {words} now, as {name}; {before}")
    recap(found.conversation.turns, chat.terminal)


def clear(chat: Chat, words: str) -> None:
    """Begin anew; what was said is kept."""
    if not open_state(chat.run_dir.conversation).turns:
        raise NothingDone("nothing was said yet: this is a new conversation")
    before = _begin(chat, new_name("chat"))
    chat.terminal.note(f"a new conversation; {before}")


def _begin(chat: Chat, name: str) -> str:
    """Go on as `name`; a sentence that says where the one before is."""
    from repoagent.cli.chat.chat import show_left
    from repoagent.tasks.finish import left

    show_left(left(chat.worktree, chat.run_dir), chat.terminal)
    before, chat.name = chat.name, name
    chat.lives = False
    chat.aside.clear()
    chat.edits.clear()
    return f"`repoagent chat --resume {before}` brings back the one before"


def go_on(chat: Chat, words: str) -> Then:
    """Go on with a turn that was stopped, or that ended by a limit or a failure."""
    if not unfinished(chat):
        raise NothingDone("the last turn came to its end: there is nothing to go on with")
    return Then("")


def unfinished(chat: Chat) -> bool:
    """Whether the last words of the person are still without an end."""
    from repoagent.tasks.runs.list import ALONE, Run, refreshed
    from repoagent.tasks.runs.record import Record

    turns = open_state(chat.run_dir.conversation).turns
    if not any(turn.role == "user" and not is_beside(turn) for turn in turns):
        return False
    state = refreshed(Run(chat.run_dir, Record(name=chat.name), ""), warn=chat.terminal.warn).state
    return state not in {"done", "answered", "rejected", ALONE}


def compact(chat: Chat, words: str) -> None:
    """A checkpoint now: from the next words on it stands for what is older."""
    from repoagent.cli.chat.chat import Speaking, request
    from repoagent.cli.commands.run_ui import RunTerminal
    from repoagent.tasks.session import compact as checkpoint

    if not open_state(chat.run_dir.conversation).turns:
        raise NothingDone("nothing was said yet: there is nothing to sum up")
    with Speaking(chat.terminal, "summing up") as working:
        ui = RunTerminal.of(chat.terminal, working, chat.mode)
        before, after = checkpoint(chat.worktree, request(chat, ""), chat.settings, ui, chat.model_setup)
    chat.terminal.note(
        f"summed up: {before:,} tokens of it were sent, {after:,} are from now on; its file keeps all",
    )


def cost(chat: Chat, words: str) -> None:
    """What the session has used, and what all calls of today have cost."""
    meter = chat.model_setup.meter
    usage = meter.usage
    about = "about " if usage.estimated else ""
    cached = f" ({usage.cache_read:,} cached)" if usage.cache_read else ""
    price = "a price that is not known" if meter.cost is None else cost_text(meter.cost)
    calls = f"{meter.attempts:,} call{'s' * (meter.attempts != 1)}"
    tokens = f"{about}{usage.total - usage.output:,} tokens in{cached}, {usage.output:,} out"
    chat.terminal.result(f"this session: {calls}, {tokens}, {price}\n")
    if meter.book is not None:
        limit = f" of {dollars(meter.limits.day, 0)}" if meter.limits.day is not None else ""
        chat.terminal.result(f"today, in all: {dollars(meter.book.today())}{limit}\n")


_LINES = 60  # of a diff that is shown with a question
_OVERLAPPING: dict[str, Overlapping] = {"let-go": "let-go", "whole": "whole"}
_YES = {"y": "take it back", "n": "leave it"}


def diff(chat: Chat, words: str) -> None:
    """What this chat has changed and not committed; with a revision all that the files hold other than it."""
    if words:
        text = _since(chat, words)
        if not text:
            raise NothingDone(f"the files are as they are in {words}")
    else:
        text = left_diff(chat.worktree, chat.run_dir)
        if not text:
            raise NothingDone(
                "this chat has changed nothing that is not committed; /diff HEAD~1 shows the last commit"
            )
    _show(chat, text)


def undo(chat: Chat, words: str) -> None:
    """Take back what was changed last: what is not committed, or else the last edit of this chat."""
    paths = left(chat.worktree, chat.run_dir)
    if paths:
        _confirm(
            chat,
            f"Take back what is not committed in {', '.join(paths)}",
            left_diff(chat.worktree, chat.run_dir),
        )
        done = take_back(chat.worktree, chat.run_dir, _OVERLAPPING.get(words.strip(), "leave"))
        _tell_taken_back(chat, done)
        return
    from repoagent.edit.undo import undo as undo_edit

    edit = _last(chat)
    subject = described(chat.worktree, edit.commit)[1] if edit.commit else "a change without a commit"
    what = f"{edit.commit[:7]} {subject}" if edit.commit else subject
    _confirm(chat, f"Take back {what} ({', '.join(edit.paths)})", _of(chat, edit))
    result = undo_edit(chat.worktree, edit.id)
    chat.undone.append(edit.id)
    how = "" if result.moved or result.edit.no_commit else " by a new commit"
    chat.terminal.note(f"took back {what}{how}; /redo makes it again")
    chat.aside.append(f"(I have taken back your change of {', '.join(edit.paths)}: {subject}.)")


def _tell_taken_back(chat: Chat, done: TakenBack) -> None:
    if done.paths:
        chat.terminal.note(f"took back {', '.join(done.paths)}")
        chat.aside.append(f"(I have taken back your uncommitted changes of {', '.join(done.paths)}.)")
    if done.let_go:
        chat.terminal.note(f"let go of {', '.join(done.let_go)}")
        chat.aside.append(f"(What is uncommitted in {', '.join(done.let_go)} is mine from here.)")
    for path in done.copies:
        chat.terminal.note(f"what it held is kept in {path}", "dim")
    if done.left:
        raise Refused(left_as_they_are(done.left, "/undo let-go", "/undo whole"))


def redo(chat: Chat, words: str) -> None:
    """Make again what /undo took back last."""
    from repoagent.edit.undo import redo as make_again

    if not chat.undone:
        raise NothingDone("nothing was taken back in this chat; `repoagent redo` is for other edits")
    result = make_again(chat.worktree, chat.undone[-1])
    chat.undone.pop()
    chat.edits[result.edit.id] = None
    paths = ", ".join(result.paths)
    chat.terminal.note(
        f"made again the change of {paths}; HEAD is now at {(result.commit or 'no commit')[:7]}",
    )
    chat.aside.append(f"(I have made your change of {paths} again.)")


def review(chat: Chat, words: str) -> None:
    """`repoagent review` of what is not committed, or else of the last commit."""
    from repoagent.cli.commands.review import command
    from repoagent.git.index import read_status

    changed = read_status(chat.worktree).changed
    arguments = ["--worktree"] if changed else ["--commit", "HEAD"]
    chat.terminal.note(f"repoagent review {' '.join(arguments)}", "dim")
    command.main(arguments, "review", standalone_mode=False, obj=chat.session)


def _last(chat: Chat) -> Edit:
    """The last edit of this chat that is not taken back; where there is none and a person can be asked, of any."""
    from repoagent.git.undo_log import find_edit, list_edits

    own = [edit for edit in list_edits(chat.worktree) if edit.id in chat.edits and not edit.undone]
    if own:
        return own[-1]
    if not chat.person:
        raise NothingDone("there is no edit of this chat to take back")
    edit = find_edit(chat.worktree, None, undone=False)
    chat.terminal.note("the last edit here was not made in this chat:")
    return edit


def _confirm(chat: Chat, question: str, shown: str) -> None:
    """Show a diff and ask. Raises NothingDone for a no; where nobody can be asked the command itself is the yes."""
    if not chat.person:
        return
    lines = shown.split("\n")
    if len(lines) > _LINES:
        lines = [*lines[:_LINES]]
    chat.terminal.diff("\n".join(lines), aside=True)
    if len(lines) < shown.count("\n"):
        chat.terminal.note("… and more", "dim")
    if chat.terminal.ask(question, _YES) != "y":
        raise NothingDone("left as it is")


def _of(chat: Chat, edit: Edit) -> str:
    from repoagent.git.process import git

    if edit.commit is None:
        return ""
    return os.fsdecode(
        git(chat.worktree.top, "show", *_PLAIN, "--format=", "--end-of-options", edit.commit, "--")
    )


def _since(chat: Chat, revision: str) -> str:
    from repoagent.git.process import git, git_output

    top = chat.worktree.top
    wanted = ("rev-parse", "--quiet", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    found = git_output(top, *wanted, ok=(0, 1, 128))
    commit = found.stdout.decode().strip()
    if found.returncode or not commit:
        raise UsageError(f"{revision} is no commit: say HEAD~1, or /diff alone")
    return os.fsdecode(git(top, "diff", *_PLAIN, commit, "--"))


_PLAIN = ("--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")


def _show(chat: Chat, text: str) -> None:
    """In the pager where it is long, as `git diff` does it."""
    terminal = chat.terminal
    if not terminal.shows:
        terminal.diff(text)
        return
    from repoagent.cli.ui import pager

    terminal._replace(pages="chat" if terminal.moves else "").diff(text)
    pager.finish()
