"""Run in this process with scripted replies and a scripted user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import strategies as st

from repoagent.agent.actions import Observation
from repoagent.agent.approvals.policy import ApprovalRequest, Verdict
from repoagent.agent.loop import LoopEvent
from repoagent.agent.sandbox.confine import find_sandbox
from repoagent.config.layers import load_settings
from repoagent.edit.model_setup import ModelSetup
from repoagent.edit.ui import Decision, NonInteractive, Proposal
from repoagent.git.worktree import layout_of, open_worktree
from repoagent.llm.model import OnText, Reply, Request, Usage
from repoagent.llm.usage import Limits, Meter
from repoagent.storage import json_files
from repoagent.tasks.run_context import RunOutcome, RunRequest
from repoagent.tasks.runs.directory import RunDirectory
from repoagent.tasks.session import run_task
from tests.conftest import GitRepo

NAME = "run-20260101-000000-abcdef"
Answer = str | BaseException | Callable[[Request], str]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
confined = pytest.mark.skipif(find_sandbox() is None, reason="no sandbox works here")


@dataclass
class Model:
    """Gives each answer in turn; calls an answer that is a function with the request."""

    answers: list[Answer]
    seen: list[Request] = field(default_factory=list)
    spec: str = "scripted/one"
    context_tokens: int | None = None
    takes: frozenset[str] = frozenset()

    def complete(self, request: Request, on_text: OnText) -> Reply:
        self.seen.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        text = answer(request) if callable(answer) else answer
        return Reply(text, "end", Usage(10, 5))

    @property
    def last_prompt(self) -> str:
        """The full text of the last request."""
        last = self.seen[-1]
        return "".join(part.text for part in last.system) + "".join(m.text for m in last.messages)


@dataclass
class User(NonInteractive):
    """A scripted user: accepts or rejects edits as in `says`, and answers approval requests with `allows`. `by_person`
    says whether a user, not the mode, accepts edits."""

    says: Sequence[str] = ()
    allows: Callable[[ApprovalRequest], Verdict] = lambda request: Verdict(True)
    by_person: bool = False
    requests: list[ApprovalRequest] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    proposals: list[Proposal] = field(default_factory=list)

    def decide(self, proposal: Proposal) -> Decision:
        self.proposals.append(proposal)
        if proposal.message or not self.says:
            return Decision("yes", by_person=self.by_person)
        word, *rest = self.says
        self.says = rest
        return Decision("yes") if word == "yes" else Decision("no", reason=word)

    def approve(self, request: ApprovalRequest) -> Verdict:
        self.requests.append(request)
        return self.allows(request)

    def event(self, event: LoopEvent) -> None:
        if event.observation is not None:
            self.observations.append(event.observation)

    def progress(self, kind: str, data: dict[str, object]) -> None: ...


def go(
    repo: GitRepo,
    *answers: Answer,
    prompt: str = "do it",
    user: User | None = None,
    limits: Limits | None = None,
    meter: Meter | None = None,
    **wishes: object,
) -> tuple[RunOutcome, Model, User]:
    """Run once in `repo` with these answers, and with `meter` or one of these `limits`."""
    worktree = open_worktree(repo.top)
    model, user = Model(list(answers)), user or User()
    settings = load_settings(layout_of(worktree), flags={})
    model_setup = ModelSetup(settings, model, meter or Meter(limits or Limits()))
    request = RunRequest(prompt, **{"name": NAME, "mode": "auto-edit", **wishes})
    return run_task(worktree, request, settings, user, model_setup), model, user


def diff(path: str, old: str, new: str) -> str:
    """A patch that replaces one line."""
    return f"```diff\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}\n+{new}\n```\n"


EDIT = diff("f.txt", "one", "two")
DONE = "<commit>\nMake it two\n</commit>\n<finish>it is two</finish>"
FINISH = "<finish>done</finish>"


def then(act: Callable[[], object], reply: str = DONE) -> Answer:
    """A slow reply, during which the user does something."""

    def answer(_: Request) -> str:
        act()
        return reply

    return answer


def nobody(request: ApprovalRequest) -> Verdict:
    """The answer to an approval request without a user."""
    return Verdict(False, reason="nobody", by="nobody")


def run_dir(repo: GitRepo, name: str = NAME) -> RunDirectory:
    return RunDirectory(layout_of(open_worktree(repo.top)), name)


def audited(repo: GitRepo, kind: str) -> list[dict[str, Any]]:
    """The lines of this kind in the audit."""
    lines = json_files.read_records(layout_of(open_worktree(repo.top)).audit)
    return [line for line in lines if line["kind"] == kind]


def committed(repo: GitRepo) -> list[str]:
    """The files in the last commit."""
    return repo.git("show", "--format=", "--name-only", "HEAD").split()
