"""Slash commands of what was changed: seen, taken back, made again, reviewed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from repoagent.cli.run.outcome import described
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.work.landing.left import (
    Overlapping,
    TakenBack,
    left,
    left_as_they_are,
    left_diff,
    take_back,
)

if TYPE_CHECKING:
    from repoagent.cli.chat.chat import Chat
    from repoagent.repo.undo import Edit

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
        text = left_diff(chat.worktree, chat.home)
        if not text:
            raise NothingDone(
                "this chat has changed nothing that is not committed; /diff HEAD~1 shows the last commit"
            )
    _show(chat, text)


def undo(chat: Chat, words: str) -> None:
    """Take back what was changed last: what is not committed, or else the last edit of this chat."""
    paths = left(chat.worktree, chat.home)
    if paths:
        _confirm(
            chat,
            f"Take back what is not committed in {', '.join(paths)}",
            left_diff(chat.worktree, chat.home),
        )
        done = take_back(chat.worktree, chat.home, _OVERLAPPING.get(words.strip(), "leave"))
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
    from repoagent.cli.review.command import command
    from repoagent.repo.status import read_status

    changed = read_status(chat.worktree).changed
    arguments = ["--worktree"] if changed else ["--commit", "HEAD"]
    chat.terminal.note(f"repoagent review {' '.join(arguments)}", "dim")
    command.main(arguments, "review", standalone_mode=False, obj=chat.session)


def _last(chat: Chat) -> Edit:
    """The last edit of this chat that is not taken back; where there is none and a person can be asked, of any."""
    from repoagent.repo.undo import find_edit, list_edits

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
    from repoagent.repo.run import git

    if edit.commit is None:
        return ""
    return os.fsdecode(
        git(chat.worktree.top, "show", *_PLAIN, "--format=", "--end-of-options", edit.commit, "--")
    )


def _since(chat: Chat, revision: str) -> str:
    from repoagent.repo.run import git, git_output

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
    from repoagent.cli.screen import pager

    terminal._replace(pages="chat" if terminal.moves else "").diff(text)
    pager.finish()
