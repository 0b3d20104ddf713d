"""What a program asks of a repository: nothing of the work tree, the index or a branch is changed by it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from repoagent.errors import UsageError
from repoagent.library.asking import named, ready
from repoagent.library.opening import find_worktree, from_top, load_settings, log, several

if TYPE_CHECKING:
    from repoagent.config import Settings
    from repoagent.history import Past
    from repoagent.llm import Model
    from repoagent.memory.recall import Answer as Recalled
    from repoagent.memory.recall import Kind
    from repoagent.repo import WorkTree
    from repoagent.review.finding import Report
    from repoagent.split.symbols.files import Outline
    from repoagent.uses import Answer
    from repoagent.work.answers.neighbors import Neighbors
    from repoagent.work.answers.segments import Split


class Looking:
    """The half of `Repository` that changes nothing; see there."""

    def __init__(
        self, path: str | os.PathLike[str] = ".", *, settings: Mapping[str, object] | None = None
    ) -> None:
        self._worktree: WorkTree = find_worktree(path)
        self._given: Mapping[str, object] = dict(settings or {})
        settled = load_settings(self._worktree, self._given)  # what can't be meant is raised at once
        for warning in settled.warnings:
            log.warning(warning)

    def __repr__(self) -> str:
        return f"Repository({str(self.top)!r})"

    @property
    def top(self) -> Path:
        """The top of the work tree, free of symbolic links."""
        return self._worktree.top

    def neighbors(
        self,
        files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        revision: str = "HEAD",
        limit: int = 20,
        min_score: float = 0.0,
    ) -> Neighbors:
        """Which files change together with `files` (folders too): a place to look, the surest first. The history is
        read from an index that is made and kept up to date on use. Raises UsageError for what does not exist."""
        from repoagent.work.answers.neighbors import neighbors_of

        paths = [from_top(self._worktree, file) for file in several(files)]
        return neighbors_of(
            self._worktree, paths, revision=revision, limit=_limit(limit), min_score=min_score
        )

    def uses(self, what: str | os.PathLike[str], *, limit: int = 20) -> Answer:
        """Where a symbol is used: `what` is a name, `Class.method`, `FILE:NAME`, or a FILE, for all that it defines and
        other files use. At most `limit` files of a symbol, and symbols of a file. It matches by name; withheld files
        are left out. Raises UsageError for what is no symbol and no file, Refused for a file that may not be read."""
        from repoagent.work.answers.uses import uses_of

        top = self._worktree
        return uses_of(top, os.fspath(what), limit=_limit(limit), path_of=lambda path: from_top(top, path))

    def history(self, file: str | os.PathLike[str], *, revision: str = "HEAD", limit: int = 20) -> Past:
        """Who works on a file or folder, and what each of its last `limit` commits did to it, newest first.

        Raises NothingDone where there is no commit of it yet, UsageError for a path that never was.
        """
        from repoagent.work.answers.past import past_of

        return past_of(self._worktree, from_top(self._worktree, file), revision=revision, limit=_limit(limit))

    def outline(self, file: str | os.PathLike[str], *, language: str | None = None) -> Outline:
        """What a file defines, with its lines (from 1, both counted). `language` is needed where its name does not say
        it. Raises UsageError for a file that has no outline."""
        from repoagent.work.answers.outlined import outlined

        return outlined(self._worktree, from_top(self._worktree, file), language=language)[1]

    def split(
        self,
        file: str | os.PathLike[str],
        *,
        target_bytes: int | None = None,
        natural: bool = False,
        language: str | None = None,
        write: bool = False,
    ) -> Split:
        """A file in segments of at most `target_bytes`, cut where its language has a seam; with `natural` one for each
        outermost unit. With `write` they become files in `.repoagent/splits/`. Raises UsageError, Refused."""
        from repoagent.split import TARGET_BYTES
        from repoagent.work.answers.segments import split_of

        return split_of(
            self._worktree, from_top(self._worktree, file),
            target=target_bytes or TARGET_BYTES, natural=natural, language=language, write=write,
        )  # fmt: skip

    def recall(
        self,
        query: str,
        *,
        limit: int = 10,
        files: Sequence[str | os.PathLike[str]] = (),
        kinds: Sequence[Kind] = (),
    ) -> Recalled:
        """What was noted, asked, said and summarized that fits `query`, best first, in the `hits` of the answer. Only
        about `files` (folders too) and of `kinds` ("note", "edit", "conversation", "commit", "summary"), where given.

        Raises UsageError for a query without a word, Busy while another process makes the index.
        """
        from repoagent.memory.recall.ask import Search, answer
        from repoagent.memory.recall.query import parse
        from repoagent.repo import layout

        if not parse(query).words:
            raise UsageError(f"there is no word in the query {query!r}: say at least one to search for")
        paths = [from_top(self._worktree, file) for file in files]
        how = Search(limit=_limit(limit), kinds=kinds, files=[] if "." in paths else paths)
        return answer(layout(self._worktree), query, how, warn=log.warning)

    def review(
        self,
        range: str = "",
        *,
        base: str = "",
        commit: str = "",
        tracked: bool = False,
        diff: str | bytes = b"",
        files: Sequence[str | os.PathLike[str]] = (),
        model: str | Model | Literal[True] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> Report:
        """Findings on what is staged; or on `range` ("A..B"), on what HEAD has added since it parted from `base`, on
        one `commit`, on all that the `tracked` files hold other than HEAD, or on a `diff`. Of it only
        `files`, where given.

        What history says needs no model. One is asked, and paid, only where `model` names it, brings it, or is True for
        the configured one; each of its findings quotes code that is really there.

        Raises UsageError for a change that does not exist; with a model also ModelError, LimitReached.
        """
        from repoagent.work.answers.review import reviewed, wanted

        asks = model is not None
        own = None if model is True else model
        found = self._settings(settings, named(own))
        if model is True and (name := found.text_or_none("review.model")):
            found = self._settings(settings, {"model": name})
        what = wanted(
            self._worktree, range=range, base=base, commit=commit, tracked=tracked,
            diff=diff.encode("utf-8", "surrogateescape") if isinstance(diff, str) else diff,
            files=[from_top(self._worktree, file) for file in files],
        )  # fmt: skip
        said: list[str] = []
        means = ready(found, own, said) if asks else None
        report = reviewed(self._worktree, what, found, ready=means, asks=asks)
        return replace(report, notes=(*said, *report.notes)) if said else report

    def _settings(self, given: Mapping[str, object] | None, more: Mapping[str, object]) -> Settings:
        merged = {
            **self._given,
            **(given or {}),
            **{key: value for key, value in more.items() if value is not None},
        }
        return load_settings(self._worktree, merged)


def _limit(limit: int) -> int:
    if limit < 1:
        raise UsageError(f"a limit of {limit} leaves nothing to show: say 1 or more")
    return limit
