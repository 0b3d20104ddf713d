"""One file's history: its authors, its commits and what each did, as a report and as text for prompts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused
from repoagent.git.files import check_path, no_such_file
from repoagent.git.objects import no_such_commit, resolve_commit
from repoagent.git.process import GitError, git_output
from repoagent.git.worktree import WorkTree
from repoagent.history.commit_details import HistoryStep, describe_step, history_steps, without_withheld
from repoagent.history.file_log import RENAMES, SECONDS, file_log, is_shallow, read_log
from repoagent.history.log import FileCommit, find_rename, git_offline
from repoagent.history.render import DID_WIDTH, SUBJECT_WIDTH, history_block, plain_line

REPORT_SECONDS = 3.0
WALKED = 10_000  # commits from HEAD that the prompt of an edit looks through
_OUTLINES = 0.25  # seconds of CPU for the outlines of a prompt
# Accounts of services that open changes by themselves and do not call themselves [bot].
_SERVICES = (
    "dependabot|dependabot-preview|renovate|renovatebot|greenkeeper|greenkeeperio|snyk|github[ -]actions?|"
    "pre-commit-ci|pre-commit[ .]ci|allcontributors|imgbot|mergify|bors|semantic-release|release-please|depfu|pyup|"
    "whitesource|mend|copybara-service|copybara|google-oss-robot|k8s-ci-robot|weblate|hosted weblate|travis ci|"
    "scala-steward|scala steward|r-ryantm|deepsource-autofix|restyled-io|codecov|crowdin|transifex"
)
_NAME = re.compile(rf".*\[bot\]|(?:.*[\s_-])?bot|(?:{_SERVICES})(?:[\s_-](?:bot|app|ci))?", re.IGNORECASE)
_ADDRESS = re.compile(
    rf".*\[bot\]@.*|(?:\d+\+)?(?:{_SERVICES})(?:-?bot)?@.*|bot@.*|action@github\.com"
    r"|(?:noreply|no-reply)@(?!github\.com).*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Author:
    """A person or program, by the name that `.mailmap` gives; `first` and `last` are author dates, YYYY-MM-DD."""

    name: str
    commits: int
    first: str
    last: str
    bot: bool = False


@dataclass(frozen=True)
class Authors:
    """The authors of `commits` commits, the most active first. `partial`: there may be older commits by others."""

    persons: tuple[Author, ...] = ()
    bots: tuple[Author, ...] = ()
    commits: int = 0
    partial: bool = False


def is_bot(name: str, email: str) -> bool:
    """Whether the author is a program: `[bot]` in the name or the address, or a service known to be one."""
    return bool(_NAME.fullmatch(name.strip()) or _ADDRESS.fullmatch(email.strip()))


def authors_of(commits: Iterable[FileCommit], *, partial: bool = False) -> Authors:
    """The authors of `commits`. Commits under the same name count as one person's, whatever the address."""
    dates: dict[tuple[str, bool], list[str]] = {}
    for commit in commits:
        author = (commit.author, is_bot(commit.author, commit.email))
        dates.setdefault(author, []).append(commit.date[:10])
    authors = [Author(name, len(days), min(days), max(days), bot) for (name, bot), days in dates.items()]
    authors.sort(key=lambda author: author.name)
    authors.sort(key=lambda author: (author.commits, author.last), reverse=True)
    persons, bots = (tuple(author for author in authors if author.bot is bot) for bot in (False, True))
    return Authors(persons, bots, sum(author.commits for author in authors), partial)


@dataclass(frozen=True)
class HistoryReport:
    """The history of a file or folder. `path` is relative to the top, `revision` the id of the commit it was read at.
    `partial`: older commits may be missing. `notes` are sentences for the user: the file was deleted, the clone is
    shallow, time ran out."""

    path: str
    revision: str
    steps: tuple[HistoryStep, ...]
    people: Authors
    partial: bool = False
    directory: bool = False
    notes: tuple[str, ...] = ()


