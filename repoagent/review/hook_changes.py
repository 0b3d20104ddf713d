"""The changes that a hook reviews: the staged change, the staged change with its message, or the commits of a push."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from repoagent.errors import UsageError
from repoagent.git.objects import resolve_commit
from repoagent.git.process import git
from repoagent.git.worktree import WorkTree, is_full_id
from repoagent.review.change import Change
from repoagent.review.finding import RULES
from repoagent.review.read_diff import ChangeSelector, merge_base, read_change

SECONDS = 60.0  # for a model, unless review.max_seconds is set: the user waits for git
MOST = 5  # branches of one push that are reviewed
REFS = 200  # most recent branches of the remote
_SCISSORS = re.compile(r"(?m)^\S+ -{8,} >8 -{8,}$")
_IGNORE = re.compile(r"(?im)^Review-Ignore\b.*$")


class PushedRef(NamedTuple):
    """A pushed branch or tag: from `base`, the last commit that the remote is known to have, to `head`."""

    name: str
    base: str
    head: str


def changes_of(
    name: str, arguments: Sequence[str], worktree: WorkTree, head: str | None, stdin: bytes
) -> tuple[list[tuple[Change, tuple[str, ...]]], list[str]]:
    """Return the changes for the git hook `name`, each with phrases for the parts that cannot be reviewed, and notes.

    The notes are for the user. For pre-push, the changes are the pushed commits that `stdin` lists. For any other hook,
    they are the commits that the `pre-commit` program passes in environment variables, or else the staged change; for
    commit-msg, the staged change has the message in the file `arguments[0]`. Raises UsageError if the message cannot be
    read, and what `read_change` raises.
    """

    def pushed(begin: str, end: str, title: str, *, own: bool) -> tuple[Change, tuple[str, ...]]:
        change, unseen = read_change(worktree, head, ChangeSelector("range", f"{begin}..{end}"))
        return replace(change, title=title, own=own), unseen

    if name == "pre-push":
        refs, notes = pushed_refs(worktree, arguments[0] if arguments else "origin", stdin)
        return [pushed(ref.base, ref.head, f"the push of {ref.name}", own=True) for ref in refs], notes
    # the `pre-commit` program passes the pushed commits in the environment
    begin, end = (os.environ.get(f"PRE_COMMIT_{side}_REF", "") for side in ("FROM", "TO"))
    if begin and end:
        own = "PRE_COMMIT_REMOTE_NAME" in os.environ
        return [pushed(begin, end, f"{begin[:12]}..{end[:12]}", own=own)], []
    change, unseen = read_change(worktree, head, ChangeSelector("staged"))
    if name != "commit-msg" or not arguments:
        return [(change, unseen)], []
    path = Path(arguments[0])
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"cannot read the commit message from {path}: {error.strerror}") from error
    text = _SCISSORS.split(text, maxsplit=1)[0]  # without the diff of `git commit -v`
    message = "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("#"))
    warnings = []
    for line in _IGNORE.findall(message):
        from repoagent.review.dismissals import ALL, ignore_trailers

        rules = [name.strip().lower() for rule, _ in ignore_trailers(line) for name in rule.split(",")]
        wrong = [name for name in rules if name not in RULES and name != ALL]
        if not rules or wrong:
            reason = f"unknown rule {wrong[0]!r}" if wrong else "the trailer names no rule"
            warnings.append(f"{line.strip()}: {reason}; the rules are: {', '.join(RULES)}")
    return [(replace(change, message=message), unseen)], warnings


def pushed_refs(worktree: WorkTree, remote: str, lines: bytes) -> tuple[list[PushedRef], list[str]]:
    """Return the refs of a push to `remote` (a name or a URL), and a sentence for each part that cannot be reviewed.

    Each of `lines` has the local ref, its object, the remote ref and its object. Skips deleted refs, objects that are
    not commits, and commits that the remote is known to have: nothing is fetched.
    """
    pushed: dict[tuple[str, str], PushedRef] = {}
    notes = []
    tips: list[str] | None = None
    for line in lines.decode("utf-8", "surrogateescape").splitlines():
        parts = line.split(" ")
        if len(parts) != 4 or not is_full_id(parts[1]) or not is_full_id(parts[3]) or not parts[1].strip("0"):
            continue
        local, oid, ref, remote_oid = parts
        name = (ref if local == "HEAD" else local).removeprefix("refs/heads/").removeprefix("refs/")
        head = resolve_commit(worktree.top, oid)
        if head is None:
            continue
        if tips is None:  # of the remote's branches; of all remotes if it is a URL
            order = ("for-each-ref", "--sort=-committerdate", f"--count={REFS}", "--format=%(objectname)")
            patterns = (f"refs/remotes/{remote}/", "refs/remotes/")
            listed = (git(worktree.top, *order, pattern).decode().split() for pattern in patterns)
            tips = next(filter(None, listed), [])
        known = resolve_commit(worktree.top, remote_oid) if remote_oid.strip("0") else None
        bases = list(dict.fromkeys([*filter(None, [known]), *tips]))
        base = merge_base(worktree.top, head, *bases) if bases else None
        if base is None:
            notes.append(f"{name} was not reviewed: the remote has no commit to compare it with")
        elif base != head:
            pushed.setdefault((base, head), PushedRef(name, base, head))
    refs = list(pushed.values())
    if len(refs) > MOST:
        omitted = f"{len(refs) - MOST} of {len(refs)} branches and tags were not reviewed"
        notes.append(f"{omitted}; the limit is {MOST} per push")
    return refs[:MOST], notes
