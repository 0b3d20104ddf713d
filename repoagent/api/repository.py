"""What a program wishes of an edit or a run, as it is needed below: how it is committed, who agrees, who listens.

A repository for programs: each method is one call of what the command of its name calls.

What only a run needs of what a program says: the name of its conversation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.api.queries import Looking, from_top, log, named, ready, several
from repoagent.errors import UsageError
from repoagent.git.transaction.results import Options
from repoagent.git.worktree import WorkTree, layout
from repoagent.tasks.runs.directory import home_of, new_name

if TYPE_CHECKING:
    from repoagent.agent.approvals.policy import Asked, Mode
    from repoagent.agent.loop import LoopEvent
    from repoagent.api.results import EditResult
    from repoagent.edit.ui import NonInteractive, Proposal
    from repoagent.git.undo import UndoResult
    from repoagent.llm.model import Model
    from repoagent.llm.usage import Limits
    from repoagent.tasks.context import NonInteractiveRun
    from repoagent.tasks.session import RunOutcome

Decide = Callable[["Proposal"], bool]
Hear = Callable[[str], None]


def options(commit: bool | Options) -> Options:
    """How the commit is made. Raises UsageError for one that needs a terminal."""
    found = Options(no_commit=not commit) if isinstance(commit, bool) else commit
    if found.edit_message:
        raise UsageError(
            "edit_message opens an editor, and a program has no terminal for it: give the message"
        )
    return found


def edit_interface(
    decide: Decide | None, on_note: Hear | None = None, on_text: Hear | None = None
) -> NonInteractive:
    """Who is asked about an edit, and hears of it: nobody, where a function is None."""
    from repoagent.edit.ui import NonInteractive

    found = NonInteractive()
    found.agree = decide or found.agree
    found.hear = on_note or found.hear
    found.on_text = on_text or found.on_text
    return found


def run_interface(
    decide: Decide | None,
    allow: Callable[[Asked], bool] | None,
    on_event: Callable[[LoopEvent], None] | None,
    on_note: Hear | None,
    on_text: Hear | None,
) -> NonInteractiveRun:
    """The same for a run."""
    from repoagent.tasks.context import NonInteractiveRun

    found = NonInteractiveRun()
    found.agree = decide or found.agree
    found.allow = allow or found.allow
    found.on_event = on_event or found.on_event
    found.hear = on_note or found.hear
    found.on_text = on_text or found.on_text
    return found


class Repository(Looking):
    """The git work tree that holds `path`.

    Nothing is printed and nobody is asked. Files are named from the top of the work tree, or absolutely; results name
    them from the top. `settings` are options of the configuration by key ({"edit.scope": "repo"}), which come before
    those of the person and of the repository; each method that asks a model takes more of them. Every expected failure
    is a `repoagent.errors.RepoagentError` with one clear sentence; whatever is raised, files, index and branch are as
    they were (of a `run`, what it has changed before is kept). An object keeps nothing but where the repository is, so
    threads may share it.

    Raises UsageError where there is no work tree, and for one that can be told only by variables of the environment.
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
        """Have a model change `files` as `instruction` says, and commit exactly that change.

        A file may point at a place: "app.py:10-40", "app.py::Server.run"; `read` are further files to show, `create`
        says that `files` may be new. `model` is a name ("anthropic/…", "command:…") or an object with the methods of
        `repoagent.llm.model.Model`; without it, the configured one. `check` is a shell command that has to succeed
        before the commit; its failure goes back to the model.

        The call is the consent: the change is committed, unless `decide` is given and answers a `Proposal` (its `diff`,
        `message`, `remarks`) with False, or `commit` is False (the files are written) or `dry_run` True (nothing is).
        `commit` may be `repoagent.git.transaction.results.Options`, for a branch, a sign-off and the like. A file
        that makes another program run something (a hook, a workflow) is refused unless it is among `files` or
        `allow_sensitive` is set.

        `on_text` gets the reply as it comes, `on_note` a sentence of what is being done. `fresh` leaves out what was
        said of the files before, `strict` refuses all tolerance in placing. `settings` are further options by key:
        limits ("max_cost" in US dollars, "max_tokens", "max_turns"), "effort", "edit.scope", "edit.format".

        Raises NothingDone (declined by the model or by `decide`), UsageError, Refused (does not fit, or may not be),
        ModelError, LimitReached, CheckFailed (by `check` or a hook), Busy.
        """
        from repoagent.api.results import of_edit
        from repoagent.edit.edit import edit
        from repoagent.edit.request import EditRequest, parse_target
        from repoagent.tasks.check import check_of

        if not instruction.strip():
            raise UsageError("the instruction is empty: say what to change")
        found = self._settings(settings, {"check": check, **named(model)})
        targets = [parse_target(file, self.top) for file in several(files)]
        if not targets:
            raise UsageError("name a file to edit")
        request = EditRequest(
            instruction=instruction.strip(),
            targets=tuple(replace(target, path=from_top(self._worktree, target.path)) for target in targets),
            read=tuple(from_top(self._worktree, file) for file in read),
            create=create,
            scope=found.text("edit.scope"),
            check=check_of(found),
            strict=strict,
            parse_check=found.switch("edit.parse_check"),
            fresh=fresh,
            dry_run=dry_run,
            allow_sensitive=allow_sensitive,
            sensitive=found.texts("edit.sensitive"),
            commit=options(commit),
        )
        person = edit_interface(decide, on_note, on_text)
        asked = ready(found, model, person.said)
        self._settle()
        return of_edit(edit(self._worktree, request, found, person, asked), person.said)

    def apply(
        self,
        patch: str | bytes,
        *,
        sources: Mapping[str, str] | None = None,
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
        """Apply a patch from anywhere, a text with changes in it, and commit exactly that change. No model is asked.

        `sources` bind it to the texts that it was made for: blob ids by path, seven hex digits or more of what `git
        hash-object --no-filters` says. `path` is the file of a patch that names none, `message` the commit message (""
        for the one that the patch brings). The rest is as in `edit`.

        Raises NothingDone where it is applied already, or `decide` says no; Refused (its `details()` name the hunks)
        where it does not fit or may not be; UsageError, CheckFailed, Busy.
        """
        from repoagent.api.results import Patch, patched

        found = self._settings(settings, {"check": check})
        given = Patch(
            patch.encode("utf-8", "surrogateescape") if isinstance(patch, str) else patch,
            sources={from_top(self._worktree, name): blob for name, blob in (sources or {}).items()},
            path=None if path is None else from_top(self._worktree, path),
            message=message,
        )
        self._settle()
        return patched(
            self._worktree, given, found, edit_interface(decide),
            options=options(commit), strict=strict, dry_run=dry_run, allow_sensitive=allow_sensitive,
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
        allow: Callable[[Asked], bool] | None = None,
        on_event: Callable[[LoopEvent], None] | None = None,
        on_text: Hear | None = None,
        on_note: Hear | None = None,
        limits: Limits | None = None,
        agent: str = "model",
        allow_sensitive: bool = False,
        settings: Mapping[str, object] | None = None,
    ) -> RunOutcome:
        """Have a model do a whole task: look around, change files, run commands, and commit what came of it.

        `mode` is what may be done without a question: "read-only", "ask", "auto-edit" (edits) or "auto" (commands too,
        in a sandbox). What is asked about is asked of `allow`, and edits in the mode "ask" of `decide`; without them
        the answer is no. `name` is that of a conversation, which is gone on with when it is there ("" as the prompt
        then goes on where it stopped); without it a new one is begun. `on_event` gets each action and observation.
        `limits` are those of the configuration unless others are given: `repoagent.llm.usage.Limits`.

        Raises LimitReached, ModelError, CheckFailed, NothingDone, Refused and Busy; the conversation and what was
        changed are kept then, and the same `name` goes on.
        """
        from repoagent.tasks.context import RunRequest, limits_of
        from repoagent.tasks.session import run

        found = self._settings(settings, {"run.mode": mode, **named(model)})
        request = RunRequest(
            prompt.strip(),
            name_of(self._worktree, name, prompt),
            mode=mode,
            plan_only=plan_only,
            check=check,
            commit=options(commit),
            commit_per_edit=commit_per_edit,
            agent=agent,
            allow_sensitive=allow_sensitive,
        )
        if commit_per_edit and request.commit.no_commit:
            raise UsageError("commit_per_edit and a commit that is not made can't be meant together")
        person = run_interface(decide, allow, on_event, on_note, on_text)
        asked = ready(found, model, person.said, limits or limits_of(found), needed=agent == "model")
        self._settle()
        return run(self._worktree, request, found, person, asked)

    def undo(self, edit_id: str | None = None) -> UndoResult:
        """Take the last edit back, or the one of this id. The branch moves back where nobody would notice, else a new
        commit reverts it; other work, in the same files too, stays. Raises NothingDone, Refused, Busy."""
        from repoagent.edit.undo import undo

        self._settle()
        return undo(self._worktree, edit_id)

    def redo(self, edit_id: str | None = None) -> UndoResult:
        """Make the edit again that was taken back last, or the one of this id. Raises as `undo`."""
        from repoagent.edit.undo import redo

        self._settle()
        return redo(self._worktree, edit_id)

    def _settle(self) -> None:
        from repoagent.edit.unfinished import settle

        settle(self._worktree, lambda sentence: log.info("recovered: %s", sentence), log.warning)


def name_of(worktree: WorkTree, name: str | None, prompt: str) -> str:
    """The name of the run, a new one for None. Raises UsageError for one that no run may have, and where a new run has
    no prompt."""
    if name is not None:
        return home_of(layout(worktree), name).name
    if not prompt.strip():
        raise UsageError("the prompt is empty: say what to do")
    return new_name("run")
