"""Unfinished edits, each with a conversation file and, while it runs, a lock.

Repeating a request on the same bytes resumes its edit, so that no reply is paid for twice. `settle_unfinished` cleans
up after crashes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.errors import Busy, Refused
from repoagent.git.worktree import WorkTree, layout_of
from repoagent.storage.locks import hold_lock

if TYPE_CHECKING:
    from repoagent.llm.conversation import Turn
    from repoagent.storage.layout import Layout, Warn

PREFIX = "edit-"


def conversation_file(dirs: Layout, edit_id: str) -> Path:
    return dirs.conversations / f"{PREFIX}{edit_id}.md"


@contextmanager
def edit_lock(dirs: Layout, edit_id: str) -> Iterator[None]:
    """Hold the lock of a running edit. Raises Busy if another process holds it."""
    # a listing of conversations may hold it for a moment
    with hold_lock(dirs.locks / f"{PREFIX}{edit_id}", timeout=0.2, label=f"the edit {edit_id}"):
        try:
            yield
        finally:  # removed while locked: a waiting process then creates a new file
            with suppress(OSError):  # an unlocked file is harmless, and a later command removes it
                (dirs.locks / f"{PREFIX}{edit_id}").unlink()


def find_unfinished(dirs: Layout, wanted: str) -> str | None:
    """The id of the newest interrupted edit whose request has the fingerprint `wanted`; None if there is none.

    Also removes the conversations of edits that were killed before their first reply.
    """
    for file in sorted(dirs.conversations.glob(f"{PREFIX}*.md"), reverse=True):
        turns = turns_of(file)
        edit_id = file.stem.removeprefix(PREFIX)
        if turns and all(turn.role != "assistant" for turn in turns):
            if _is_dead(dirs, edit_id):
                forget_edit(dirs, edit_id)
        elif turns and turns[0].meta.get("asked") == wanted and _is_dead(dirs, edit_id):
            return edit_id
    return None


def turns_of(file: Path) -> tuple[Turn, ...]:
    """The turns of the conversation in `file`; a single placeholder turn if it is malformed or has a newer format."""
    from repoagent.llm import conversation

    try:
        content = conversation.read_conversation(file)
    except Refused:
        return (conversation.Turn("assistant", "?"),)
    return content.turns if content else ()


def forget_edit(dirs: Layout, edit_id: str) -> None:
    """Remove the conversation of an edit that has ended, and its lock."""
    file = conversation_file(dirs, edit_id)
    file.with_name(f"{file.name}.lock").unlink(missing_ok=True)
    file.unlink(missing_ok=True)


def set_aside(dirs: Layout, edit_id: str) -> Path:
    """Rename the conversation of an edit that will not be resumed; returns its new path."""
    file = conversation_file(dirs, edit_id)
    renamed = file.with_name(f"kept-{edit_id}.md")
    if file.exists():
        file.replace(renamed)
    forget_edit(dirs, edit_id)
    return renamed


def _is_dead(dirs: Layout, edit_id: str) -> bool:
    """Whether no process holds the lock of an edit; if so, removes the lock."""
    try:
        with edit_lock(dirs, edit_id):
            return True
    except Busy:
        return False


def settle_unfinished(worktree: WorkTree, say: Warn, warn: Warn) -> None:
    """Complete or roll back interrupted changes, complete the records of killed commands, and remove their files.

    Calls `say` with a sentence for each of these, and `warn` with one for each failure, which a later command retries.
    Raises what `git.transaction.finish.recover_transactions` raises.
    """
    from repoagent.storage.layout import has_leftovers

    dirs = layout_of(worktree)
    if dirs.journal.exists():
        from repoagent.git.transaction.finish import recover_transactions

        for sentence in recover_transactions(worktree):
            say(sentence)
    if not has_leftovers(dirs):
        return
    try:
        dead = [_is_dead(dirs, file.name.removeprefix(PREFIX)) for file in dirs.locks.glob(f"{PREFIX}*")]
        interrupted = False
        with suppress(OSError):  # there is no lock
            interrupted = dirs.memory_lock.lstat().st_size > 0
        if not (any(dead) or interrupted or any(dirs.pending.glob("*"))):
            return
        from repoagent.edit.memory import complete_pending
        from repoagent.memory.identity.store import clear_unborn
        from repoagent.storage.atomic import remove_temporary_files

        for sentence in complete_pending(worktree):
            say(sentence)
        for folder in (dirs.root, dirs.private, dirs.pending, dirs.proposals, dirs.conversations, dirs.sent):
            remove_temporary_files(folder)
        clear_unborn(dirs)
        for lock in dirs.conversations.glob(f"{PREFIX}*.md.lock"):
            if not lock.with_suffix("").exists():
                lock.unlink(missing_ok=True)
    except (Busy, Refused, OSError) as error:  # the memory is secondary: the command continues
        warn(f"could not clean up after a killed command (the next command will try again): {error}")
