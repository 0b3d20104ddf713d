"""The part of a prompt about a file's history.

`HistoryLookup` gathers it within a time limit while other work proceeds; `last_changes` is limited by commits alone, so
that the same state always gives the same prompt.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.git.process import GitError, git_output
from repoagent.history.commit_details import Step, did, steps
from repoagent.history.file_history import Authors, authors_of, commits_of, counted, look_up
from repoagent.history.recent_commits import ALL, SECONDS, FileHistory, FileLog
from repoagent.history.render import DID_WIDTH, SUBJECT_WIDTH, TOKENS_A_COMMIT, history_block, plain

if TYPE_CHECKING:
    from repoagent.git.worktree import WorkTree

_CANDIDATES = 2  # for each commit that is shown, of which the telling ones are
_OUTLINES = 0.25  # seconds of CPU
_INDEX = 0.2  # seconds that the index gets to take in new commits
WALKED = 10_000  # commits from HEAD that an edit's prompt looks through


class HistoryLookup:
    """A look into a file's history that runs since it was made; a context manager that ends it.

    `commits` is how many are shown at most. Where there is an index of the history it is asked, else git walks, once,
    for `seconds` of wall time. `summaries` is the folder with lines of models, where there is one.
    """

    def __init__(
        self,
        worktree: WorkTree,
        path: str,
        commits: int,
        *,
        seconds: float = SECONDS,
        summaries: Path | None = None,
    ) -> None:
        self._worktree, self._path, self._commits = worktree, path, commits
        self._seconds, self._summaries = seconds, summaries
        self._found: tuple[FileHistory, Authors] | None = None
        self._walk = self._start() if commits and not self._has_index() else None

    def wait(self) -> None:
        """Wait for git, until its seconds are over. Raises GitError when it fails."""
        if self._found is not None or not self._commits:
            return
        most = self._commits * _CANDIDATES
        known = self._indexed(most) if self._walk is None else None
        if known is not None:
            recent, everything = known
        else:
            self._walk = self._walk or self._start()
            everything = self._walk.result()
            commits = counted(self._worktree.top, everything.commits[:most])
            recent = FileHistory(everything.path, commits, everything.partial)
        self._found = recent, authors_of(everything.commits, partial=everything.partial)

    def block(self, *, symbols: bool = True) -> str:
        """The block: who, then the newest and most telling commits, in 45 tokens for each that may be shown; ""
        for a file that git does not know. `symbols`: whether the definitions that were touched are looked for.
        """
        self.wait()
        if self._found is None:
            return ""
        recent, people = self._found
        found = self._steps(recent) if symbols else [Step(commit) for commit in recent.commits]
        partial = recent.partial or people.commits > len(found)
        return history_block(
            found, partial=partial, limit=self._commits, people=people,
            budget=TOKENS_A_COMMIT * self._commits,
        )  # fmt: skip

    def close(self) -> None:
        """End git if it still runs."""
        if self._walk is not None:
            self._walk.close()

    def _start(self) -> FileLog:
        return FileLog(self._worktree.top, self._path, ALL, seconds=self._seconds, counts=False)

    def _has_index(self) -> bool:
        from repoagent.git.worktree import layout

        return layout(self._worktree).history.is_file()

    def _indexed(self, most: int) -> tuple[FileHistory, FileHistory] | None:
        commits = commits_of(self._worktree, self._path, "HEAD", seconds=_INDEX)
        try:
            return look_up(self._worktree.top, self._path, commits, most) if commits else None
        except GitError:
            return None

    def _steps(self, recent: FileHistory) -> list[Step]:
        top, most = self._worktree.top, self._commits * _CANDIDATES
        done = steps(top, recent.commits, limit=most, seconds=_OUTLINES)
        if self._summaries is None or not self._summaries.is_dir():
            return done
        from repoagent.history.summary_store import add_saved

        return list(add_saved(self._summaries, done))

    def __enter__(self) -> HistoryLookup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def walked_since(worktree: WorkTree) -> int | None:
    """The date (seconds since 1970) of the oldest commit that an edit's prompt looks at; None where the history has
    fewer than WALKED commits. It depends on the history alone, so that the same state always gives the same prompt."""
    asked = (
        "log",
        "-1",
        f"--skip={WALKED}",
        "--no-show-signature",
        "--format=%ct",
        "--end-of-options",
        "HEAD",
        "--",
    )
    found = git_output(worktree.top, *asked, ok=(0, 128)).stdout.strip()
    return int(found) if found.isdigit() else None


def last_changes(
    worktree: WorkTree, path: str, commits: int, since: int | None, summaries: Path | None = None
) -> str:
    """Date and subject of the last `commits` commits of a file, newest first, a line each, with a model's line where
    `summaries` has one; "" for a file that git does not know. `since` is what `walked_since` says."""
    with FileLog(worktree.top, path, commits, seconds=None, counts=False, since=since) as running:
        try:
            found = [Step(commit, was=commit.was) for commit in running.result().commits]
        except GitError:  # a prompt is whole without it
            return ""
    if summaries is not None and summaries.is_dir():
        from repoagent.history.summary_store import add_saved

        found = list(add_saved(summaries, found))
    return "".join(f"{_change(step)}\n" for step in found)


def _change(step: Step) -> str:
    subject = plain(step.commit.subject, SUBJECT_WIDTH) or "(no subject)"
    what = plain(step.summary or did(step), DID_WIDTH)
    return f"{plain(step.commit.date[:10], 10)} {subject}" + (f" ({what})" if what else "")
