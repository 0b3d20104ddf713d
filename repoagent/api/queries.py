"""How a program's repository is found, and what may not happen to the program on the way.

Which model is asked on a program's behalf: the one that it names, brings along, or that is configured.

What a program asks of a repository: nothing of the work tree, the index or a branch is changed by it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
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
    from repoagent.api.results import Neighbors, Split
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.history.file_history import Past
    from repoagent.llm.model import Model
    from repoagent.llm.usage import Limits
    from repoagent.memory.search.passages import Kind
    from repoagent.memory.search.search import Answer as Recalled
    from repoagent.review.finding import Report
    from repoagent.syntax.outline.outline import Outline
    from repoagent.uses.query import Answer

_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR")
_opening = Lock()
log = logging.getLogger("repoagent")
log.addHandler(logging.NullHandler())


def find_worktree(path: str | os.PathLike[str]) -> WorkTree:
    """The work tree of `path`; the environment of the process is left as it is.

    Raises UsageError as `open_worktree`, and for a repository that is found by the environment or by `core.worktree`
    alone: git has to be told of such a one by variables, and those would hold for every other repository of the
    process too.
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
            f"git finds {worktree.git_dir} from {worktree.top} only where GIT_DIR and GIT_WORK_TREE say so: set both "
            "in the environment of the process before"
        )
    send_to(log.warning)
    return worktree


def _put(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _refuse_stranger(worktree: WorkTree, start: Path, given: Mapping[str, str | None]) -> None:
    """With variables that name one repository, every path leads to it: one elsewhere was not meant."""
    relative_ones = [name for name, value in given.items() if value and not Path(value).is_absolute()]
    if relative_ones:
        raise UsageError(
            f"{', '.join(relative_ones)} in the environment is relative, which means another folder at each place: "
            "make it absolute, or unset it"
        )
    if given["GIT_DIR"] and not given["GIT_WORK_TREE"]:
        raise UsageError(
            "GIT_DIR is set in the environment without GIT_WORK_TREE, so git takes any folder for the work tree: set "
            "both, or unset it"
        )
    if not Path(os.path.realpath(start)).is_relative_to(worktree.top):
        raise UsageError(
            f"GIT_DIR and GIT_WORK_TREE in the environment name {worktree.top}, and {start} is not in it: unset "
            "them, or open that one"
        )


def load_settings(worktree: WorkTree, given: Mapping[str, object]) -> Settings:
    """The settings of the repository and of the person, and over them what the program gives by key. Raises UsageError
    for a key that is no option, and a value that it does not take."""
    from repoagent.config.options import find_or_refuse

    for key, value in given.items():
        find_or_refuse(key)
        if isinstance(value, str) and "\0" in value:
            raise UsageError(f"{key} can't be {value!r}: no command or name holds a NUL")
    return load(layout(worktree), cwd=worktree.top, flags=given)


def from_top(worktree: WorkTree, path: str | os.PathLike[str]) -> str:
    """A path of the program, absolute or from the top, as the path from the top. Raises UsageError for one outside of
    the work tree."""
    return relative(worktree, os.fspath(path), worktree.top)


def several(files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """One file, or some, as a list of texts."""
    if isinstance(files, (str, os.PathLike)):
        return [os.fspath(files)]
    return [os.fspath(file) for file in files]


def named(model: str | Model | None) -> dict[str, object]:
    """The setting that a model given by its name is; nothing for another."""
    return {"model": model} if isinstance(model, str) else {}


def ready(
    settings: Settings,
    model: str | Model | None,
    said: list[str],
    limits: Limits | None = None,
    *,
    needed: bool = True,
) -> ModelSetup:
    """The model and its meter; `said` gets what must be known of it. Raises ModelError (also where one is `needed` and
    none is configured), UsageError for a limit that can't be kept and for `manual`, which asks at a terminal."""
    from repoagent.edit.model_setup import model_setup
    from repoagent.llm.registry import NoModel, chosen

    own = None if model is None or isinstance(model, str) else model
    try:
        asks = own is None and chosen(settings).spec == "manual"
    except NoModel:
        if needed:
            raise
        asks = False
    if asks:
        raise UsageError(
            "the model manual asks a person at a terminal, and a program has none: name another model, or give an "
            "object that has the methods of repoagent.llm.model.Model"
        )
    return model_setup(settings, say=said.append, model=own, limits=limits, needed=needed)


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
        from repoagent.api.results import neighbors_of

        paths = [from_top(self._worktree, file) for file in several(files)]
        return neighbors_of(
            self._worktree, paths, revision=revision, limit=_limit(limit), min_score=min_score
        )

    def uses(self, what: str | os.PathLike[str], *, limit: int = 20) -> Answer:
        """Where a symbol is used: `what` is a name, `Class.method`, `FILE:NAME`, or a FILE, for all that it defines and
        other files use. At most `limit` files of a symbol, and symbols of a file. It matches by name; withheld files
        are left out. Raises UsageError for what is no symbol and no file, Refused for a file that may not be read."""
        from repoagent.api.results import uses_of

        top = self._worktree
        return uses_of(top, os.fspath(what), limit=_limit(limit), path_of=lambda path: from_top(top, path))

    def history(self, file: str | os.PathLike[str], *, revision: str = "HEAD", limit: int = 20) -> Past:
        """Who works on a file or folder, and what each of its last `limit` commits did to it, newest first.

        Raises NothingDone where there is no commit of it yet, UsageError for a path that never was.
        """
        from repoagent.api.results import past_of

        return past_of(self._worktree, from_top(self._worktree, file), revision=revision, limit=_limit(limit))

    def outline(self, file: str | os.PathLike[str], *, language: str | None = None) -> Outline:
        """What a file defines, with its lines (from 1, both counted). `language` is needed where its name does not say
        it. Raises UsageError for a file that has no outline."""
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
        """A file in segments of at most `target_bytes`, cut where its language has a seam; with `natural` one for each
        outermost unit. With `write` they become files in `.repoagent/splits/`. Raises UsageError, Refused."""
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
        """What was noted, asked, said and summarized that fits `query`, best first, in the `hits` of the answer. Only
        about `files` (folders too) and of `kinds` ("note", "edit", "conversation", "commit", "summary"), where given.

        Raises UsageError for a query without a word, Busy while another process makes the index.
        """
        from repoagent.git.worktree import layout
        from repoagent.memory.search.ranking import parse
        from repoagent.memory.search.search import Search, answer

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
        from repoagent.api.results import reviewed, wanted

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
        model_setup = ready(found, own, said) if asks else None
        report = reviewed(self._worktree, what, found, ready=model_setup, asks=asks)
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
