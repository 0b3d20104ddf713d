"""Slash commands of files: those that the model has seen, the plan, the next message in an editor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.agent.state import open_state
from repoagent.cli.chat.then import Then
from repoagent.cli.screen.clean import one_line
from repoagent.errors import NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.cli.chat.chat import Chat


def files(chat: Chat, words: str) -> None:
    """The files whose content is in the conversation, and which of them hold something else by now."""
    from repoagent.errors import RepoagentError
    from repoagent.repo import read_source
    from repoagent.work.desk import shown_in

    found = shown_in(open_state(chat.home.conversation))
    if not found:
        raise NothingDone("the model has not seen any file yet")
    for path, blob in sorted(found.items()):
        try:
            now = read_source(chat.worktree, path)
        except RepoagentError:
            state = "  (can't be read any more)"
        else:
            state = (
                "  (gone since)"
                if now.data is None
                else ""
                if now.blob == blob
                else "  (changed since it was read)"
            )
        chat.terminal.styled(f"{one_line(path)}{state}\n")


def plan(chat: Chat, words: str) -> None:
    """Show the plan; or let the person edit it, which the model is told at its next turn."""
    from repoagent.store import read_regular, write_whole

    file = chat.home.plan
    present = (read_regular(file) or b"").decode("utf-8", "surrogateescape")
    if not words:
        if not present.strip():
            raise NothingDone(
                "there is no plan yet: the model makes one for longer tasks, /plan edit is yours"
            )
        chat.terminal.result(present if present.endswith("\n") else present + "\n")
        return
    if words != "edit":
        raise UsageError("say /plan, or /plan edit")
    if not chat.person:
        raise UsageError("there is no terminal to edit the plan at")
    text = chat.terminal.edit_text(present or "- [ ] \n", ".md", cwd=chat.worktree.top)
    if text is None or text == present:
        raise NothingDone("the plan is as it was")
    write_whole(file, text.encode("utf-8", "surrogateescape"))
    chat.terminal.note("the model is told of it with your next words")


def editor(chat: Chat, words: str) -> Then:
    """The next message, written in the person's editor."""
    text = chat.terminal.edit_text("", ".md", cwd=chat.worktree.top)
    if text is None:
        raise NothingDone("nothing was written, so nothing was said")
    return Then(text.strip())
