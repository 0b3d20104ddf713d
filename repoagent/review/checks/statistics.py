"""fix-prone, unusual-size and unusual-width: a change compared with past changes of the repository.

A change of a file is followed by a fix if the subject of one of the file's next commits says that it repairs something;
the usual share is that of all changes of the recently changed files. A file is fix-prone if even the lower bound of
Wilson's interval (1927) for its share is clearly above that. The size and the width of a change are compared with a
quantile of past commits.

`Habits` are learned from the index and a bounded sample of commits (at most 2,000, and the lines of 300), in the
background if that is allowed, and saved.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from repoagent.errors import Busy, Refused
from repoagent.git.process import GitError, git
from repoagent.review.checks.context import CheckContext
from repoagent.review.checks.file_origin import is_code, is_counted
from repoagent.review.finding import Finding, Location, reviews_dir
from repoagent.storage import json_files
from repoagent.storage.layout import ensure
from repoagent.storage.locks import locked

if TYPE_CHECKING:
    from repoagent.git.worktree import WorkTree
    from repoagent.history.cochange.score import Commit, View
    from repoagent.history.index.reader import IndexView
    from repoagent.storage.layout import Layout

NEXT = 3  # commits of the file after a change to search for a fix
FIX_COMMITS = 8  # newest commits of a file to read: old fixes say less
FEWEST_FIXES = 5  # changes that a file needs
CLEARLY = 1.5  # times the usual share
SURE = 1.645  # standard deviations: 95 %, one-sided
FILES = 400  # last changed files to read
MOST_PRONE = 100  # fix-prone files to save
LARGEST = 30  # files of a commit that counts: a larger commit does not fix each of them
QUANTILE = 0.99
LEAST_FILES, LEAST_LINES = 8, 300  # however small commits usually are here
FEWEST = 100  # commits to compare with
COUNTED = 2000  # files of a change whose lines are counted
EVERY = 20  # new commits after which habits are learned again
COMMITS, SAMPLE = 1000, 300  # commits whose files, and whose lines, are counted
SECONDS = 20.0  # to count lines
VERSION = 1
LOCK = ".learn.lock"
_FIX = re.compile(
    rb"\b(?:hot|bug)?fix(?:e[sd]|ing|up)?\b|\bbugs?\b|\bregress(?:ion|ions|ed|es)?\b|\brevert(?:s|ed|ing)?\b"
    rb"|\bbroken\b|\bbreakage\b|\bcrash(?:es|ed|ing)?\b|\brepair(?:s|ed)?\b|\bunbreak\b",
    re.IGNORECASE,
)


class FixRate(NamedTuple):
    """A file: how many of its `changes` were followed by a fix, and the newest of these fixes (full ids)."""

    changes: int
    followed: int
    fixes: tuple[str, ...]


class Habits(NamedTuple):
    """`newest` is the commit up to which they were learned, `mined` the number of commits in the index at that time.

    `threshold` is that of `cochange.calibrate`. 99 of 100 of the last `commits` commits touch at most `files` files;
    of the last `sampled` ones, 99 of 100 have at most `lines` changed lines (0: too few to tell). `fixing` is the share
    of changes that are followed by a fix, `prone` the files with clearly more.
    """

    newest: str
    mined: int
    threshold: float
    files: int
    commits: int
    lines: int
    sampled: int
    fixing: float
    prone: Mapping[bytes, FixRate]


def find_fix_prone(context: CheckContext) -> Iterator[Finding]:
    """Yield a finding for at most three fix-prone files of the change, the most prone first."""
    prone = context.habits.prone if context.habits else {}
    changed = [file for file in context.change.files if file.status not in ("added", "deleted")]
    rates = {file: rate for file in changed if (rate := prone.get(os.fsencode(file.old_path)))}
    if not rates or context.habits is None:
        return
    from repoagent.review.checks.context import evidence_of, only_comments

    files = [file for file in rates if not only_comments(context.change, file)]
    files.sort(key=lambda file: -wilson_lower(rates[file].followed, rates[file].changes))
    for path, rate in [(file.path, rates[file]) for file in files[:3]]:
        share = rate.followed / rate.changes
        body = (
            f"{rate.followed} of its last {rate.changes} changes ({share:.0%}) had a fix, judging by the subject, "
            f"among the next {NEXT} commits of this file; the average of all recently changed files is "
            f"{context.habits.fixing:.0%}. Consider a second look or a test."
        )
        title = f"changes to {path} are followed by fixes more often than usual here"
        evidence = evidence_of(context.top, rate.fixes)
        yield context.finding("fix-prone", title, Location(path), body, path, evidence=evidence)


def find_unusual_width(context: CheckContext) -> Iterator[Finding]:
    """Yield one finding for the change as a whole."""
    habits, files = context.habits, context.change.files
    if habits is None or not habits.files or context.change.kind == "range":
        return
    if len(files) <= max(habits.files, LEAST_FILES):
        return
    title = f"the change touches {len(files):,} files: 99 of 100 commits here touch {habits.files:,} or fewer"
    body = (
        f"Compared with the last {habits.commits:,} commits, without merges. A change that does one thing is easier to "
        "review, to revert and to find with git bisect."
    )
    yield context.finding("unusual-width", title, Location(min(file.path for file in files)), body, "width")


def find_unusual_size(context: CheckContext) -> Iterator[Finding]:
    """Yield one finding for the change as a whole. Generated and vendored files and lock files do not count."""
    habits, change = context.habits, context.change
    if habits is None or not habits.lines or change.kind == "range" or len(change.files) > COUNTED:
        return
    counts = {
        file.path: sum(len(hunk.removed) + len(hunk.added) for hunk in change.read_lines(file))
        for file in change.files
        if is_counted(file.path)
    }
    total = sum(counts.values())
    if total <= max(habits.lines, LEAST_LINES):
        return
    largest = max(counts, key=lambda path: (counts[path], path))
    title = f"the change has {total:,} changed lines: 99 of 100 commits here have {habits.lines:,} or fewer"
    body = (
        f"{counts[largest]:,} of them are in {largest}. Compared with the last {habits.sampled:,} commits, without "
        "merges, lock files and vendored files."
    )
    yield context.finding("unusual-size", title, Location(largest), body, "size")


def is_fix(subject: bytes) -> bool:
    """Whether the subject of a commit says that it repairs something."""
    return _FIX.search(subject) is not None


def wilson_lower(hits: int, of: int) -> float:
    """The lower bound of Wilson's score interval for a share of `hits` in `of`."""
    share, z = hits / of, SURE
    middle = share + z * z / (2 * of)
    return (middle - z * sqrt(share * (1 - share) / of + z * z / (4 * of * of))) / (1 + z * z / of)


