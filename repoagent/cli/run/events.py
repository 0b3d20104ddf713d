"""A run as a stream of JSON: a line for each event as it happens, and questions that a program answers.

Each line is an object with `version` and `event`. After `ask` the program reads a line from standard input: an object
with the question's `id`, `answer` ("yes", "run", "always" or "no") and, for a no, a `reason` that goes to the model.
Where standard input is at its end, the answer is no. {"stop": true} in place of an answer stops the run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.agent.approval import Verdict
from repoagent.cli.landing.told import Told
from repoagent.dataclass import dataclass
from repoagent.edit import Decision, Proposal
from repoagent.errors import RepoagentError

if TYPE_CHECKING:
    from repoagent.agent import LoopEvent
    from repoagent.agent.approval import Asked
    from repoagent.edit.verify.sensitive import Concern
    from repoagent.llm import Meter
    from repoagent.work import RunOutcome

VERSION = 1
LONGEST = 1 << 20  # characters of an answer
NOBODY = "there is nobody to ask: no answer came on standard input"


def emit(event: str, data: Mapping[str, object]) -> None:
    """Write one event, whole, at once."""
    line = json.dumps({"version": VERSION, "event": event, **data}, ensure_ascii=True)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def emit_error(error: RepoagentError, meter: Meter | None = None) -> None:
    """The last event of a run that failed, with what it has used."""
    from repoagent.cli.run.outcome import used

    spent = {} if meter is None else {"usage": used(meter.usage, meter.attempts), "cost": meter.cost}
    emit(
        "error",
        {"error": str(error), "exit": int(error.exit_code), **spent, **error.details(), **error.told()},
    )


@dataclass
class Events:
    """A `work.Talk` for programs. With `yes` edits are not asked about."""

    yes: bool = False
    asked: int = 0
    answered: bool = False
    stopped: bool = False
    told: Told = field(default_factory=Told)
    waited: float = 0.0

    def text(self, piece: str) -> None:
        emit("text", {"text": piece})

    def void(self, text: str) -> None:
        emit("void", {"text": text})

    def event(self, event: LoopEvent) -> None:
        self.told.event(event)
        data: dict[str, object] = {}
        if event.action is not None:
            data = {"kind": event.action.kind, "args": dict(event.action.args), "body": event.action.body}
        elif event.observation is not None:
            seen = event.observation
            data = {"kind": seen.kind, "ok": seen.ok, "text": seen.text, "data": dict(seen.data)}
        else:
            data = {"text": event.text}
        emit(event.kind, data)

    def note(self, sentence: str) -> None:
        emit("note", {"text": sentence})

    def say(self, sentence: str) -> None:
        emit("say", {"text": sentence})

    def running(self, command: str, output: Path) -> None:
        self.note(f"running {command}")

    def quiet(self) -> None:
        pass

    def interrupted(self, sentence: str) -> None:
        self.say(sentence)

    def output(self, data: bytes) -> None:
        emit("output", {"text": data.decode("utf-8", "replace")})

    def decide(self, proposal: Proposal) -> Decision:
        data: dict[str, object] = {
            "diff": proposal.diff,
            "remarks": list(proposal.remarks),
            "files": [change.name for change in proposal.changes],
        }
        if proposal.message:  # the commit of what was written before
            emit("commit-proposed", {**data, "message": proposal.message})
            return Decision("yes")
        if self.yes:
            emit("edit", data)
            return Decision("yes")
        verdict = self._ask("edit", data)
        return (
            Decision("yes", by_person=True)
            if verdict.allowed
            else Decision("no", reason=verdict.reason or "no reason was given")
        )

    def agrees(self, concerns: Sequence[Concern]) -> bool | None:
        verdict = self._ask("sensitive", {"files": {one.path: one.why for one in concerns}})
        return None if verdict.by == "nobody" else verdict.allowed

    def permits(self, paths: Sequence[str]) -> bool | None:
        return None

    def explained(self, text: str) -> None:
        emit("explained", {"text": text})

    def approve(self, asked: Asked) -> Verdict:
        return self._ask(
            asked.kind,
            {
                "what": asked.what,
                "patterns": list(asked.patterns),
                "why": asked.why,
                "sandbox": asked.sandbox,
                "cwd": asked.cwd,
            },
        )

    def progress(self, what: str, data: dict[str, object]) -> None:
        emit(what, data)

    def end(self, outcome: RunOutcome) -> None:
        from repoagent.cli.run.outcome import as_object

        emit("end", as_object(outcome))

    def _ask(self, of: str, data: Mapping[str, object]) -> Verdict:
        from repoagent.work.home import Stopped

        self.asked += 1
        emit("ask", {"id": self.asked, "of": of, **data})
        while True:
            line = sys.stdin.readline(LONGEST)
            if not line:
                return Verdict(False, reason=NOBODY, by="nobody")
            try:
                answer = json.loads(line)
            except ValueError:
                answer = None
            if isinstance(answer, dict) and answer.get("stop"):
                self.stopped = True
                raise Stopped(
                    "the program stopped it; what was done so far is kept", f'stopped at the question "{of}"'
                )
            if not isinstance(answer, dict) or answer.get("id") != self.asked:
                emit("say", {"text": f"that is no answer to question {self.asked}: it was not heeded"})
                continue
            said = answer.get("answer")
            return Verdict(
                said in {"yes", "run", "always"},
                always=said in {"run", "always"},
                keep=said == "always",
                reason=str(answer.get("reason") or ""),
            )
