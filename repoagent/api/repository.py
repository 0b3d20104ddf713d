"""`Repository`, the Python API: each method makes the call that the command of the same name makes.

The methods that change nothing are in queries.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.api.queries import Queries, from_top, log, model_override, open_model, patch_bytes, path_list
from repoagent.errors import UsageError
from repoagent.git.transaction.results import Options
from repoagent.git.worktree import layout
from repoagent.tasks.runs.directory import new_name, open_run_directory

if TYPE_CHECKING:
    from git import Blob, Diff

    from repoagent.agent.approvals.policy import ApprovalRequest, Mode
    from repoagent.agent.loop import LoopEvent
    from repoagent.api.results import EditResult
    from repoagent.edit.ui import NonInteractive, Proposal
    from repoagent.git.undo import UndoResult
    from repoagent.llm.model import Model
    from repoagent.llm.usage import Limits
    from repoagent.tasks.session import RunOutcome

Decide = Callable[["Proposal"], bool]
Hear = Callable[[str], None]


class Repository(Queries):
    """The git work tree that holds `path` (a path, or a `git.Repo` of GitPython).

    No method prints or asks. Paths are relative to the top of the work tree, or absolute; in results they are relative
    to the top. `settings` are options of the configuration by key ({"edit.scope": "repo"}) and override those of the
    user and the repository; each method that calls a model takes more of them. Every expected failure is a
    `repoagent.errors.RepoagentError` with one clear sentence; after it files, index and branch are unchanged (a `run`
    keeps its earlier changes). Except for `git`, threads may share an object.

    Raises UsageError outside of a work tree, and for one that git finds only with GIT_DIR and GIT_WORK_TREE.
    """

    def edit(
        self,
        files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        instruction: str,
        *,
        model: str | Model | None = None,
        read: Sequence[str | os.PathLike[str]] = (),
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
        """Let a model change `files` as `instruction` says, and commit exactly that change.

        A file may name a range: "app.py:10-40", "app.py::Server.run"; `read` are further files to show, `create` allows
        new `files`. `model` is a name ("anthropic/…", "command:…") or an object with the methods of
        `repoagent.llm.model.Model`; by default, the configured one. `check` is a shell command that must succeed before
        the commit; the model gets its output when it fails.

        The call is the consent: it commits, unless `decide` returns False for the `Proposal` (its `diff`, `message`,
        `remarks`), `commit` is False (only writes the files) or `dry_run` is True (writes nothing). `commit` may be
        `repoagent.git.transaction.results.Options`, for a branch, a sign-off and so on. A change of a file that gets
        executed (a hook, a workflow) is refused unless `files` names it or `allow_sensitive` is set.

        `on_text` gets the reply as it streams, `on_note` a sentence per step. `fresh` leaves out the earlier
        conversation on the files, `strict` turns off all tolerances in placing. `settings` are further options by key:
        limits ("max_cost" in US dollars, "max_tokens", "max_turns"), "effort", "edit.scope", "edit.format".

        Raises NothingDone (declined by the model or by `decide`), UsageError, Refused (does not apply, or is not
        allowed), ModelError, LimitReached, CheckFailed (by `check` or a hook), Busy.
        """
        from repoagent.api.results import of_edit
        from repoagent.edit.edit import edit
        from repoagent.edit.request import EditRequest, parse_target
        from repoagent.edit.ui import NonInteractive
        from repoagent.tasks.check import check_of

        if not instruction.strip():
            raise UsageError("empty instruction: describe what to change")
        merged = self._settings(settings, {"check": check, **model_override(model)})
        targets = [parse_target(file, self.top) for file in path_list(files)]
        if not targets:
            raise UsageError("no files to edit: name at least one")
        request = EditRequest(
            instruction=instruction.strip(),
            targets=tuple(replace(target, path=from_top(self._worktree, target.path)) for target in targets),
            read=tuple(from_top(self._worktree, file) for file in read),
            create=create,
            scope=merged.text("edit.scope"),
            check=check_of(merged),
            strict=strict,
            parse_check=merged.switch("edit.parse_check"),
            fresh=fresh,
            dry_run=dry_run,
            allow_sensitive=allow_sensitive,
            sensitive=merged.texts("edit.sensitive"),
            commit=_commit_options(commit),
        )
        ui = NonInteractive()
        _set_callbacks(ui, decide, on_note, on_text)
        model_setup = open_model(merged, model, ui.said)
        self._settle()
        return of_edit(edit(self._worktree, request, merged, ui, model_setup), self.top, ui.said)

    def apply(
        self,
        patch: str | bytes | Iterable[Diff],
        *,
        sources: Mapping[str, str | Blob] | None = None,
        path: str | os.PathLike[str] | None = None,
        message: str = "",
        check: str | None = None,
        commit: bool | Options = True,
        dry_run: bool = False,
        decide: Decide | None = None,
        strict: bool = False,
        allow_sensitive: bool = False,
        settings: Mapping[str, object] | None = None,
    ) -> EditResult:
        """Apply a patch, any text with changes in it or a `git.DiffIndex` with patches, and commit exactly that change.
        No model is called.

        `sources` bind it to the blobs that it was made for, by path: each a `git.Blob`, or seven hex digits or more of
        the id that `git hash-object --no-filters` prints. `path` is the file of a patch that names none, `message` the
        commit message ("" for the one in the patch). The other parameters are those of `edit`.

        Raises NothingDone where it is already applied, or `decide` returns False; Refused (its `details()` name the
        hunks) where it does not apply or is not allowed; UsageError, CheckFailed, Busy.
        """
        from repoagent.api.results import Patch, patched
        from repoagent.edit.ui import NonInteractive

        merged = self._settings(settings, {"check": check})
        blobs = {from_top(self._worktree, name): _blob_id(blob) for name, blob in (sources or {}).items()}
        data = patch_bytes(patch)
        file = None if path is None else from_top(self._worktree, path)
        ui = NonInteractive()
        ui.agree = decide or ui.agree
        self._settle()
        return patched(
            self._worktree, Patch(data, sources=blobs, path=file, message=message), merged, ui,
            options=_commit_options(commit), strict=strict, dry_run=dry_run, allow_sensitive=allow_sensitive,
        )  # fmt: skip

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
        worktree: str | os.PathLike[str] = "",
        allow_sensitive: bool = False,
        settings: Mapping[str, object] | None = None,
    ) -> RunOutcome:
        """Let a model do a whole task: read the repository, change files, run commands, and commit the result.

        `mode` says what needs no question: nothing in "read-only" and "ask", edits in "auto-edit", also commands, in a
        sandbox, in "auto". `allow` answers the questions, and `decide` those about edits in the mode "ask"; without
        them the answer is no. `name` is the conversation: an existing one is resumed (with the prompt "" where it
        stopped); without it a new one is started. `on_event` gets each action and observation. `limits`
        (`repoagent.llm.usage.Limits`) replace those of the configuration. `branch` is a new branch, in a linked work
        tree of its own, and `worktree` a folder for it, as with --branch and --worktree.

        Raises LimitReached, ModelError, CheckFailed, NothingDone, Refused and Busy; the conversation and the changes
        are kept, and the same `name` resumes it."""
        from repoagent.tasks.run_context import NonInteractiveRun, RunRequest, run_limits
        from repoagent.tasks.worktree import run_in_worktree

        merged = self._settings(settings, {"run.mode": mode, **model_override(model)})
        if name is None and not prompt.strip():
            raise UsageError("empty prompt: describe the task")
        request = RunRequest(
            prompt.strip(),
            new_name("run") if name is None else open_run_directory(layout(self._worktree), name).name,
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
        model_setup = open_model(merged, model, ui.said, limits, needed=agent == "model")
        self._settle()
        return run_in_worktree(self._worktree, request, merged, ui, model_setup)

    def undo(self, edit_id: str | None = None) -> UndoResult:
        """Undo the last edit, or the one of this id. Moves the branch back where its commit is the tip and on no other
        ref, else reverts it in a new commit; other changes stay, in the same files too. Raises NothingDone, Refused,
        Busy."""
        from repoagent.edit.undo import undo

        self._settle()
        return undo(self._worktree, edit_id)

    def redo(self, edit_id: str | None = None) -> UndoResult:
        """Redo the edit that was undone last, or the one of this id. Raises as `undo`."""
        from repoagent.edit.undo import redo

        self._settle()
        return redo(self._worktree, edit_id)

    def _settle(self) -> None:
        from repoagent.edit.unfinished import settle

        settle(self._worktree, lambda sentence: log.info("recovered: %s", sentence), log.warning)


def _commit_options(commit: bool | Options) -> Options:
    """How to commit. Raises UsageError for options that need a terminal."""
    options = Options(no_commit=not commit) if isinstance(commit, bool) else commit
    if options.edit_message:
        raise UsageError("edit_message needs a terminal: pass the commit message instead")
    return options


def _blob_id(blob: str | Blob) -> str:
    if isinstance(blob, str):
        return blob
    from repoagent.api.gitpython import blob_id

    return blob_id(blob)


def _set_callbacks(
    ui: NonInteractive, decide: Decide | None, on_note: Hear | None, on_text: Hear | None
) -> None:
    ui.agree = decide or ui.agree
    ui.hear = on_note or ui.hear
    ui.on_text = on_text or ui.on_text
