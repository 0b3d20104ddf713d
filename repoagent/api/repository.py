"""`Repository`, the Python API: each method does the same as the command of that name."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from repoagent.api.results import EditResult, Neighbors, Split, edit_result, neighbors_result
from repoagent.config.layers import load_settings
from repoagent.config.options import find_or_refuse
from repoagent.config.settings import Settings
from repoagent.errors import UsageError
from repoagent.git.files import Source, no_such_file, read_source
from repoagent.git.transaction.results import Options
from repoagent.git.worktree import WorkTree, layout_of, open_at_head, open_worktree, relative_path
from repoagent.llm.registry import provider_of
from repoagent.storage.layout import send_to

if TYPE_CHECKING:
    from git import Blob, Diff, Repo

    from repoagent.agent.approvals.policy import ApprovalRequest, Mode
    from repoagent.agent.loop import LoopEvent
    from repoagent.api.gitpython import Revision
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.edit.request import EditRequest, Target
    from repoagent.edit.ui import NonInteractive, Proposal
    from repoagent.git.undo import UndoResult
    from repoagent.history.file_history import HistoryReport
    from repoagent.llm.model import Model
    from repoagent.llm.usage import Limits
    from repoagent.memory.search.passages import Kind
    from repoagent.memory.search.search import SearchResult
    from repoagent.review.finding import Report
    from repoagent.review.read_diff import How
    from repoagent.syntax.outline import Outline
    from repoagent.tasks.run_context import RunOutcome
    from repoagent.uses.symbols import UsesAnswer

StrPath = str | os.PathLike[str]
Files = StrPath | Sequence[StrPath]
Decide = Callable[["Proposal"], bool]
Hear = Callable[[str], None]

log = logging.getLogger("repoagent")
log.addHandler(logging.NullHandler())
_opening = Lock()


class Repository:
    """The git work tree that contains `path` (a path, or a GitPython `git.Repo`).

    No method prints or asks. Paths are relative to the top of the work tree, or absolute; in results they are relative
    to the top. `settings` are options of the configuration by key ({"edit.scope": "repo"}) and override those of the
    user and the repository; each method that calls a model accepts further ones. Every expected failure is a
    `repoagent.errors.RepoagentError` with one clear sentence; after it, files, index and branch are unchanged (a `run`
    keeps its earlier changes). Threads may share an object, but not its `git`.

    Raises UsageError outside a work tree, while GIT_DIR, GIT_WORK_TREE or GIT_COMMON_DIR is set, and for a work tree
    that git finds only with them.
    """

    def __init__(self, path: StrPath | Repo = ".", *, settings: Mapping[str, object] | None = None) -> None:
        self._git: Repo | None = None
        if not isinstance(path, (str, os.PathLike)):
            from repoagent.api.gitpython import worktree_path

            self._git, path = path, worktree_path(path)
        # a repository that git finds only with these variables would need them set in the whole process
        names = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR")
        if variable := next(filter(os.environ.get, names), None):
            raise UsageError(f"{variable} is set in the environment: unset it")
        with _opening:
            try:
                self._worktree: WorkTree = open_worktree(Path(path).absolute())
                needed = any(map(os.environ.get, names))
            finally:
                for name in names:
                    os.environ.pop(name, None)
        if needed:
            raise UsageError(
                f"git finds the repository of {self.top} only while GIT_DIR and GIT_WORK_TREE are set: "
                f"write `gitdir: {self._worktree.git_dir}` to {self.top / '.git'}"
            )
        send_to(log.warning)
        self._overrides: Mapping[str, object] = dict(settings or {})
        self._warn: Hear = log.warning
        for warning in self._settings(None).warnings:  # raises for an invalid option
            log.warning(warning)

    @classmethod
    def of(cls, worktree: WorkTree, warn: Hear) -> Repository:
        """The repository of an open work tree, for use inside repoagent; `warn` gets the warnings."""
        repository = cls.__new__(cls)
        repository._git, repository._worktree = None, worktree
        repository._overrides, repository._warn = {}, warn
        return repository

    def __repr__(self) -> str:
        return f"Repository({str(self.top)!r})"

    @property
    def top(self) -> Path:
        """The top of the work tree, without symbolic links."""
        return self._worktree.top

    @property
    def git(self) -> Repo:
        """GitPython's `git.Repo`: the object that was passed, or a new one. Do not share it between threads. Raises
        UsageError if GitPython cannot open the repository."""
        if self._git is None:
            from repoagent.api.gitpython import open_repo

            self._git = open_repo(self.top)
        return self._git

    def neighbors(
        self, files: Files, *, revision: str | Revision = "HEAD", limit: int = 20, min_score: float = 0.0
    ) -> Neighbors:
        """The files that change together with `files` (or folders), best score first. `min_score` is between 0 and 1.
        Builds and updates the history index. Raises UsageError for a path or a revision that does not exist."""
        from repoagent.history.neighbors import neighborhood

        at, limit = _revision(revision), _at_least_1(limit)
        answer = neighborhood(self._worktree, self._paths(files), at, limit=limit, min_score=min_score)
        return neighbors_result(answer)

    def uses(self, what: StrPath, *, limit: int = 20) -> UsesAnswer:
        """The uses of a symbol: `what` is a name, `Class.method`, `FILE:NAME`, or a FILE, which means all symbols that
        it defines and other files use. Returns at most `limit` files per symbol, and at most `limit` symbols per file.
        Matches by name; omits withheld files. Raises UsageError for an unknown symbol or file, Refused for a file that
        may not be read."""
        from repoagent.edit.guards.off_limits import off_limits_gate
        from repoagent.uses.report import answer_uses

        withheld = off_limits_gate(self.top, ())
        return answer_uses(
            self._worktree, os.fspath(what), withheld, limit=_at_least_1(limit), path_of=self._path
        )

    def history(self, file: StrPath, *, revision: str | Revision = "HEAD", limit: int = 20) -> HistoryReport:
        """The authors of a file or folder, and what each of its last `limit` commits did to it, newest first, with
        existing commit summaries.

        Raises NothingDone for a path without commits, UsageError for a path that never existed.
        """
        from repoagent.history.file_history import read_history

        at, limit = _revision(revision), _at_least_1(limit)
        history = read_history(self._worktree.top, self._path(file), revision=at, limit=limit)
        paths = layout_of(self._worktree)
        if not paths.summaries.is_dir():
            return history
        from repoagent.history.commit_summaries import add_summaries, read_summaries

        summaries = read_summaries(paths.summaries, history.steps)
        return replace(history, steps=add_summaries(history.steps, summaries))

    def outline(self, file: StrPath, *, language: str | None = None) -> Outline:
        """The symbols that a file defines, with their lines (from 1, inclusive). `language` is needed if the file name
        does not imply it. Raises UsageError for a file without an outline: binary, too large or without a grammar."""
        from repoagent.syntax.outline import check_language, outline_of

        if language is not None:
            check_language(language)
        source, data = self.read(file)
        outline = outline_of(source.path, data, language)
        if outline.kind:
            raise UsageError(f"{source.path} {outline.reason}")
        return outline

    def split(
        self,
        file: StrPath,
        *,
        target_bytes: int | None = None,
        natural: bool = False,
        language: str | None = None,
        write: bool = False,
    ) -> Split:
        """Split a file at symbol boundaries into segments of at most `target_bytes`; with `natural`, one per top-level
        symbol. `write` also writes them to `.repoagent/splits/`; the user can edit them there, and commit the edits
        with `repoagent split --join`.

        Raises UsageError for a missing file and an unknown language, Refused for a binary file and for a folder with
        edited segments.
        """
        from repoagent.split.folder_writer import create_split
        from repoagent.split.pack import TARGET_BYTES
        from repoagent.split.source import SourceText, SplitOptions, check_options, check_text, new_index

        options = SplitOptions(target_bytes or TARGET_BYTES, natural, language)
        check_options(options)
        source, data = self.read(file)
        text = SourceText(source.path, data, self._worktree)
        check_text(text, options)
        index = create_split(text, options) if write else new_index(text, options, Path())
        folder = index.folder if write else None
        return Split(source.path, source.blob, index.language, len(data), index.segments, folder, data)

    def recall(
        self, query: str, *, limit: int = 10, files: Sequence[StrPath] = (), kinds: Sequence[Kind] = ()
    ) -> SearchResult:
        """Search notes, edits, conversations and summaries for `query`; `hits` has the best first. `files` (or folders)
        and `kinds` ("note", "edit", "conversation", "commit", "summary") limit the search.

        Raises UsageError for a query without words, Busy while another process builds the index.
        """
        from repoagent.memory.search.search import SearchOptions, answer_query, parse_query

        if not parse_query(query).words:
            raise UsageError(f"the query {query!r} has no words to search for")
        paths = self._paths(files)
        search = SearchOptions(limit=_at_least_1(limit), kinds=kinds, files=[] if "." in paths else paths)
        return answer_query(layout_of(self._worktree), query, search, warn=self._warn)

    def review(
        self,
        range: str = "",
        *,
        base: str | Revision = "",
        commit: str | Revision = "",
        tracked: bool = False,
        diff: str | bytes | Iterable[Diff] = b"",
        files: Sequence[StrPath] = (),
        model: str | Model | Literal[True] | None = None,
        on_note: Hear | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> Report:
        """Review the staged changes, or instead a `range` ("A..B"), the changes in HEAD since its merge base with
        `base`, one `commit`, all changes to `tracked` files since HEAD, or a `diff` (a patch, or a `git.DiffIndex` with
        patches). `files` limits the review.

        The history rules need no model. A model is called, and paid for, only with `model`: a name, an object, or True
        for the configured one; each of its findings is verified to quote code from the change.

        Raises UsageError for a change that does not exist, NothingDone for an empty `git.DiffIndex`; with a model also
        ModelError, LimitReached.
        """
        from repoagent.review.read_diff import ChangeSelector, read_change
        from repoagent.review.review import ReviewSession, review
        from repoagent.review.untrusted_change import settings_before

        own = None if model is True else model
        merged = self._settings(settings, model=own)
        if model is True and (name := merged.text_or_none("review.model")):
            merged = self._settings(settings, model=name)
        notes: list[str] = []
        model_setup = None if model is None else _open_model(merged, own, notes)
        base, commit, patch = _revision(base), _revision(commit), _patch_bytes(diff)
        ways: dict[How, object] = {}
        ways |= {"range": range, "base": base, "commit": commit, "worktree": tracked, "diff": patch}
        chosen = [how for how, value in ways.items() if value]
        if len(chosen) > 1:
            names = " and ".join(chosen).replace("worktree", "tracked")
            raise UsageError(f"{names} cannot be combined: use only one of them")
        if range and ".." not in range:
            raise UsageError(f"invalid range '{range}': write A..B, or pass one commit as `commit`")
        pathspecs = tuple(f":(top,literal){file}" for file in self._paths(files))
        value = _revision(range) or base or commit
        selector = ChangeSelector(chosen[0] if chosen else "staged", value, pathspecs, self.top, patch)
        _, head = open_at_head(self.top)
        paths = layout_of(self._worktree)
        change, unseen = read_change(self._worktree, head, selector)
        merged = settings_before(change, self._worktree, paths, merged)
        asks, later = model is not None, list[str]()
        hear = on_note or (lambda sentence: None)
        context = ReviewSession(self._worktree, paths, merged, later.append, hear, ready=model_setup)
        report = review(change, context, unseen, ask=asks, strict=asks, narrowed=bool(pathspecs))
        return replace(report, notes=(*notes, *report.notes, *later))

    def edit(
        self,
        files: Files,
        instruction: str,
        *,
        model: str | Model | None = None,
        read: Sequence[StrPath] = (),
        create: bool = False,
        check: str | None = None,
        commit: bool | Options = True,
        dry_run: bool = False,
        decide: Decide | None = None,
        on_text: Hear | None = None,
        on_note: Hear | None = None,
        fresh: bool = False,
        strict: bool = False,
        allow_sensitive: bool = False,
        settings: Mapping[str, object] | None = None,
    ) -> EditResult:
        """Let a model change `files` according to `instruction`, and commit exactly that change.

        A file may have a range: "app.py:10-40", "app.py::Server.run"; `read` are further files to show, `create` allows
        new `files`. `model` is a name ("anthropic/…", "command:…") or an object with the methods of
        `repoagent.llm.model.Model`; by default, the configured model. `check` is a shell command that must succeed
        before the commit; the model gets its output if it fails.

        Commits without asking, unless `decide` returns False for the `Proposal` (its `diff`, `message`, `remarks`),
        `commit` is False (only writes the files) or `dry_run` is True (writes nothing). `commit` may be
        `repoagent.git.transaction.results.Options`, for a branch, a sign-off and so on. A change to a file that gets
        executed (a hook, a workflow) is refused unless it is in `files` or `allow_sensitive` is set.

        `on_text` gets the reply as it streams, `on_note` a sentence per step. `fresh` omits the earlier conversation
        about the files, `strict` applies only exact matches. `settings` are further options by key: limits
        ("max_cost" in US dollars, "max_tokens", "max_turns"), "effort", "edit.scope", "edit.format".

        Raises NothingDone (declined by the model or by `decide`), UsageError, Refused (the change does not apply, or is
        not allowed), ModelError, LimitReached, CheckFailed (by `check` or a hook), Busy.
        """
        from repoagent.edit.edit import edit
        from repoagent.edit.request import parse_target
        from repoagent.edit.ui import NonInteractive

        if not instruction.strip():
            raise UsageError("empty instruction: describe what to change")
        merged = self._settings(settings, model=model, check=check)
        targets = [parse_target(file, self.top) for file in _listed(files)]
        if not targets:
            raise UsageError("no files to edit: name at least one")
        request = _edit_request(
            merged,
            instruction.strip(),
            tuple(replace(target, path=self._path(target.path)) for target in targets),
            commit,
            read=tuple(self._paths(read)),
            create=create,
            scope=merged.text("edit.scope"),
            strict=strict,
            fresh=fresh,
            dry_run=dry_run,
            allow_sensitive=allow_sensitive,
        )
        ui = NonInteractive()
        _set_callbacks(ui, decide, on_note, on_text)
        model_setup = _open_model(merged, model, ui.sentences)
        self._settle()
        return edit_result(edit(self._worktree, request, merged, ui, model_setup), self.top, ui.sentences)

    def apply(
        self,
        patch: str | bytes | Iterable[Diff],
        *,
        sources: Mapping[str, str | Blob] | None = None,
        path: StrPath | None = None,
        message: str = "",
        check: str | None = None,
        commit: bool | Options = True,
        dry_run: bool = False,
        decide: Decide | None = None,
        on_note: Hear | None = None,
        strict: bool = False,
        allow_sensitive: bool = False,
        settings: Mapping[str, object] | None = None,
    ) -> EditResult:
        """Apply a patch (any text that contains changes, or a `git.DiffIndex` with patches), and commit exactly that
        change. No model is called.

        `sources` are the blobs that the patch was made for, by path: each a `git.Blob`, or at least seven hex digits of
        the id that `git hash-object --no-filters` prints. `path` is the file for a patch without a file name, `message`
        the commit message (by default, the patch's own). The other parameters are those of `edit`.

        Raises NothingDone if it is already applied, or if `decide` returns False; Refused (its `details()` name the
        hunks) if it does not apply or is not allowed; UsageError, CheckFailed, Busy.
        """
        from repoagent.edit.apply import apply, parse_bindings, read_patch_input
        from repoagent.edit.commit import without_claims
        from repoagent.edit.request import Target
        from repoagent.edit.ui import NonInteractive

        merged = self._settings(settings, check=check)
        blobs = []
        for name, blob in (sources or {}).items():
            if not isinstance(blob, str):
                from repoagent.api.gitpython import blob_id

                blob = blob_id(blob)
            blobs.append(f"{self._path(name)}={blob}")
        parsed = read_patch_input("the patch", _patch_bytes(patch), self.top)
        # as for a message of a model
        parsed = replace(parsed, message=without_claims(parsed.message).lstrip())
        request = _edit_request(
            merged,
            f"{message.strip()}\n" if message.strip() else "",
            () if path is None else (Target(self._path(path)),),
            commit,
            create=True,
            strict=strict,
            dry_run=dry_run,
            allow_sensitive=allow_sensitive,
        )
        ui = NonInteractive()
        _set_callbacks(ui, decide, on_note)
        self._settle()
        outcome = apply(self._worktree, parsed, request, merged, ui, bindings=parse_bindings(blobs))
        return edit_result(outcome, self.top, ui.sentences)

    def run(
        self,
        prompt: str,
        *,
        model: str | Model | None = None,
        mode: Mode = "auto-edit",
        name: str | None = None,
        plan_only: bool = False,
        check: str | None = None,
        commit: bool | Options = True,
        commit_per_edit: bool = False,
        decide: Decide | None = None,
        allow: Callable[[ApprovalRequest], bool] | None = None,
        on_event: Callable[[LoopEvent], None] | None = None,
        on_text: Hear | None = None,
        on_note: Hear | None = None,
        limits: Limits | None = None,
        agent: str = "model",
        branch: str = "",
        worktree: StrPath = "",
        allow_sensitive: bool = False,
        settings: Mapping[str, object] | None = None,
    ) -> RunOutcome:
        """Let a model do a whole task: read the repository, change files, run commands, and commit the result.

        `mode` determines what is allowed without asking: nothing in "read-only" and "ask", edits in "auto-edit", edits
        and sandboxed commands in "auto". `allow` answers the questions, and `decide` those about edits in mode "ask";
        without them the answer is no. `name` is the name of the conversation: an existing one is resumed (where it
        stopped, if the prompt is ""); None starts a new one. `on_event` gets each action and observation. `limits`
        (`repoagent.llm.usage.Limits`) replace those of the configuration. `branch` is a new branch, in a separate
        linked work tree, and `worktree` a folder for it, as with --branch and --worktree.

        Raises LimitReached, ModelError, CheckFailed, NothingDone, Refused and Busy; the conversation and the changes
        are kept, and the same `name` resumes it."""
        from repoagent.tasks.run_context import NonInteractiveRun, RunRequest, run_limits
        from repoagent.tasks.runs.directory import new_name, open_run_directory
        from repoagent.tasks.worktree import run_in_worktree

        merged = self._settings(settings, model=model, **{"run.mode": mode})
        if name is None and not prompt.strip():
            raise UsageError("empty prompt: describe the task")
        request = RunRequest(
            prompt.strip(),
            new_name("run") if name is None else open_run_directory(layout_of(self._worktree), name).name,
            mode=mode,
            plan_only=plan_only,
            check=check,
            commit=_commit_options(commit),
            commit_per_edit=commit_per_edit,
            agent=agent,
            branch=branch,
            worktree=os.fspath(worktree),
            allow_sensitive=allow_sensitive,
        )
        if commit_per_edit and request.commit.no_commit:
            raise UsageError("commit_per_edit cannot be combined with commit=False")
        ui = NonInteractiveRun()
        ui.allow = allow or ui.allow
        ui.on_event = on_event or ui.on_event
        _set_callbacks(ui, decide, on_note, on_text)
        limits = limits or run_limits(merged)
        model_setup = _open_model(merged, model, ui.sentences, limits, needed=agent == "model")
        self._settle()
        return run_in_worktree(self._worktree, request, merged, ui, model_setup)

    def undo(self, edit_id: str | None = None) -> UndoResult:
        """Undo the last edit, or the edit with this id. Other changes are kept.

        If the edit's commit is the tip of the branch and on no other ref, the branch is moved back; otherwise the edit
        is reverted in a new commit. Raises NothingDone if there is no edit to undo, Refused if it cannot be undone, and
        Busy if another program is changing the repository.
        """
        from repoagent.edit.undo import undo

        self._settle()
        return undo(self._worktree, edit_id)

    def redo(self, edit_id: str | None = None) -> UndoResult:
        """Redo the edit that was undone last, or the edit with this id. Raises what `undo` raises."""
        from repoagent.edit.undo import redo

        self._settle()
        return redo(self._worktree, edit_id)

    def _settle(self) -> None:
        from repoagent.edit.unfinished import settle_unfinished

        settle_unfinished(self._worktree, lambda sentence: log.info("recovered: %s", sentence), self._warn)

    def _path(self, path: StrPath) -> str:
        """A path, absolute or relative to the top, relative to the top."""
        return relative_path(self._worktree, os.fspath(path), self.top)

    def read(self, file: StrPath) -> tuple[Source, bytes]:
        """Read a file; return its source and its bytes. Raises UsageError if it is missing, and what
        `git.files.read_source` raises."""
        source = read_source(self._worktree, self._path(file))
        if source.data is None:
            raise no_such_file(source.path, self.top)
        return source, source.data

    def _paths(self, files: Files) -> list[str]:
        return [self._path(file) for file in _listed(files)]

    def _settings(
        self, settings: Mapping[str, object] | None, *, model: str | Model | None = None, **more: object
    ) -> Settings:
        """The settings of the user and the repository, with those of the program by key. Raises UsageError for an
        unknown key and for an invalid value."""
        more["model"] = model if isinstance(model, str) else None
        overrides = {**self._overrides, **(settings or {})}
        overrides |= {key: value for key, value in more.items() if value is not None}
        for key, value in overrides.items():
            find_or_refuse(key)
            if isinstance(value, str) and "\0" in value:
                raise UsageError(f"{key} cannot contain a NUL character: {value!r}")
        return load_settings(layout_of(self._worktree), cwd=self.top, flags=overrides)


def _listed(files: Files) -> list[str]:
    return [os.fspath(file) for file in ([files] if isinstance(files, (str, os.PathLike)) else files)]


def _at_least_1(limit: int) -> int:
    if limit < 1:
        raise UsageError(f"the limit must be at least 1, not {limit}")
    return limit


def _revision(revision: str | Revision) -> str:
    """The revision as an argument of git. Raises UsageError for text that cannot be one."""
    if isinstance(revision, str):
        if "\0" in revision or any("\ud800" <= character <= "\udfff" for character in revision):
            raise UsageError(f"no such revision: {revision!r}; name a commit, a branch or a tag")
        return revision
    from repoagent.api.gitpython import revision_name

    return revision_name(revision)


def _patch_bytes(patch: str | bytes | Iterable[Diff]) -> bytes:
    if isinstance(patch, bytes):
        return patch
    if isinstance(patch, str):
        return patch.encode("utf-8", "surrogateescape")
    from repoagent.api.gitpython import patch_text

    return patch_text(patch)


def _commit_options(commit: bool | Options) -> Options:
    options = Options(no_commit=not commit) if isinstance(commit, bool) else commit
    if options.edit_message:
        raise UsageError("edit_message needs a terminal: pass the commit message instead")
    return options


def _edit_request(
    settings: Settings, instruction: str, targets: tuple[Target, ...], commit: bool | Options, **more: Any
) -> EditRequest:
    from repoagent.edit.request import EditRequest
    from repoagent.tasks.check import check_of

    return EditRequest(
        instruction, targets, check=check_of(settings), parse_check=settings.switch("edit.parse_check"),
        sensitive=settings.texts("edit.sensitive"), commit=_commit_options(commit), **more,
    )  # fmt: skip


def _set_callbacks(
    ui: NonInteractive, decide: Decide | None, on_note: Hear | None = None, on_text: Hear | None = None
) -> None:
    ui.agree = decide or ui.agree
    ui.hear = on_note or ui.hear
    ui.on_text = on_text or ui.on_text


def _open_model(
    settings: Settings,
    model: str | Model | None,
    notes: list[str],
    limits: Limits | None = None,
    *,
    needed: bool = True,
) -> ModelSetup:
    """The model and its meter; appends sentences for the user to `notes`. Raises ModelError, also if a model is
    `needed` and none is configured, and UsageError for an invalid limit and for `manual`, which needs a terminal."""
    from repoagent.edit.model_setup import model_setup
    from repoagent.llm.open_model import NoModel, choose_model

    own = None if model is None or isinstance(model, str) else model
    try:
        asks = own is None and provider_of(choose_model(settings).spec).answered_by == "user"
    except NoModel:
        if needed:
            raise
        asks = False
    if asks:
        raise UsageError(
            "the `manual` model needs a terminal: name another model, or pass an object with the methods of "
            "repoagent.llm.model.Model"
        )
    return model_setup(settings, say=notes.append, model=own, limits=limits, needed=needed)
