"""The read-only half of `Repository` (`Queries`), and how it finds the work tree, the settings and the model.

Nothing here changes files, the index, a branch, or the environment of the process.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Literal

from repoagent.config.layers import load
from repoagent.config.settings import Settings
from repoagent.errors import UsageError
from repoagent.git.worktree import WorkTree, layout, open_worktree, relative
from repoagent.storage.layout import send_to

if TYPE_CHECKING:
    from git import Diff, Repo

    from repoagent.api.gitpython import Revision
    from repoagent.api.results import Neighbors, Split
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.history.file_history import HistoryReport
    from repoagent.llm.model import Model
    from repoagent.llm.usage import Limits
    from repoagent.memory.search.passages import Kind
    from repoagent.memory.search.search import SearchResult as Recalled
    from repoagent.review.finding import Report
    from repoagent.syntax.outline import Outline
    from repoagent.uses.query import Answer

_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR")
_opening = Lock()
log = logging.getLogger("repoagent")
log.addHandler(logging.NullHandler())


def find_worktree(path: str | os.PathLike[str]) -> WorkTree:
    """The work tree of `path`. Restores the variables that `open_worktree` sets in the environment.

    Raises UsageError as `open_worktree`, and for a repository that git finds only with GIT_DIR and GIT_WORK_TREE: these
    would apply to every other repository of the process too.
    """
    start = Path(path).absolute()
    with _opening:
        before = {name: os.environ.get(name) for name in _VARIABLES}
        try:
            worktree = open_worktree(start)
            changed = [name for name in _VARIABLES if os.environ.get(name) != before[name]]
        finally:
            for name, value in before.items():
                if os.environ.get(name) != value:
                    _put(name, value)
    if before["GIT_DIR"] or before["GIT_WORK_TREE"]:
        _refuse_stranger(worktree, start, before)
    elif changed:
        raise UsageError(
            f"git finds {worktree.git_dir} from {worktree.top} only with GIT_DIR and GIT_WORK_TREE: set both in the "
            "environment before you start the process"
        )
    send_to(log.warning)
    return worktree


def _put(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _refuse_stranger(worktree: WorkTree, start: Path, variables: Mapping[str, str | None]) -> None:
    """Refuse a path outside of the repository that `variables` name: git would open that one for every path."""
    relative_ones = [name for name, value in variables.items() if value and not Path(value).is_absolute()]
    if relative_ones:
        raise UsageError(
            f"{', '.join(relative_ones)} in the environment is relative to the current folder: make it absolute, or "
            "unset it"
        )
    if variables["GIT_DIR"] and not variables["GIT_WORK_TREE"]:
        raise UsageError(
            "GIT_DIR is set in the environment without GIT_WORK_TREE, so git takes any folder for the work tree: set "
            "both, or unset it"
        )
    if not Path(os.path.realpath(start)).is_relative_to(worktree.top):
        raise UsageError(
            f"{start} is outside {worktree.top}, which GIT_DIR and GIT_WORK_TREE in the environment name: unset them"
        )


def load_settings(worktree: WorkTree, overrides: Mapping[str, object]) -> Settings:
    """The settings of the user and the repository, with the `overrides` of the program by key. Raises UsageError for an
    unknown key and for a value that the option does not take."""
    from repoagent.config.options import find_or_refuse

    for key, value in overrides.items():
        find_or_refuse(key)
        if isinstance(value, str) and "\0" in value:
            raise UsageError(f"{key} cannot contain a NUL: {value!r}")
    return load(layout(worktree), cwd=worktree.top, flags=overrides)


def from_top(worktree: WorkTree, path: str | os.PathLike[str]) -> str:
    """A path, absolute or relative to the top, as one relative to the top. Raises UsageError outside of the work
    tree."""
    return relative(worktree, os.fspath(path), worktree.top)


def path_list(files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """One path or several as a list."""
    if isinstance(files, (str, os.PathLike)):
        return [os.fspath(files)]
    return [os.fspath(file) for file in files]


def revision_text(revision: str | Revision) -> str:
    """A revision for git: text unchanged, a `git.Commit` or a reference by its name. Raises UsageError."""
    if isinstance(revision, str):
        return revision
    from repoagent.api.gitpython import revision_name

    return revision_name(revision)


def patch_bytes(patch: str | bytes | Iterable[Diff]) -> bytes:
    """The bytes of a patch: of a text, or of a `git.DiffIndex`. Raises what `gitpython.patch_text` does."""
    if isinstance(patch, bytes):
        return patch
    if isinstance(patch, str):
        return patch.encode("utf-8", "surrogateescape")
    from repoagent.api.gitpython import patch_text

    return patch_text(patch)


def model_override(model: str | Model | None) -> dict[str, object]:
    """The setting for a model that is given by name; none for a model object."""
    return {"model": model} if isinstance(model, str) else {}


def open_model(
    settings: Settings,
    model: str | Model | None,
    notes: list[str],
    limits: Limits | None = None,
    *,
    needed: bool = True,
) -> ModelSetup:
    """The model and its meter; appends to `notes` what the user must know of it. Raises ModelError (also where one is
    `needed` and none is configured), UsageError for an impossible limit and for `manual`, which needs a terminal."""
    from repoagent.edit.model_setup import model_setup
    from repoagent.llm.open_model import NoModel, choose_model
    from repoagent.llm.registry import provider_of

    own = None if model is None or isinstance(model, str) else model
    try:
        asks = own is None and provider_of(choose_model(settings).spec).answered_by == "user"
    except NoModel:
        if needed:
            raise
        asks = False
    if asks:
        raise UsageError(
            "the model manual needs a terminal: name another model, or pass an object with the methods of "
            "repoagent.llm.model.Model"
        )
    return model_setup(settings, say=notes.append, model=own, limits=limits, needed=needed)


class Queries:
    """The half of `Repository` that changes nothing; see there."""

    def __init__(
        self, path: str | os.PathLike[str] | Repo = ".", *, settings: Mapping[str, object] | None = None
    ) -> None:
        self._git: Repo | None = None
        if not isinstance(path, (str, os.PathLike)):
            from repoagent.api.gitpython import worktree_path

            self._git, path = path, worktree_path(path)
        self._worktree: WorkTree = find_worktree(path)
        self._overrides: Mapping[str, object] = dict(settings or {})
        for warning in load_settings(
            self._worktree, self._overrides
        ).warnings:  # an invalid option is raised here
            log.warning(warning)

    def __repr__(self) -> str:
        return f"Repository({str(self.top)!r})"

    @property
    def top(self) -> Path:
        """The top of the work tree, free of symbolic links."""
        return self._worktree.top

    @property
    def git(self) -> Repo:
        """The `git.Repo` of GitPython: the one that was passed, or one that is opened on first use. Threads may not
        share it. Raises UsageError where GitPython cannot open the repository."""
        if self._git is None:
            from repoagent.api.gitpython import open_repo

            self._git = open_repo(self.top)
        return self._git

    def neighbors(
        self,
        files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        revision: str | Revision = "HEAD",
        limit: int = 20,
        min_score: float = 0.0,
    ) -> Neighbors:
        """The files that change together with `files` (or folders), best score first. `min_score` is 0 to 1. Builds and
        updates the history index. Raises UsageError for a path or a revision that does not exist."""
        from repoagent.api.results import neighbors_of

        paths = [from_top(self._worktree, file) for file in path_list(files)]
        return neighbors_of(
            self._worktree, paths,
            revision=revision_text(revision), limit=_limit(limit), min_score=min_score,
        )  # fmt: skip

    def uses(self, what: str | os.PathLike[str], *, limit: int = 20) -> Answer:
        """Where a symbol is used: `what` is a name, `Class.method`, `FILE:NAME`, or a FILE, for all symbols that it
        defines and other files use. At most `limit` files per symbol, and symbols per file. Matches by name; withheld
        files are left out. Raises UsageError for an unknown symbol or file, Refused for a file that may not be read."""
        from repoagent.api.results import uses_of

        top = self._worktree
        return uses_of(top, os.fspath(what), limit=_limit(limit), path_of=lambda path: from_top(top, path))

    def history(
        self, file: str | os.PathLike[str], *, revision: str | Revision = "HEAD", limit: int = 20
    ) -> HistoryReport:
        """Who works on a file or folder, and what each of its last `limit` commits did to it, newest first.

        Raises NothingDone for a path without commits, UsageError for one that never existed.
        """
        from repoagent.api.results import past_of

        path = from_top(self._worktree, file)
        return past_of(self._worktree, path, revision=revision_text(revision), limit=_limit(limit))

    def outline(self, file: str | os.PathLike[str], *, language: str | None = None) -> Outline:
        """The symbols that a file defines, with their lines (from 1, inclusive). `language` is needed where the file
        name does not tell it. Raises UsageError for a file without an outline."""
        from repoagent.api.results import outlined

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
        """Split a file between its symbols into segments of at most `target_bytes`; with `natural`, one per top-level
        symbol. `write` also writes them to `.repoagent/splits/`. Raises UsageError, Refused."""
        from repoagent.api.results import split_of
        from repoagent.split.pack import TARGET_BYTES

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
        """Search notes, edits, conversations and summaries for `query`: `hits`, best first. `files` (or folders) and
        `kinds` ("note", "edit", "conversation", "commit", "summary") narrow it.

        Raises UsageError for a query without a word, Busy while another process builds the index.
        """
        from repoagent.git.worktree import layout
        from repoagent.memory.search.ranking import parse
        from repoagent.memory.search.search import Search, answer

        if not parse(query).words:
            raise UsageError(f"the query {query!r} has no words to search for")
        paths = [from_top(self._worktree, file) for file in files]
        how = Search(limit=_limit(limit), kinds=kinds, files=[] if "." in paths else paths)
        return answer(layout(self._worktree), query, how, warn=log.warning)

    def review(
        self,
        range: str = "",
        *,
        base: str | Revision = "",
        commit: str | Revision = "",
        tracked: bool = False,
        diff: str | bytes | Iterable[Diff] = b"",
        files: Sequence[str | os.PathLike[str]] = (),
        model: str | Model | Literal[True] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> Report:
        """Findings on the staged changes; or on `range` ("A..B"), on what HEAD has added since its merge base with
        `base`, on one `commit`, on all changes of `tracked` files since HEAD, or on a `diff` (a patch, or a
        `git.DiffIndex` with patches). `files` narrows it.

        The rules on history need no model. A model is called, and paid, only with `model`: a name, an object, or True
        for the configured one; each of its findings quotes code that is really there.

        Raises UsageError for a change that does not exist, NothingDone for an empty `git.DiffIndex`; with a model also
        ModelError, LimitReached.
        """
        from repoagent.api.results import reviewed, wanted

        asks = model is not None
        own = None if model is True else model
        merged = self._settings(settings, model_override(own))
        if model is True and (name := merged.text_or_none("review.model")):
            merged = self._settings(settings, {"model": name})
        change = wanted(
            self._worktree, range=range, base=revision_text(base), commit=revision_text(commit), tracked=tracked,
            diff=patch_bytes(diff), files=[from_top(self._worktree, file) for file in files],
        )  # fmt: skip
        notes: list[str] = []
        model_setup = open_model(merged, own, notes) if asks else None
        report = reviewed(self._worktree, change, merged, ready=model_setup, asks=asks)
        return replace(report, notes=(*notes, *report.notes)) if notes else report

    def _settings(self, overrides: Mapping[str, object] | None, more: Mapping[str, object]) -> Settings:
        overriding = {key: value for key, value in more.items() if value is not None}
        return load_settings(self._worktree, {**self._overrides, **(overrides or {}), **overriding})


def _limit(limit: int) -> int:
    if limit < 1:
        raise UsageError(f"the limit must be at least 1, not {limit}")
    return limit