def read_history(
    top: Path, path: str, *, revision: str = "HEAD", limit: int = 20, seconds: float = REPORT_SECONDS
) -> HistoryReport:
    """The last `limit` commits of `path` (a file or a directory, relative to the top, "." for all) at `revision`,
    newest first, and the authors of all its commits.

    git gets at most `seconds` of wall time. Raises UsageError for an unknown revision or path, NothingDone if the path
    has no commits yet, GitError if git fails.
    """
    commit = resolve_revision(top, revision)
    kind = _kind(top, commit, path)
    history = file_log(top, path, limit, revision=commit, seconds=seconds)
    if not history.commits:
        check_path(path)
        where = "" if revision == "HEAD" else f" at {revision}"
        if history.partial:
            where += f", but git has searched only {REPORT_SECONDS:g} s, or objects are missing"
        if os.path.lexists(top / path):
            if not where:
                staged = git_output(top, "ls-files", "--cached", "--", path, ok=(0, 128)).stdout
                where = f": the file is {'staged but not committed yet' if staged else 'not tracked'}"
            raise NothingDone(f"no commit touches {path}{where}")
        raise no_such_file(path, top, reason=f"and no commit touches it{where}")
    notes = []
    if not kind:
        newest, target = history.commits[0], None
        with suppress(GitError):
            target = find_rename(git_offline(top, *RENAMES, newest.commit), newest.path, forward=True)
        gone = f"moved to {target.path}" if target else "deleted"
        notes.append(f"{gone} in {newest.short}, {newest.date[:10]}")
    if kind == "commit":
        notes.append(f"{path} is a submodule; these are the changes to its recorded commit")
    if history.partial:
        if is_shallow(top):
            notes.append("this clone is shallow; older commits are missing")
        else:
            notes.append("older commits are omitted: git timed out or objects are missing")
    people = authors_of(history.commits, partial=history.partial)
    partial = history.partial or len(history.commits) > limit
    done = history_steps(top, history.commits[:limit])
    return HistoryReport(path, commit, tuple(done), people, partial, kind == "tree", tuple(notes))


def resolve_revision(top: Path, revision: str) -> str:
    """The id of the commit that `revision` names. Raises NothingDone before the first commit, UsageError if `revision`
    names no commit."""
    if commit := resolve_commit(top, revision):
        return commit
    if revision == "HEAD":
        raise NothingDone("no history: this repository has no commits yet")
    raise no_such_commit(revision)


def _kind(top: Path, commit: str, path: str) -> str:
    """ "blob", "tree" or "commit" (a submodule) as git calls it; "" if the commit has no such path."""
    if path == ".":
        return "tree"
    try:
        data = git_offline(top, "ls-tree", "-z", "--full-tree", commit, "--", path)
    except GitError:  # a clone without trees
        return "blob"
    for entry in data.split(b"\0"):
        head, _, name = entry.partition(b"\t")
        if name == os.fsencode(path):
            return head.split(b" ")[1].decode()
    return ""


def prompt_block(
    worktree: WorkTree,
    path: str,
    commits: int,
    why_not: Callable[[str], str | None],
    *,
    seconds: float = SECONDS,
    summaries: Path | None = None,
) -> str:
    """For a prompt: a file's authors and at most `commits` of its newest commits; "" for a file that git does not know.
    Files for which `why_not` gives a reason are not named. `summaries` is the folder with summaries by models. Raises
    GitError if git fails."""
    history = file_log(worktree.top, path, commits, seconds=seconds)
    newest = history.commits[:commits]
    newest_steps = history_steps(worktree.top, newest, limit=len(newest), seconds=_OUTLINES)
    people = authors_of(history.commits, partial=history.partial)
    return history_block(
        list(without_withheld(_summarized(newest_steps, summaries), why_not)),
        partial=history.partial or people.commits > len(newest_steps),
        limit=commits,
        people=people,
    )


def walked_since(worktree: WorkTree) -> int | None:
    """The date (seconds since 1970) of the oldest commit that the prompt of an edit considers; None if the history has
    fewer than WALKED commits. It depends on the history alone, so that the same state always gives the same prompt."""
    options = (f"--skip={WALKED}", "--format=%ct", "--end-of-options", "HEAD", "--")
    date = git_output(worktree.top, "log", "-1", *options, ok=(0, 128)).stdout.strip()
    return int(date) if date.isdigit() else None


def last_changes(
    worktree: WorkTree, path: str, commits: int, since: int | None, summaries: Path | None = None
) -> tuple[str, list[str]]:
    """Date, subject and summary of the last `commits` commits of a file, newest first, one per line; "" for a file that
    git does not know. Then the file's earlier names in them. `since` is the result of `walked_since`. There is no time
    limit, so that the same state always gives the same prompt."""
    try:
        history = read_log(worktree.top, path, commits, seconds=None, since=since)
    except GitError:  # a prompt does without it
        return "", []
    lines = []
    for step in _summarized([HistoryStep(commit, was=commit.was) for commit in history.commits], summaries):
        subject = plain_line(step.commit.subject, SUBJECT_WIDTH) or "(no subject)"
        summary = plain_line(step.summary or describe_step(step), DID_WIDTH)
        lines.append(
            f"{plain_line(step.commit.date[:10], 10)} {subject}" + (f" ({summary})" if summary else "") + "\n"
        )
    return "".join(lines), [commit.was for commit in history.commits if commit.was]


def _summarized(file_steps: list[HistoryStep], summaries: Path | None) -> list[HistoryStep]:
    """The steps with the saved summaries of their commits, without those that cannot be read."""
    if summaries is None or not summaries.is_dir():
        return file_steps
    from repoagent.history.commit_summaries import add_summaries, read_summaries

    saved = {}
    for step in file_steps:
        with suppress(Refused):
            saved.update(read_summaries(summaries, [step], lambda sentence: None))
    return list(add_summaries(file_steps, saved))
