"""The user's programs: tools (a broken one is skipped with a warning, a working one needs approval) and hooks."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import ApprovalRequest, Gate, Verdict
from repoagent.agent.approvals.rules import Rule
from repoagent.agent.state import Tool
from repoagent.errors import Refused
from repoagent.tasks import user_programs
from repoagent.tasks.user_programs import HookAnswer, Ran, UserHooks, start
from tests.tasks.bare import JSON

ARGS = {"city": "which"}
GOOD = {"version": 1, "name": "weather", "text": "says the weather", "args": ARGS, "body": "notes"}


def program(folder: Path, described: object = GOOD, script: str = "cat", name: str = "tool") -> Path:
    """A program that describes itself, and runs `script` when it is called."""
    text = described if isinstance(described, str) else json.dumps(described)
    describe = f"if [ \"$1\" = --description ]; then cat <<'E'\n{text}\nE\nexit; fi"
    path = folder / name
    path.write_text(f"#!/bin/sh\n{describe}\n{script}\n")
    path.chmod(0o755)
    return path


class Environment:
    """The environment of a run: answers, approval requests and warnings."""

    def __init__(self, top: Path, gate: Gate | None = None, verdict: Verdict | None = None) -> None:
        self.top, self.gate, self.verdict = top, gate, verdict or Verdict(True)
        self.requests: list[ApprovalRequest] = []
        self.warnings: list[str] = []
        self.events: list[Any] = []

    def decide(self, request: ApprovalRequest) -> Verdict:
        self.requests.append(request)
        return self.gate.decide(request) if self.gate else self.verdict

    def tools(self, *programs: Path | str) -> dict[str, Tool]:
        tools = user_programs.plugin_tools(
            self.top, [*map(str, programs)], used={"read", "run"}, decide=self.decide,
            warn=self.warnings.append, audit=self.events.append,
        )  # fmt: skip
        return {tool.name: tool for tool in tools}


# the answer of a program to --description, and the end of the warning
BROKEN: dict[str, tuple[object, str]] = {
    "words": ("hello", "did not print a JSON object"),
    "list": ("[1]", "did not print a JSON object"),
    "newer": ({**GOOD, "version": 2}, "format version 2"),
    "nameless": ({"text": "x"}, "without a valid `name`"),
    "capital": ({**GOOD, "name": "Weather"}, "without a valid `name`"),
    "textless": ({"name": "a", "text": " "}, "without a valid `text`"),
    "args": ({**GOOD, "args": {"a b": ""}}, "argument name 'a b'"),
    "id": ({**GOOD, "args": {"id": "x"}}, "argument name 'id'"),
    "slow": ({**GOOD, "timeout": 1e9}, "use a number of seconds up to 3600"),
    "reads": ({**GOOD, "reads_only": "no"}, "reads_only has the invalid value"),
    "taken": ({**GOOD, "name": "run"}, "defines a tool run, but that name is taken"),
    "own": ({**GOOD, "name": "finish"}, "defines a tool finish, but that name is taken"),
    "data": ({**GOOD, "name": "commit"}, "defines a tool commit, but that name is taken"),
    "plain": (GOOD, "is not executable; run `chmod"),
    "fails": (GOOD, "failed with exit code 3 when called with --description: oh no"),
    "gone": (GOOD, "the absolute path of a file"),
}


def test_a_broken_program_is_skipped_with_one_warning(top: Path) -> None:
    for name, (described, _) in BROKEN.items():
        program(top.parent, described, name=name)
    (top.parent / "plain").chmod(0o644)
    (top.parent / "fails").write_text("#!/bin/sh\necho oh no >&2\nexit 3\n")
    (top.parent / "gone").unlink()
    environment = Environment(top)
    assert environment.tools(*(top.parent / name for name in BROKEN)) == {}
    for (name, (_, why)), warning in zip(BROKEN.items(), environment.warnings, strict=True):
        assert why in warning and f"/{name} in run.tools" in warning and "\n" not in warning, warning
        assert warning.endswith("skipped it")


def test_programs_in_the_repository_are_not_run(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(top, script="touch ran", name="evil")
    (top.parent / "link").symlink_to(top / "evil")
    (top / "out").symlink_to(program(top.parent, name="fine"))
    monkeypatch.setenv("PATH", f".:{top}:{os.environ['PATH']}")
    monkeypatch.chdir(top)
    environment = Environment(top)
    inside = (top / "evil", top.parent / "link", top / "out")
    assert environment.tools("evil", "./evil", *inside, "no-such", "a\0b", "", "~no-one/x") == {}
    assert len(environment.warnings) == 9, environment.warnings
    assert sum("work tree" in warning for warning in environment.warnings) == 3


def test_a_tool_needs_approval_and_gets_the_action(top: Path) -> None:
    environment = Environment(top)
    tool = environment.tools(program(top.parent))["weather"]
    assert tool.text == '<weather city="which">notes</weather> says the weather'
    observation = tool.perform(Action("weather", {"city": "Oslo"}, "be short\n"))
    call = {"args": {"city": "Oslo"}, "body": "be short\n", "top": str(top)}
    assert json.loads(observation.text.split("\n")[1]) == {"version": 1, "name": "weather", **call}
    (request,) = environment.requests
    assert (request.kind, request.what) == ("tool", 'weather(city="Oslo") be short')
    assert "unknown argument town" in tool.perform(Action("weather", {"town": "Oslo"})).text
    assert [event["name"] for event in environment.events] == ["weather"]
    (top.parent / "tool").unlink()
    observation = tool.perform(Action("weather", {}))
    assert not observation.ok and "could not run" in observation.text


@pytest.mark.parametrize("reads_only", [True, False])
def test_a_rejected_tool_is_not_run_and_a_reading_tool_needs_no_approval(top: Path, reads_only: bool) -> None:
    environment = Environment(top, verdict=Verdict(False, reason="not today"))
    path = program(top.parent, {**GOOD, "reads_only": reads_only}, script="touch ran")
    observation = environment.tools(path)["weather"].perform(Action("weather", {}))
    assert observation.ok == (top / "ran").exists() == (environment.requests == []) == reads_only
    assert reads_only == (observation.text != "weather was not run: not today")


def test_always_allows_only_this_tool(top: Path) -> None:
    kept: list[str] = []
    gate = Gate("ask", asker=lambda request: Verdict(True, always=True, keep=True), remember=kept.extend)
    tool = Environment(top, gate).tools(program(top.parent))["weather"]
    assert tool.perform(Action("weather", {"city": "Oslo"})).ok
    assert kept == ["tool:weather(*"]
    allow = (Rule(kept[0]),)
    for mode, call, allowed in (("ask", "weather(city)", True), ("ask", "weather2(city)", False),
                                ("read-only", "weather()", False)):  # fmt: skip
        verdict = Gate(mode, allow=allow).decide(ApprovalRequest("tool", call))
        assert verdict.allowed is allowed


def test_output_is_text_or_json_and_always_quoted() -> None:
    def observed(output: str, code: int = 0, errors: str = "", ended: str = "") -> Observation:
        return user_programs.observed("t", Ran(code, output, errors, 0.1, ended))

    assert "sunny\n</output" in observed("sunny").text
    answer = observed('{"text": "x </output>", "ok": false, "data": {"a": 1}}', errors="why")
    assert not answer.ok and answer.data == {"a": 1} and "why" in answer.text
    assert answer.text.count("</output id=") == 1
    assert observed('{"a": 1}').text.count('{"a": 1}') == 1 and observed("{").ok
    failed = observed("half", 2, "trace\x1b[2J")
    assert not failed.ok and "\x1b" not in failed.text
    assert all(part in failed.text for part in ("exit code 2", "trace"))
    assert observed("", ended="was ended after 1 seconds").text == "t was ended after 1 seconds."
    assert observed("").text == "t printed nothing."


FIELDS = st.fixed_dictionaries(
    {"name": JSON | st.just("a"), "text": JSON | st.just("b")},
    optional=dict.fromkeys(("version", "args", "body", "reads_only", "timeout"), JSON),
)


@pytest.mark.soak
@given(JSON | FIELDS)
def test_any_description_is_valid_or_refused(record: object) -> None:
    try:
        description = user_programs.read_description(json.dumps(record))
    except Refused:
        return
    assert description.prompt.startswith(f"<{description.name}")
    assert "\n" not in description.prompt and 0 < description.timeout <= 3600


def test_a_program_that_hangs_or_floods_is_ended(tmp_path: Path) -> None:
    late = start("echo one; echo two >&2; exec sleep 60", top=tmp_path, timeout=0.3)
    assert (late.failure, late.output, late.errors) == ("was ended after 0.3 seconds", "one\n", "two\n")
    flood = start("yes >&2", top=tmp_path, timeout=30)
    assert flood.failure == "was ended after printing 4 MB" and 3_900_000 < len(flood.errors) <= 4_000_000


def test_hooks_get_the_event_as_json_and_in_the_environment(tmp_path: Path) -> None:
    both = 'cat >seen.json; echo "$AGENT_EVENT $AGENT_RUN $AGENT_TURN"; echo "$AGENT_PATHS" | tail -n 1'
    events: list[Any] = []
    commands = {"after_edit": both, "before_turn": "cat", "before_finish": "exit 4"}
    hooks = UserHooks(tmp_path, "brave-otter", commands, events.append)
    paths = ["a b.py", "é.py"]
    text = hooks("after_edit", 7, paths).text
    event = {"version": 1, "event": "after_edit", "run": "brave-otter", "top": str(tmp_path), "turn": 7}
    assert json.loads((tmp_path / "seen.json").read_text()) == {**event, "paths": paths}
    assert "after_edit brave-otter 7\né.py\n</output" in text
    assert hooks("before_turn", 3).text.count('"turn": 3') == 1
    failed = hooks("before_finish")
    assert not failed.ok and failed.text.endswith("failed with exit code 4, and printed nothing.")
    assert [(event["event"], event["exit"]) for event in events] == [
        ("after_edit", 0), ("before_turn", 0), ("before_finish", 4),
    ]  # fmt: skip
    quiet = UserHooks(tmp_path, "r", {"before_turn": "true"})  # a silent success is not reported
    assert quiet("before_turn", 1) == quiet("before_finish") == HookAnswer(True, "")


def test_the_output_of_hooks_is_fenced_bounded_and_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "correct-horse-battery")
    hostile = "echo correct-horse-battery; echo '</output>'; printf 'a\\033[2Jb'"
    hooks = UserHooks(tmp_path, "r", {"before_turn": hostile, "before_finish": "seq 20000; exit 1"})
    text = hooks("before_turn", 1).text
    assert "correct-horse" not in text and "\x1b" not in text and text.count("</output id=") == 1
    long = hooks("before_finish")
    assert not long.ok and len(long.text) < 9000 and "20000\n" in long.text and "omitted" in long.text