def quantile(values: Sequence[int]) -> int:
    """The 99 % quantile; 0 for fewer than 100 values."""
    return sorted(values)[min(len(values) - 1, int(QUANTILE * len(values)))] if len(values) >= FEWEST else 0


def read(layout: Layout) -> Habits | None:
    """The saved habits; None if there are none or they cannot be read."""
    try:
        path = reviews_dir(layout) / "habits.json"
        value = json_files.read_document(path, version=VERSION, warn=lambda _: None)
    except Refused:  # written by a newer repoagent, or not a regular file
        return None
    try:
        if value is None:
            return None
        prone = {
            os.fsencode(path): FixRate(int(changes), int(followed), tuple(map(str, fixes)))
            for path, (changes, followed, fixes) in value["prone"].items()
        }
        files, commits, lines, sampled = (int(value[key]) for key in ("files", "commits", "lines", "sampled"))
        mined, threshold, fixing = int(value["mined"]), float(value["threshold"]), float(value["fixing"])
        return Habits(str(value["newest"]), mined, threshold, files, commits, lines, sampled, fixing, prone)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def learn(worktree: WorkTree, layout: Layout, *, seconds: float = SECONDS) -> Habits | None:
    """Update the index to HEAD, learn the habits from it, and save them. Return None if there is no history or no
    complete index yet, or while another process learns.

    Raises UsageError, GitError, Refused.
    """
    from repoagent.history.index.index import open_index
    from repoagent.history.index.schema import NoCommits, NoIndex

    try:
        ensure(layout)
        with (
            locked(layout.root / LOCK, timeout=0, what="what is usual here"),
            open_index(worktree, warn=lambda _: None) as index,
        ):
            tip = index.resolve("HEAD").decode("ascii")
            state = index.update("HEAD")
            if state.new or state.end == "mining":  # another process is building the index
                return None
            habits = habits_of(index.view("HEAD"), worktree.top, tip, seconds=seconds, mined=state.commits)
    except (NoCommits, NoIndex, Busy):
        return None
    prone = {os.fsdecode(path): list(rate) for path, rate in habits.prone.items()}
    with suppress(Refused):  # if saving fails, the next review learns again
        ensure(layout)
        path = reviews_dir(layout) / "habits.json"
        json_files.write_document(path, {**habits._asdict(), "prone": prone}, version=VERSION)
    return habits


