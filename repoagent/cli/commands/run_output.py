"""The output of a run: a stream of JSON events (see docs/run.md), and its outcome as text or JSON."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.agent.approvals.policy import ApprovalRequest, Verdict
from repoagent.cli.ui.outcome import ModelOutput, check_object, show_check, spending_line, usage_object
from repoagent.dataclass import dataclass
from repoagent.display_text import list_some, plural, sanitize
from repoagent.edit.ui import Decision, Proposal
from repoagent.errors import Busy, Exit, NothingDone, RepoagentError

if TYPE_CHECKING:
    from repoagent.agent.loop import LoopEvent
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.edit.guards.risky_changes import Concern
    from repoagent.git.worktree import WorkTree
    from repoagent.llm.usage import Meter
    from repoagent.tasks.run_context import RunOutcome

VERSION = 1
LONGEST = 1 << 20  # characters of an answer
NO_ANSWER = "no answer on standard input"


def emit_event(event: str, data: Mapping[str, object]) -> None:
    """Write one event as a line of JSON."""
    sys.stdout.write(json.dumps({"version": VERSION, "event": event, **data}) + "\n")
    sys.stdout.flush()


def emit_error(error: RepoagentError, meter: Meter | None = None) -> None:
    """Write the last event of a failed run: the error and the run's usage."""
    spent = {} if meter is None else {"usage": usage_object(meter.usage, meter.attempts), "cost": meter.cost}
    end = {"error": str(error), "exit": int(error.exit_code)}
    emit_event("error", {**end, **spent, **error.details(), **error.last_messages()})


@dataclass
class EventStream:
    """A `RunInterface` that writes events for another program. With `yes`, edits need no approval."""

    yes: bool = False
    asked: int = 0
    answered: bool = False
    stopped: bool = False
    model_output: ModelOutput = field(default_factory=ModelOutput)
    waited: float = 0.0

    def text(self, piece: str) -> None:
        emit_event("text", {"text": piece})

    def void(self, text: str) -> None:
        emit_event("void", {"text": text})

    def event(self, event: LoopEvent) -> None:
        self.model_output.event(event)
        data: dict[str, object] = {"text": event.text}
        if event.action is not None:
            data = {"kind": event.action.kind, "args": dict(event.action.args), "body": event.action.body}
        elif event.observation is not None:
            observation = event.observation
            data = {name: getattr(observation, name) for name in ("kind", "ok", "text")}
            data["data"] = dict(observation.data)
        emit_event(event.kind, data)

    def note(self, sentence: str) -> None:
        emit_event("note", {"text": sentence})

    def say(self, sentence: str) -> None:
        emit_event("say", {"text": sentence})

    def running(self, command: str, output: Path) -> None:
        self.note(f"running {command}")

    def quiet(self) -> None:
        pass

    def interrupted(self, sentence: str) -> None:
        self.say(sentence)

    def output(self, data: bytes) -> None:
        emit_event("output", {"text": data.decode("utf-8", "replace")})

    def decide(self, proposal: Proposal) -> Decision:
        files = [change.name for change in proposal.changes]
        data = {"diff": proposal.diff, "remarks": list(proposal.remarks), "files": files}
        if proposal.message:  # commits edits that are already written
            emit_event("commit-proposed", {**data, "message": proposal.message})
            return Decision("yes")
        if self.yes:
            emit_event("edit", data)
            return Decision("yes")
        verdict = self._ask("edit", data)
        if verdict.allowed:
            return Decision("yes", by_person=True)
        return Decision("no", reason=verdict.reason or "no reason was given")

    def agrees(self, concerns: Sequence[Concern]) -> bool | None:
        verdict = self._ask("sensitive", {"files": {concern.path: concern.why for concern in concerns}})
        return None if verdict.by == "nobody" else verdict.allowed

    def permits(self, paths: Sequence[str]) -> bool | None:
        return None

    def approve(self, request: ApprovalRequest) -> Verdict:
        data = vars(request)
        return self._ask(request.kind, {name: data[name] for name in data if name != "kind"})

    def progress(self, kind: str, data: dict[str, object]) -> None:
        emit_event(kind, data)

    def end(self, outcome: RunOutcome) -> None:
        emit_event("end", as_object(outcome))

    def _ask(self, of: str, data: Mapping[str, object]) -> Verdict:
        from repoagent.tasks.runs.control import RunStopped

        self.asked += 1
        emit_event("ask", {"id": self.asked, "of": of, **data})
        while line := sys.stdin.readline(LONGEST):
            try:
                reply = json.loads(line)
            except ValueError:
                reply = None
            if isinstance(reply, dict) and reply.get("stop"):
                self.stopped = True
                message = "stopped by the calling program; the changes so far are kept"
                raise RunStopped(message, f'stopped at the question "{of}"')
            if not isinstance(reply, dict) or reply.get("id") != self.asked:
                self.say(f"ignored a line that is not an answer to question {self.asked}")
                continue
            answer = reply.get("answer")
            allowed, always = answer in {"yes", "run", "always"}, answer in {"run", "always"}
            reason = str(reply.get("reason") or "")
            return Verdict(allowed, always=always, keep=answer == "always", reason=reason)
        return Verdict(False, reason=NO_ANSWER, by="nobody")


SHOWN = 8  # files
STAT_FILES = 20  # of a diffstat


