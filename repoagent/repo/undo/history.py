"""The commit of an edit in the history of HEAD, and whether it can be left without anybody noticing."""

from __future__ import annotations

from repoagent.errors import Refused
from repoagent.repo.commits import Commit, contains, has_object, read_commit
from repoagent.repo.facts import current_branch
from repoagent.repo.run import git, git_output
from repoagent.repo.undo.edits import Edit, list_edits
from repoagent.repo.worktree import WorkTree

# Refs that do not show a commit to anybody else.
_PRIVATE = ("refs/stash", "refs/worktree/", "refs/bisect/")
_SEARCHED = 1000  # commits looked through for an edit whose commit was rewritten


def commit_of(worktree: WorkTree, edit: Edit) -> str:
    """The commit of the edit in the history of HEAD, also after an amend or a rebase: its trailer tells, which
    `git merge --squash` indents. Raises Refused when there is none."""
    if edit.commit and contains(worktree, "HEAD", edit.commit):
        return edit.commit
    out = git_output(
        worktree.top, "log", f"-n{_SEARCHED}", "--format=%H",
        "--extended-regexp", f"--grep=^ *Repoagent-Edit: {edit.id}$", "HEAD", "--", ok=(0, 128),
    ).stdout  # fmt: skip
    found = out.decode().split()
    if not found:
        raise Refused(_not_here(worktree, edit))
    return found[0]


def _not_here(worktree: WorkTree, edit: Edit) -> str:
    here = current_branch(worktree)
    if edit.branch != here and edit.commit and contains(worktree, f"refs/heads/{edit.branch}", edit.commit):
        return (
            f"the commit of the edit {edit.id} is not in the history of this branch: switch to its branch "
            f"(it was made on {edit.branch}), or name another edit"
        )
    more = " any more" if edit.branch == here else ""
    others = reversed([one for one in list_edits(worktree) if not one.undone and one.id != edit.id])
    there = next((one for one in others if one.commit and contains(worktree, "HEAD", one.commit)), None)
    offer = "" if there is None else f"; the last edit that is: `repoagent undo {there.id}`"
    return (
        f"the commit of the edit {edit.id} is not in the history of {here or 'HEAD'}{more}, so there is none to take "
        f"back; what is left of it in your files is uncommitted (`git diff HEAD`){offer}"
    )


def is_whole(worktree: WorkTree, edit: Edit, commit: str) -> bool:
    """Whether the commit holds just what the edit committed (it may have a new message or parent)."""
    if commit == edit.commit or edit.commit is None:
        return commit == edit.commit
    if not has_object(worktree, edit.commit):
        return False
    one, other = read_commit(worktree, commit), read_commit(worktree, edit.commit)
    return (one.changed, one.was) == (other.changed, other.was)


def is_shared(worktree: WorkTree, commit: str) -> bool:
    """Whether anything but the branch of HEAD has the commit: another branch, tag, remote, work tree."""
    mine = git_output(worktree.top, "symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).stdout.decode().strip()
    no_links = "--format=%(if)%(symref)%(then)%(else)%(refname)%(end)"  # what a link leads to is listed too
    refs = git(worktree.top, "for-each-ref", no_links, f"--contains={commit}")
    if any(ref != mine and not ref.startswith(_PRIVATE) for ref in refs.decode(errors="replace").split()):
        return True
    listed = git(worktree.top, "worktree", "list", "--porcelain").decode(errors="replace").split("\n\n")
    if not worktree.is_linked:
        others = listed[1:]  # the main one; that of a submodule is not named by its top
    else:
        others = [entry for entry in listed if f"worktree {worktree.top}\n" not in entry + "\n"]
    heads = [line[5:] for entry in others for line in entry.splitlines() if line.startswith("HEAD ")]
    return any(contains(worktree, other, commit) for other in heads if other.strip("0"))


def is_as_stored(worktree: WorkTree, made: Commit) -> bool:
    """Whether git shows the parents that are written in the commit: not where history is cut off (shallow),
    grafted or replaced, so that moving to a parent would be moving to somewhere else."""
    raw = git(worktree.top, "cat-file", "commit", made.oid, env={"GIT_NO_REPLACE_OBJECTS": "1"})
    lines = raw.partition(b"\n\n")[0].splitlines()
    return [line[7:].decode() for line in lines if line.startswith(b"parent ")] == list(made.parents)