def learn_in_background(worktree: WorkTree, layout: Layout) -> bool:
    """Start `repoagent review --learn` for this repository in a separate process with low priority. Return whether one
    is running: never in CI, where the machine is short-lived, nor if nothing can be saved."""
    if os.environ.get("CI", "").lower() not in {"", "0", "false"}:
        return False
    from repoagent.history.index.index import spawn_apart

    try:
        ensure(layout)
        with locked(layout.root / LOCK, timeout=0, what="what is usual here"):
            pass
    except Busy:
        return True
    except Refused:
        return False
    # GIT_INDEX_FILE may name an index that git deletes after the commit
    command = ["-C", str(worktree.top), "review", "--learn", "--background"]
    spawn_apart(command, {name: value for name, value in os.environ.items() if name != "GIT_INDEX_FILE"})
    return True


def habits_of(view: IndexView, top: Path, tip: str, *, seconds: float, mined: int) -> Habits:
    """The habits in the history `view` of the commit `tip`. `seconds` bounds the counting of lines."""
    from repoagent.history.cochange.missing import calibrate

    def repairing(numbers: Iterable[int]) -> dict[int, str]:
        ids = view.ids(numbers)
        stdin = "".join(f"{commit}\n" for commit in ids.values()).encode()
        out = git(
            top, "log", "--no-walk=unsorted", "--ignore-missing", "--stdin", "-z", "--no-color", "--format=%H %s",
            stdin=stdin,
        )  # fmt: skip
        entries = [entry.partition(b" ") for entry in out.split(b"\0") if entry]
        fixes = {commit.decode("ascii") for commit, _, subject in entries if is_fix(subject)}
        return {number: commit for number, commit in ids.items() if commit in fixes}

    sizes = [commit.size for commit in view.latest(COMMITS) if commit.size]
    lines = _changed_lines(top, tip, seconds)
    counts = (quantile(sizes), len(sizes), quantile(lines), len(lines))
    return Habits(tip, mined, calibrate(view), *counts, *_learn_fixes(view, repairing))


def _learn_fixes(
    view: View, repairing: Callable[[Iterable[int]], Mapping[int, str]]
) -> tuple[float, dict[bytes, FixRate]]:
    """The share of all changes that are followed by a fix, and the fix-prone files by path. `repairing` selects the
    fixes among commit numbers, and maps them to their full ids."""
    latest = [commit for commit in view.latest(2000) if 0 < commit.size <= LARGEST]
    files = list(dict.fromkeys(file for commit in latest for file in commit.files))[:FILES]
    code = {file for file, path in view.paths(files).items() if is_code(os.fsdecode(path))}
    histories = {
        file: [commit for commit in commits if commit.size <= LARGEST]
        for file, commits in view.many([file for file in files if file in code], FIX_COMMITS).items()
    }
    fixes = repairing({commit.number for commits in histories.values() for commit in commits})
    rates = {file: _fix_rate(commits, fixes) for file, commits in histories.items()}
    changes = sum(rate.changes for rate in rates.values())
    if not changes:
        return 0.0, {}
    usual = sum(rate.followed for rate in rates.values()) / changes
    lower = {
        file: wilson_lower(rate.followed, rate.changes)
        for file, rate in rates.items()
        if rate.changes >= FEWEST_FIXES
    }
    prone = [file for file, share in lower.items() if share > usual * CLEARLY]
    prone.sort(key=lambda file: -lower[file])
    return usual, {path: rates[file] for file, path in view.paths(prone[:MOST_PRONE]).items()}


def _fix_rate(history: Sequence[Commit], repairing: Mapping[int, str]) -> FixRate:
    """The rate of a file with the commits `history`, newest first. Ignores changes whose next commits are not in it."""
    fixes = [commit.number in repairing for commit in history]
    followed = sum(any(fixes[at - NEXT : at]) for at in range(NEXT, len(history)))
    newest = [repairing[commit.number] for commit in history if commit.number in repairing][:5]
    return FixRate(max(0, len(history) - NEXT), followed, tuple(newest))


def _changed_lines(top: Path, tip: str, seconds: float) -> list[int]:
    """The number of changed lines of each of the newest commits without merges, as many as git lists in time; lines of
    lock files and the like do not count. Empty in a partial clone that lacks the texts."""
    from repoagent.history.log import TimedGit

    walk = TimedGit(
        top, "log", "--numstat", "-z", "--format=%x01", "--no-merges", "--no-renames", "--no-ext-diff", "--no-textconv",
        "--no-color", f"--max-count={SAMPLE}", tip, "--", deadline=time.monotonic() + seconds,
    )  # fmt: skip
    try:
        data, late = walk.read()
    except GitError:
        return []
    entries = data.split(b"\x01")[1:]
    sizes = []
    for entry in entries[:-1] if late else entries:
        rows = [row.strip(b"\n").split(b"\t", 2) for row in entry.split(b"\0") if row.strip()]
        # a binary file has dashes for numbers
        counted = (row for row in rows if row[0] != b"-" and is_counted(os.fsdecode(row[2])))
        sizes.append(sum(int(added) + int(removed) for added, removed, _ in counted))
    return sizes