def show_run(
    worktree: WorkTree, outcome: RunOutcome, terminal: Terminal, *, as_json: bool, answered: bool = False
) -> None:
    """Print the final message, the commits and the usage. On a terminal, a message that the user saw arrive
    (`answered`) is not repeated."""
    if as_json:
        terminal.done(json.dumps(as_object(outcome), indent=2) + "\n")
        return
    if outcome.words and not terminal.error_tty:  # otherwise already shown
        terminal.note(outcome.words)
    if outcome.text.strip() and not (answered and terminal.output_tty):
        terminal.reply(outcome.text.strip() + "\n", done=True)
    show_commits(worktree, outcome, terminal)
    if outcome.left:
        terminal.note(f"written, not committed: {_some(outcome.left)}")
    if outcome.kind == "unfinished":
        answer = f'repoagent run --resume {outcome.name} "MESSAGE"'
        terminal.note(f"not finished: the model stopped with a message. Reply with `{answer}`")
    terminal.note(f"{outcome.name} · {spent(outcome)}", "dim")


def _some(paths: Sequence[str]) -> str:
    return list_some([sanitize(path) for path in paths], SHOWN)


def show_commits(worktree: WorkTree, outcome: RunOutcome, terminal: Terminal) -> None:
    """Print the result of the check, the commits with their diffstats, and the new files that were not committed."""
    from repoagent.git.process import git

    if outcome.check is not None and outcome.commits:
        show_check(outcome.check, terminal)
    for commit in outcome.commits:
        branch, subject, stat = commit_summary(worktree, commit)
        terminal.note(f"[{f'{branch} ' if branch else ''}{commit[:7]}] {subject} · {stat}", "yellow")
        if terminal.error_tty:
            stat_options = f"--stat={terminal.width},{terminal.width * 2 // 3},{STAT_FILES}"
            out = git(worktree.top, "show", stat_options, "--format=", "--end-of-options", commit, "--")
            for line in out.decode("utf-8", "replace").rstrip("\n").split("\n")[:-1]:
                terminal.note(line)
    if outcome.left_out:
        add = shlex.join(["git", "add", "--", *outcome.left_out[:SHOWN]])
        add += " && git commit --amend --no-edit" if outcome.commits else ""
        terminal.note(
            f"new files not in the commit: {_some(outcome.left_out)}\n  add them with: {sanitize(add)}"
        )


def exit_code(outcome: RunOutcome) -> Exit:
    return Exit.NOTHING if outcome.kind == "unfinished" else Exit.DONE


def commit_summary(worktree: WorkTree, commit: str) -> tuple[str | None, str, str]:
    """The branch whose tip is the commit (None if there is none), the commit's subject, and its size ("2 files +3
    -1")."""
    from repoagent.git.process import git

    out = git(worktree.top, "show", "--root", "--numstat", "--format=%s", "--end-of-options", commit, "--")
    subject, _, rows = out.decode("utf-8", "replace").partition("\n")
    counts = [row.split("\t") for row in rows.split("\n") if row.count("\t") >= 2]
    added, removed = (sum(int(row[at]) for row in counts if row[at].isdecimal()) for at in (0, 1))
    of_commit = ("--count=1", "--format=%(refname:short)", f"--points-at={commit}", "refs/heads")
    branch = git(worktree.top, "for-each-ref", *of_commit).decode("utf-8", "replace").strip()
    return branch or None, subject, f"{plural(len(counts), 'file')} +{added} -{removed}"


def spent(outcome: RunOutcome) -> str:
    return f"{plural(outcome.turns, 'call')} · {spending_line(outcome.usage, outcome.cost, outcome.seconds)}"


def as_object(outcome: RunOutcome) -> dict[str, object]:
    lists = {name: list(getattr(outcome, name)) for name in ("messages", "commits", "left", "left_out")}
    return {
        "version": VERSION,
        "outcome": outcome.kind,
        "run": outcome.name,
        "text": outcome.text,
        "words": outcome.words,
        **lists,
        "check": check_object(outcome.check),
        "model": outcome.model,
        "usage": usage_object(outcome.usage, outcome.turns),
        "cost": outcome.cost,
        "seconds": round(outcome.seconds, 3),
    }


def show_interrupted(worktree: WorkTree, name: str, terminal: Terminal, error: BaseException) -> bool:
    """Print how to resume an interrupted or failed run, and which changes it left uncommitted.

    Returns whether the error needs no further message.
    """
    from repoagent.git.worktree import layout_of
    from repoagent.llm.conversation import read_conversation
    from repoagent.tasks.restore import uncommitted_files
    from repoagent.tasks.runs.control import RunStopped
    from repoagent.tasks.runs.directory import RunDirectory, refuse_foreign
    from repoagent.tasks.runs.list import read_run
    from repoagent.tasks.worktree import worktree_of

    run_dir = RunDirectory(layout_of(worktree), name)
    can_resume = False
    changed: tuple[str, ...] = ()
    with suppress(RepoagentError):  # its work tree is gone, for example
        refuse_foreign(run_dir)  # the conversation came with the repository
        can_resume = not isinstance(error, Busy) and read_conversation(run_dir.conversation) is not None
        if can_resume:
            changed = uncommitted_files(worktree_of(worktree, read_run(run_dir)), run_dir)
    if not can_resume or (isinstance(error, NothingDone) and not changed):
        return False
    explained = isinstance(error, (KeyboardInterrupt, RunStopped))
    if explained:  # nothing else is printed about them
        terminal.note(str(error) or "interrupted")
    if changed:
        undo = f"undo these changes with `repoagent runs restore {name}`"
        terminal.note(f"not committed: {_some(changed)}; {undo}")
    command = f"`repoagent run --resume {name}`"
    if command not in str(error):
        terminal.note(f"resume with {command}")
    return explained
