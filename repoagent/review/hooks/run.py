"""What each hook has to look at, as changes.

What a push would bring to the other side: read from the lines that git gives its hook.

The message of a commit as commit-msg gets it: what will be of it, and whether its trailers can be understood.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.git.process import OFFLINE, git, git_output
from repoagent.git.worktree import WorkTree, is_full_id
from repoagent.review.change import Change
from repoagent.review.diff.read import read_change
from repoagent.review.diff.select import ChangeSelector
from repoagent.review.dismissals import ALL, ignored
from repoagent.review.rules import RULES

SECONDS = 60.0  # for a model, unless something else is set: somebody waits for git


@dataclass(frozen=True)
class HookChanges:
    """The changes of a hook, what of each was left out, and sentences for a person."""

    changes: tuple[tuple[Change, tuple[str, ...]], ...]
    notes: tuple[str, ...] = ()


def changes_of(
    name: str, arguments: Sequence[str], worktree: WorkTree, head: str | None, stdin: bytes
) -> HookChanges:
    """What the hook `name` of git was run for. pre-commit, and whatever else comes before a commit: what is staged;
    commit-msg: the same with its message, from the file in `arguments`; pre-push: what `stdin` says is pushed.

    The program pre-commit says in its environment which commits it was run for. Raises UsageError for a message that
    can't be read, and as `read_change`.
    """
    if name == "pre-push":
        return _pushed(arguments, worktree, head, stdin)
    begin, end = (os.environ.get(f"PRE_COMMIT_{side}_REF", "") for side in ("FROM", "TO"))
    if begin and end:
        pushed = "PRE_COMMIT_REMOTE_NAME" in os.environ
        return HookChanges((_range(worktree, head, begin, end, f"{begin[:12]}..{end[:12]}", own=pushed),))
    change, unseen = read_change(worktree, head, ChangeSelector("staged"), bare=False)
    if name != "commit-msg" or not arguments:
        return HookChanges(((change, unseen),))
    message = read_message(Path(arguments[0]))
    return HookChanges(((replace(change, message=message), unseen),), tuple(unknown_trailers(message)))


def _pushed(arguments: Sequence[str], worktree: WorkTree, head: str | None, stdin: bytes) -> HookChanges:
    remote = arguments[0] if arguments else "origin"
    found, notes = pushed_refs(worktree, remote, stdin)
    changes = tuple(
        _range(worktree, head, one.base, one.head, f"{one.name}, as it is pushed", own=True) for one in found
    )
    return HookChanges(changes, tuple(notes))


def _range(
    worktree: WorkTree, head: str | None, begin: str, end: str, title: str, *, own: bool
) -> tuple[Change, tuple[str, ...]]:
    change, unseen = read_change(worktree, head, ChangeSelector("range", f"{begin}..{end}"), bare=False)
    return replace(change, title=title, own=own), unseen


MOST = 5  # branches of one push are looked at
_REFS = 200  # of the other side, the last ones that moved


@dataclass(frozen=True)
class PushedRef:
    """A branch or tag as it will be: from `base`, the last commit that the other side is known to have, to `head`."""

    name: str
    base: str
    head: str


def pushed_refs(worktree: WorkTree, remote: str, lines: bytes) -> tuple[list[PushedRef], list[str]]:
    """The changes of a push to `remote` (a name or an address), and a sentence for what can't be looked at.

    Each line has the local ref, its object, the remote ref and its object. A ref that is deleted, what is no commit,
    and what the other side has already bring nothing. After a rebase only what is new to the other side counts, as
    far as its branches are known here: nothing is fetched.
    """
    found: dict[tuple[str, str], PushedRef] = {}
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
            found.setdefault((base, head), PushedRef(name, base, head))
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


_SCISSORS = re.compile(r"(?m)^\S+ -{8,} >8 -{8,}$")
_IGNORE = re.compile(r"(?im)^Review-Ignore\b.*$")


def read_message(path: Path) -> str:
    """The text in the file, without what git cuts off: comments, and the diff of `git commit -v`. UsageError where
    there is no such file."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"the message of the commit can't be read from {path}: {error.strerror}") from error
    if match := _SCISSORS.search(text):
        text = text[: match.start()]
    return "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("#"))


def unknown_trailers(message: str) -> list[str]:
    """A sentence for each Review-Ignore trailer that has no effect: it names no rule that there is, or none at all."""
    told = []
    for line in _IGNORE.findall(message):
        rules = [name.strip().lower() for rule, _ in ignored(line) for name in rule.split(",")]
        wrong = [name for name in rules if name not in RULES and name != ALL]
        if not rules or wrong:
            what = f"no rule {wrong[0]!r}" if wrong else "no rule in it"
            told.append(f"{line.strip()}: there is {what}; there are: {', '.join(RULES)}")
    return told
