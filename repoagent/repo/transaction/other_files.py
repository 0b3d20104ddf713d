"""The user's other uncommitted files: remembered before hooks run, and put back after them where they were lost.

Hooks lose work when they stash or check out files and do not give them back: a file is then missing, or holds what
HEAD has. Whatever else it holds, the user, or a program of theirs, has saved it since: that is left as it is.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from repoagent.repo.blobs import from_blob
from repoagent.repo.content import Content, look, same
from repoagent.repo.index import Entry
from repoagent.repo.run import git, git_output
from repoagent.repo.transaction.record import Record, Saved
from repoagent.repo.transaction.results import HOME, Meanwhile
from repoagent.repo.worktree import WorkTree
from repoagent.repo.write import Moved, put
from repoagent.store.journal import Journal, kept

_BYTES = 256 * 1024 * 1024  # of all of them; what is larger is not copied, and hooks may change it
_TRIES = 3  # how often a file may be saved in the moment in which it is put back
_OF_A_COMMIT = (
    "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "post-index-change",
    "reference-transaction",
)  # fmt: skip


def remember(top: Path, edit_id: str, paths: Sequence[str]) -> tuple[Saved, ...]:
    """What the files hold."""
    found = []
    left = _BYTES
    for number, path in enumerate(paths):
        try:
            status = (top / path).lstat()
        except OSError:
            size = 0
        else:
            if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
                continue  # a folder in the place of a deleted file
            size = status.st_size
        if size <= left:
            left -= size
            found.append(Saved(path, look(top, path), f".repoagent-{edit_id}-other-{number}"))
    return tuple(found)


def put_right(worktree: WorkTree, journal: Journal, record: Record) -> Meanwhile:
    """Give the files back what they have lost, and leave what is newer; its earlier content is kept in the journal's
    folder as `found-before-N`."""
    restored, left, sentences = [], [], []
    hooks = None
    for saved in record.saved:
        for _ in range(_TRIES):
            found = look(worktree.top, saved.path)
            if found == saved.content or saved.content is None:
                break
            if found is not None:
                hooks = has_hooks(worktree) if hooks is None else hooks
                if not hooks or not _is_as_in_head(worktree, record, saved, found):
                    break
            try:
                put(worktree.top, saved.path, found, saved.content, saved.temporary)
            except Moved:  # it was saved in this instant
                continue
            found = saved.content
            restored.append(saved.path)
            break
        if found == saved.content:
            continue
        left.append(saved.path)
        if saved.content is None:
            sentences.append(f"{saved.path}, which you had deleted, exists again and was left unchanged")
            continue
        said = f"{saved.path} changed while git was committing and was left unchanged"
        if found is None or found.data != saved.content.data:
            copy = keep_free(journal, "found-before", saved.content)
            said += f"; its earlier content is in {HOME}/{copy}"
        sentences.append(said)
    return Meanwhile(tuple(restored), tuple(left), sentences=tuple(sentences))


def has_hooks(worktree: WorkTree) -> bool:
    """Whether git runs a program of the user's when it commits."""
    named = git(worktree.top, "rev-parse", "--git-path", "hooks")
    folder = worktree.top / os.fsdecode(named.removesuffix(b"\n"))
    if any((folder / name).is_file() and os.access(folder / name, os.X_OK) for name in _OF_A_COMMIT):
        return True
    return bool(git(worktree.top, "config", "--get-regexp", r"^hook\..*\.event$", ok=(0, 1)))  # git 2.54


def keep_free(journal: Journal, name: str, content: Content) -> str:
    """Store the bytes in the journal's folder, unless they are there; the name of the file: `name` and a number."""
    number = 0
    while (file := journal.path(f"{name}-{number}")).exists():
        if kept(journal.folder, file.name) == content.data:
            return file.name
        number += 1
    journal.keep(file.name, content.data)
    return file.name


def _is_as_in_head(worktree: WorkTree, record: Record, saved: Saved, found: Content) -> bool:
    """Whether the file is what a checkout of the commit that the transaction began on writes."""
    listed = git_output(
        worktree.top, "ls-tree", "-z", "--full-tree", record.head or "HEAD", "--", saved.path, ok=(0, 128)
    )
    fields = os.fsdecode(listed.stdout).partition("\t")[0].split(" ")
    if listed.returncode or len(fields) != 3 or fields[1] != "blob":
        return False
    head = from_blob(worktree, saved.path, Entry(fields[0], fields[2]))
    # where the user has changed nothing but the mode, that is what a checkout takes back
    return same(found, head) and (not same(found, saved.content) or found.mode == head.mode)
