"""What a push would bring to the other side: read from the lines that git gives its hook."""

from __future__ import annotations

from collections.abc import Iterator

from repoagent.dataclass import dataclass
from repoagent.repo.run import OFFLINE, git, git_output
from repoagent.repo.worktree import WorkTree, is_full_id

MOST = 5  # branches of one push are looked at
_REFS = 200  # of the other side, the last ones that moved


@dataclass(frozen=True)
class Pushed:
    """A branch or tag as it will be: from `base`, the last commit that the other side is known to have, to `head`."""

    name: str
    base: str
    head: str


def pushed(worktree: WorkTree, remote: str, lines: bytes) -> tuple[list[Pushed], list[str]]:
    """The changes of a push to `remote` (a name or an address), and a sentence for what can't be looked at.

    Each line has the local ref, its object, the remote ref and its object. A ref that is deleted, what is no commit,
    and what the other side has already bring nothing. After a rebase only what is new to the other side counts, as
    far as its branches are known here: nothing is fetched.
    """
    found: dict[tuple[str, str], Pushed] = {}
    notes = []
    known: list[str] | None = None
    for name, local, theirs in _refs(lines):
        head = _commit(worktree, local)
        if head is None:
            continue
        if known is None:
            known = _known(worktree, remote)
        there = [commit for commit in (_commit(worktree, theirs), *known) if commit is not None]
        base = _nearest(worktree, head, there)
        if base is None:
            notes.append(f"{name} was not looked at: the other side has nothing yet to compare it with")
        elif base != head:
            found.setdefault((base, head), Pushed(name, base, head))
    changes = list(found.values())
    if len(changes) > MOST:
        notes.append(f"{len(changes) - MOST} of {len(changes)} branches and tags were not looked at")
    return changes[:MOST], notes


def _refs(lines: bytes) -> Iterator[tuple[str, str, str]]:
    """The short name of each ref that is not deleted, its object, and that of the other side."""
    for line in lines.decode("utf-8", "surrogateescape").splitlines():
        parts = line.split(" ")
        if len(parts) != 4 or not is_full_id(parts[1]) or not is_full_id(parts[3]):
            continue
        local, oid, ref, theirs = parts
        if oid.strip("0"):
            name = ref if local == "HEAD" else local
            yield name.removeprefix("refs/heads/").removeprefix("refs/"), oid, theirs


def _commit(worktree: WorkTree, name: str) -> str | None:
    """The commit that an object is or a tag leads to; None for another one, and for one that is not here."""
    if not name.strip("0"):
        return None
    done = git_output(
        worktree.top, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", env=OFFLINE, ok=(0, 1, 128)
    )
    return done.stdout.decode().strip() or None if done.returncode == 0 else None


def _known(worktree: WorkTree, remote: str) -> list[str]:
    """Where the branches of the other side are as far as we know; of all others where it is a mere address."""
    order = ("for-each-ref", "--sort=-committerdate", f"--count={_REFS}", "--format=%(objectname)")
    for pattern in (f"refs/remotes/{remote}/", "refs/remotes/"):
        if names := git(worktree.top, *order, pattern).decode().split():
            return list(dict.fromkeys(names))
    return []


def _nearest(worktree: WorkTree, head: str, there: list[str]) -> str | None:
    """The newest commit of `head` that one of the others has too."""
    if not there:
        return None
    done = git_output(worktree.top, "merge-base", head, *there, env=OFFLINE, ok=(0, 1, 128))
    return done.stdout.decode().strip() or None if done.returncode == 0 else None
