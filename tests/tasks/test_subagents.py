"""A subagent gets no more than its parent has and may do, and what it used is counted even if it was killed."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from repoagent.agent.approvals.policy import Verdict
from repoagent.config.settings import user_file
from repoagent.errors import Refused
from repoagent.git.transaction.results import Options
from repoagent.llm.model import Usage
from repoagent.llm.usage import Limits, Meter, Price
from repoagent.storage.layout import Layout
from repoagent.tasks import subagents
from repoagent.tasks.run_context import RunRequest, read_spec, write_spec
from repoagent.tasks.runs.directory import RunDirectory, names_of_folders, pid_start
from repoagent.tasks.runs.list import read_run
from tests.conftest import GitRepo
from tests.tasks.bare import NAME, User, go, run_dir

COMMITTED = {"f.txt": "one\n"}
ASK = '<delegate kind="explore">Where?</delegate>'
BACKGROUND = '<delegate kind="explore" background="yes">Where?</delegate>'
CALL, CHILD = 15, 1_200  # tokens of a call of the parent, and of the subagent


@pytest.fixture(autouse=True)
def waiting_subagent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subagents, "ITSELF", (str(Path(__file__).with_name("waiting_subagent.py")),))


def children(repo: GitRepo) -> list[RunDirectory]:
    return [run_dir(repo, name) for name in names_of_folders(run_dir(repo).layout) if name != NAME]


def at_question(answer: Callable[[], Verdict]) -> User:
    return User(allows=lambda request: answer() if request.kind == "command" else Verdict(True))


def test_a_subagent_of_a_chat_that_is_killed_at_its_question(repo: GitRepo) -> None:
    """It had what the turn and the chat had left, and its usage counts for both."""

    def kill() -> Verdict:
        (child,) = children(repo)
        pid = read_run(child).record.pid
        os.kill(pid, signal.SIGKILL)
        while pid_start(pid):
            time.sleep(0.01)
        return Verdict(True)

    chat = Meter(Limits(tokens=5_000, cost=1.0, day=3.0), lambda spec: Price())
    chat.count(Usage(1_000), 0.25, 3)
    outcome, model, _ = go(repo, ASK, "So.", user=at_question(kill), meter=chat.part(Limits(turns=5)))
    assert re.search(r"The subagent failed \(run-\S+\), 2 calls, 1,200 tokens, \$0\.2500", model.last_prompt)
    (child,) = children(repo)
    assert read_spec(child)[1] == Limits(turns=4, tokens=4_000 - CALL, cost=0.75, day=3.0)
    assert (outcome.turns, outcome.usage.total, outcome.cost) == (4, 2 * CALL + CHILD, 0.25)
    assert (chat.attempts, chat.usage.total, chat.cost) == (7, 2 * CALL + CHILD + 1_000, 0.5)
    assert chat.usage.estimated  # how many of them are input


@pytest.mark.parametrize("background", [False, True])
def test_a_subagent_that_is_terminated_counts_once(repo: GitRepo, *, background: bool) -> None:
    """The chat has its usage at once, the record when it is resumed."""

    def interrupt(*_: object) -> Verdict:
        while background and not read_run(children(repo)[0]).record.tokens:
            time.sleep(0.01)
        raise KeyboardInterrupt

    chat = Meter(price_of=lambda spec: Price())
    replies = (BACKGROUND, "<run>make</run>") if background else (ASK,)
    with pytest.raises(KeyboardInterrupt):
        go(repo, *replies, user=at_question(interrupt), meter=chat.part(Limits()))
    assert (chat.usage.total, chat.cost) == (len(replies) * CALL + CHILD, 0.25)
    _, model, _ = go(repo, "So.", prompt="And now?")
    assert "did not finish: 2 calls, 1,200 tokens, $0.2500" in model.last_prompt
    assert json.loads(run_dir(repo).record.read_text())["tokens"] == (len(replies) + 1) * CALL + CHILD


def test_a_temporary_file_of_a_subagent_killed_as_it_started_is_removed(repo: GitRepo) -> None:
    go(repo, "So.")
    left = RunDirectory(run_dir(repo).layout, "run-20260101-000001-fedcba").folder / ".tmp-1-0123456789ab"
    left.parent.mkdir()
    left.write_text("{")
    go(repo, "So.", prompt="And now?")
    assert not left.exists()


def test_background_subagents_share_what_is_left(repo: GitRepo) -> None:
    """Together with the run they can use no more than its limits."""
    chat = Meter(Limits(turns=20, tokens=50_000, cost=2.0, seconds=300), lambda spec: Price())
    asked_at: list[Limits] = []

    def words(*_: object) -> str:
        asked_at.append(chat.left)
        while not all(read_run(child).record.tokens for child in children(repo)):
            time.sleep(0.01)
        return "So."

    go(repo, BACKGROUND * 3, words, meter=chat.part(Limits()))
    shares = [read_spec(child)[1] for child in children(repo)]
    (left,) = asked_at
    assert sum(share.turns or 0 for share in shares) + (left.turns or 0) == 20 - 2
    assert sum(share.tokens or 0 for share in shares) + (left.tokens or 0) == 50_000 - CALL
    assert sum(share.cost or 0 for share in shares) + (left.cost or 0) == pytest.approx(2.0)
    assert all(share.turns and share.tokens and share.cost and share.seconds for share in shares)
    assert chat.usage.total == 2 * CALL + 3 * CHILD and chat.left.cost == 1.25  # what is not used comes back


def test_always_at_the_question_of_a_subagent_holds_for_its_parent(repo: GitRepo) -> None:
    event = {"event": "ask", "of": "command", "what": "make x", "patterns": ["make x"]}
    program = ("-c", f"print({json.dumps(event)!r})")
    user = User(allows=lambda request: Verdict(True, always=True))
    with patch.object(subagents, "ITSELF", program):
        go(repo, ASK, "<run>make x</run>", "So.", user=user)
    assert [request.why.partition(" run-")[0] for request in user.requests] == ["the subagent"]


def test_the_last_error_of_a_subagent_that_does_not_start(repo: GitRepo) -> None:
    with patch.object(subagents, "ITSELF", ("-c", "import sys; sys.exit('one\\ntwo')")):
        _, _, user = go(repo, ASK, "So.")
    assert user.observations[0].text.endswith(": two")


def test_the_sub_agent_of_a_plan_is_read_only(repo: GitRepo) -> None:
    kind = user_file(os.environ).parent / "agents" / "worker.md"
    kind.parent.mkdir(parents=True)
    kind.write_text("---\nname: worker\ndescription: does anything\n---\nDo it.\n")
    before_it_starts = patch.object(subagents, "write_spec", side_effect=KeyboardInterrupt)
    with before_it_starts as write, pytest.raises(KeyboardInterrupt):
        go(repo, '<delegate kind="worker">do it</delegate>', mode="auto", plan_only=True)
    assert [call.args[1].mode for call in write.call_args_list] == ["read-only"]


@pytest.mark.parametrize("change", [{"mode": "any"}, {"tools": None}, {"allow": [1]}, {"cost": "1"}])
def test_a_specification_is_read_unless_it_is_malformed(tmp_path: Path, change: dict[str, object]) -> None:
    run_dir = RunDirectory(Layout(tmp_path, tmp_path), "x")
    commit, limits = Options(no_commit=True), Limits(2, cost=0.5)
    request = RunRequest("do it", "x", "worker", "y", commit=commit, tools=frozenset({"read"}), allow=("ls",))
    write_spec(run_dir, request, limits)
    assert read_spec(run_dir) == (request, limits)
    spec = json.loads(run_dir.subagent.read_bytes())
    del spec["day"]  # an earlier version has no limit for the day
    run_dir.subagent.write_text(json.dumps(spec))
    assert read_spec(run_dir) == (request, limits)
    run_dir.subagent.write_text(json.dumps({**spec, **change}))
    with pytest.raises(Refused, match="is malformed"):
        read_spec(run_dir)
