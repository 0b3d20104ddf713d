"""Slash commands on the conversation (/model, /mode, /save, /load, /clear, /compact, /cost) and on the changes of the
chat (/diff, /undo, /redo, /review). Each takes the chat and the words after the command.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.agent.state import is_beside, open_state
from repoagent.cli.chat.chat import Speaking, Then, open_model, recap, request, show_left
from repoagent.cli.commands.run_output import commit_summary
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.llm.model import display_name
from repoagent.llm.usage import cost_text, dollars
from repoagent.tasks.runs.directory import new_name
from repoagent.tasks.uncommitted_by_run import (
    Overlapping,
    RestoreResult,
    conflict_message,
    restore_changes,
    uncommitted_diff,
    uncommitted_files,
)

if TYPE_CHECKING:
    from repoagent.agent.approvals.policy import Mode
    from repoagent.cli.chat.chat import Chat
    from repoagent.git.undo_log import Edit

MODE_LINES: dict[Mode, str] = {
    "ask": "ask before each change and each command",
    "auto-edit": "change files without asking, ask before each command",
    "auto": "change files and run commands, in a sandbox, without asking",
    "read-only": "change nothing",
}


def model(chat: Chat, words: str) -> None:
    """Show the model, or use another one from the next message on. The meter of the session stays."""
    if not words:
        known = chat.model_setup.context_tokens
        window = f", context of {known:,} tokens" if known else ""
        chat.terminal.result(f"{display_name(chat.model_setup.model.spec)}{window}\n")
        return
    from repoagent.config.layers import load

    flags = {**chat.flags, "model": words}
    settings = load(chat.layout, flags=flags)
    fresh = open_model(chat.options, settings, chat.terminal, chat.model_setup.meter.limits)
    chat.model_setup = replace(fresh, meter=chat.model_setup.meter)
    chat.settings, chat.flags = settings, flags
    chat.terminal.note(f"now using {display_name(fresh.model.spec)}")


def mode(chat: Chat, words: str) -> None:
    """Show the approval mode, or change it from the next message on."""
    if not words:
        chat.terminal.result(f"{chat.mode}: {MODE_LINES[chat.mode]}\n")
        return
    new_mode = next((name for name in MODE_LINES if name == words.lower()), None)
    if new_mode is None:
        raise UsageError(f"unknown mode '{words}'; use one of {', '.join(MODE_LINES)}")
    chat.mode = chat.options.mode = new_mode
    chat.terminal.note(f"{new_mode}: {MODE_LINES[new_mode]}")


def save(chat: Chat, words: str) -> None:
    """Save a copy under a name."""
    from repoagent.memory.conversation_changes import save as save_conversation
    from repoagent.memory.conversation_names import named
    from repoagent.memory.conversations import ConversationResolver, find

    if not words:
        raise UsageError("missing name: use /save NAME")
    if not open_state(chat.run_dir.conversation).turns:
        raise NothingDone("nothing to save: the conversation is empty")
    at = ConversationResolver(chat.layout, chat.worktree, chat.worktree.top, warn=chat.terminal.warn)
    save_conversation(chat.layout, find(at, chat.name), named(chat.layout, words, own=True))
    chat.terminal.note(f"saved as {words}; /load {words} continues from there")


def load(chat: Chat, words: str) -> None:
    """Continue a copy of a saved conversation; the saved one does not change."""
    from repoagent.memory.conversation_changes import branch
    from repoagent.memory.conversation_names import named
    from repoagent.memory.conversations import ConversationResolver, find

    if not words:
        raise UsageError("missing name: use /load NAME; `repoagent conversation list` shows the names")
    at = ConversationResolver(chat.layout, chat.worktree, chat.worktree.top, warn=chat.terminal.warn)
    saved = find(at, words)
    name = new_name("chat")
    branch(chat.layout, saved, named(chat.layout, name))
    before = _begin(chat, name)
    chat.terminal.note(f"continuing a copy of {words} as {name}; {before}")
    recap(saved.conversation.turns, chat.terminal)


def clear(chat: Chat, words: str) -> None:
    """Start a new conversation; the current one stays on disk."""
    if not open_state(chat.run_dir.conversation).turns:
        raise NothingDone("nothing to clear: the conversation is empty")
    before = _begin(chat, new_name("chat"))
    chat.terminal.note(f"started a new conversation; {before}")


def _begin(chat: Chat, name: str) -> str:
    """Switch to the conversation `name`; returns how to resume the one before."""
    show_left(uncommitted_files(chat.worktree, chat.run_dir), chat.terminal)
    before, chat.name = chat.name, name
    chat.lives = False
    chat.aside.clear()
    chat.edits.clear()
    return f"resume the previous one with `repoagent chat --resume {before}`"


def resume(chat: Chat, words: str) -> Then:
    """Resume a turn that was stopped, or that ended at a limit or with an error."""
    if not unfinished(chat):
        raise NothingDone("nothing to continue: the last turn is complete")
    return Then("")


def unfinished(chat: Chat) -> bool:
    """Whether the last turn is incomplete."""
    from repoagent.tasks.runs.list import CONVERSATION, Run, refreshed
    from repoagent.tasks.runs.record import Record

    turns = open_state(chat.run_dir.conversation).turns
    if not any(turn.role == "user" and not is_beside(turn) for turn in turns):
        return False
    state = refreshed(Run(chat.run_dir, Record(name=chat.name), ""), warn=chat.terminal.warn).state
    return state not in {"done", "answered", "rejected", CONVERSATION}


def compact(chat: Chat, words: str) -> None:
    """Write a checkpoint now; it replaces the older turns in what is sent from the next message on."""
    from repoagent.cli.commands.run_ui import RunTerminal
    from repoagent.tasks.session import compact as checkpoint

    if not open_state(chat.run_dir.conversation).turns:
        raise NothingDone("nothing to summarize: the conversation is empty")
    with Speaking(chat.terminal, "summarizing") as working:
        ui = RunTerminal.of(chat.terminal, working, chat.mode)
        before, after = checkpoint(chat.worktree, request(chat, ""), chat.settings, ui, chat.model_setup)
    chat.terminal.note(
        f"compacted: {after:,} tokens are sent from now on, instead of {before:,}; the file keeps every turn"
    )


def cost(chat: Chat, words: str) -> None:
    """Show the usage of this session, and the cost of all calls of today."""
    meter = chat.model_setup.meter
    usage = meter.usage
    about = "about " if usage.estimated else ""
    cached = f" ({usage.cache_read:,} cached)" if usage.cache_read else ""
    price = "unknown price" if meter.cost is None else cost_text(meter.cost)
    calls = f"{meter.attempts:,} call{'s' * (meter.attempts != 1)}"
    tokens = f"{about}{usage.total - usage.output:,} tokens in{cached}, {usage.output:,} out"
    chat.terminal.result(f"this session: {calls}, {tokens}, {price}\n")
    if meter.book is not None:
        limit = f" of {dollars(meter.limits.day, 0)}" if meter.limits.day is not None else ""
        chat.terminal.result(f"total today: {dollars(meter.book.today())}{limit}\n")


_DIFF_LINES = 60  # shown with a question
_OVERLAPPING: dict[str, Overlapping] = {"let-go": "let-go", "whole": "whole"}


def diff(chat: Chat, words: str) -> None:
    """Show the uncommitted changes of this chat; with a revision, all changes since it."""
    if words:
        text = _since(chat, words)
        if not text:
            raise NothingDone(f"no changes since {words}")
    else:
        text = uncommitted_diff(chat.worktree, chat.run_dir)
        if not text:
            raise NothingDone("no uncommitted changes in this chat; /diff HEAD~1 shows the last commit")
    _show(chat, text)


def undo(chat: Chat, words: str) -> None:
    """Undo the uncommitted changes of this chat; without any, its last edit."""
    paths = uncommitted_files(chat.worktree, chat.run_dir)
    if paths:
        question = f"Undo the uncommitted changes in {', '.join(paths)}"
        _confirm(chat, question, uncommitted_diff(chat.worktree, chat.run_dir))
        _report_undone(
            chat, restore_changes(chat.worktree, chat.run_dir, _OVERLAPPING.get(words.strip(), "leave"))
        )
        return
    from repoagent.edit.undo import undo as undo_edit

    edit = _last(chat)
    subject = commit_summary(chat.worktree, edit.commit)[1] if edit.commit else "a change without a commit"
    what = f"{edit.commit[:7]} {subject}" if edit.commit else subject
    _confirm(chat, f"Undo {what} ({', '.join(edit.paths)})", _patch_of(chat, edit))
    result = undo_edit(chat.worktree, edit.id)
    chat.undone.append(edit.id)
    how = "" if result.moved or result.edit.no_commit else " with a new commit"
    chat.terminal.note(f"undid {what}{how}; /redo restores it")
    chat.aside.append(f"(I have undone your change of {', '.join(edit.paths)}: {subject}.)")


def _report_undone(chat: Chat, done: RestoreResult) -> None:
    if done.paths:
        chat.terminal.note(f"undid {', '.join(done.paths)}")
        chat.aside.append(f"(I have undone your uncommitted changes of {', '.join(done.paths)}.)")
    if done.let_go:
        chat.terminal.note(f"let go of {', '.join(done.let_go)}")
        chat.aside.append(f"(The uncommitted changes in {', '.join(done.let_go)} are mine from now on.)")
    for path in done.copies:
        chat.terminal.note(f"saved the previous content in {path}", "dim")
    if done.left:
        raise Refused(conflict_message(done.left, "/undo let-go", "/undo whole"))


def redo(chat: Chat, words: str) -> None:
    """Redo the edit that /undo undid last."""
    from repoagent.edit.undo import redo as redo_edit

    if not chat.undone:
        raise NothingDone("nothing to redo in this chat; use `repoagent redo` for other edits")
    result = redo_edit(chat.worktree, chat.undone[-1])
    chat.undone.pop()
    chat.edits[result.edit.id] = None
    paths = ", ".join(result.paths)
    head = f"; HEAD is now at {result.commit[:7]}" if result.commit else ""
    chat.terminal.note(f"redid the change of {paths}{head}")
    chat.aside.append(f"(I have redone your change of {paths}.)")


def review(chat: Chat, words: str) -> None:
    """Run `repoagent review` on the uncommitted changes; without any, on the last commit."""
    from repoagent.cli.commands.review import command
    from repoagent.git.index import read_status

    changed = read_status(chat.worktree).changed
    arguments = ["--worktree"] if changed else ["--commit", "HEAD"]
    chat.terminal.note(f"repoagent review {' '.join(arguments)}", "dim")
    command.main(arguments, "review", standalone_mode=False, obj=chat.session)


def _last(chat: Chat) -> Edit:
    """The last edit of this chat that is not undone; at a terminal, without one, the last edit of the work tree."""
    from repoagent.git.undo_log import find_edit, list_edits

    own = [edit for edit in list_edits(chat.worktree) if edit.id in chat.edits and not edit.undone]
    if own:
        return own[-1]
    if not chat.person:
        raise NothingDone("nothing to undo: this chat made no edits")
    edit = find_edit(chat.worktree, None, undone=False)
    chat.terminal.note("this chat made no edits; the last edit in this work tree is:")
    return edit


def _confirm(chat: Chat, question: str, shown: str) -> None:
    """Show a diff and ask; without a terminal the command itself is the yes. Raises NothingDone for a no."""
    if not chat.person:
        return
    lines = shown.split("\n")
    chat.terminal.diff("\n".join(lines[:_DIFF_LINES]), aside=True)
    if min(len(lines), _DIFF_LINES) < shown.count("\n"):
        chat.terminal.note("… and more", "dim")
    if chat.terminal.ask(question, {"y": "undo", "n": "keep"}) != "y":
        raise NothingDone("nothing was undone")


def _patch_of(chat: Chat, edit: Edit) -> str:
    from repoagent.git.process import git

    if edit.commit is None:
        return ""
    return os.fsdecode(
        git(chat.worktree.top, "show", *_PLAIN, "--format=", "--end-of-options", edit.commit, "--")
    )


def _since(chat: Chat, revision: str) -> str:
    from repoagent.git.process import git, git_output

    top = chat.worktree.top
    rev_parse = ("rev-parse", "--quiet", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    result = git_output(top, *rev_parse, ok=(0, 1, 128))
    commit = result.stdout.decode().strip()
    if result.returncode or not commit:
        raise UsageError(f"unknown revision '{revision}': use HEAD~1, for example, or /diff alone")
    return os.fsdecode(git(top, "diff", *_PLAIN, commit, "--"))


_PLAIN = ("--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")


def _show(chat: Chat, text: str) -> None:
    """Print a diff, through the pager at a terminal, as `git diff` does."""
    terminal = chat.terminal
    if not terminal.shows:
        terminal.diff(text)
        return
    from repoagent.cli.ui import pager

    terminal._replace(pages="chat" if terminal.moves else "").diff(text)
    pager.finish()
