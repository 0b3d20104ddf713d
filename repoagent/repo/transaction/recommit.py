"""Replace or withdraw the commit that HEAD is on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from repoagent.repo.branches import set_back
from repoagent.repo.commits import Commit
from repoagent.repo.index import Entry, put_entries, reset_to, write_tree
from repoagent.repo.run import git
from repoagent.repo.worktree import WorkTree


def withdraw(worktree: WorkTree, made: Commit) -> None:
    """Take HEAD back from the commit `made` to its parent, see `set_back`. Raises GitError when HEAD is not on it."""
    where = ("HEAD", made.parent) if made.parent else ("-d", "HEAD")
    reason = "repoagent: withdraw a commit that is not the planned one"
    set_back(worktree, "-m", reason, *where, made.oid)


def with_other_tree(
    worktree: WorkTree, index: Path, made: Commit, entries: Mapping[str, Entry | None], key: str | None = None
) -> str:
    """Replace the commit `made`, which HEAD is on, by the same one with `entries` as they are given.

    Message, author, committer and times stay; a signed commit is signed again, with `key` if one is given.
    Hooks do not run again, except for one of reference transactions. Raises GitError when HEAD is not on it, or
    when it can't be signed.
    """
    reset_to(worktree, index, made.oid)
    put_entries(worktree, index, entries)
    tree = write_tree(worktree, index)
    raw = git(worktree.top, "cat-file", "commit", made.oid)
    if b"\ngpgsig" in raw.partition(b"\n\n")[0]:
        new = _sign(worktree, tree, made, raw, key or "")
    else:
        new = git(
            worktree.top, "hash-object", "-t", "commit", "-w", "--stdin", read_only=False,
            stdin=b"tree " + tree.encode() + raw[raw.index(b"\n") :],
        ).decode().strip()  # fmt: skip
    reason = "repoagent: commit again without what a hook had added of other work"
    git(worktree.top, "update-ref", "-m", reason, "HEAD", new, made.oid, read_only=False)
    return new


def _sign(worktree: WorkTree, tree: str, made: Commit, raw: bytes, key: str) -> str:
    """The commit by way of `commit-tree -S`, which takes from the environment who and when."""
    header, _, message = raw.partition(b"\n\n")
    fields = dict(line.split(b" ", 1) for line in header.split(b"\n") if not line.startswith(b" "))
    env = {}
    for role in ("author", "committer"):
        name, _, rest = fields[role.encode()].partition(b" <")
        email, _, date = rest.partition(b"> ")
        values = {"NAME": os.fsdecode(name), "EMAIL": os.fsdecode(email), "DATE": "@" + date.decode()}
        env.update({f"GIT_{role.upper()}_{what}": value for what, value in values.items()})
    encoding = fields.get(b"encoding", b"UTF-8").decode()
    parents = [argument for parent in made.parents for argument in ("-p", parent)]
    out = git(
        worktree.top, "-c", f"i18n.commitEncoding={encoding}", "commit-tree", f"-S{key}", *parents, tree,
        stdin=message, env=env, read_only=False,
    )  # fmt: skip
    return out.decode().strip()
