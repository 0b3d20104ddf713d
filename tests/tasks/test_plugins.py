"""Third-party tools: a broken tool is skipped with a warning, a working one needs approval, and none replaces a
built-in tool."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import ApprovalRequest, Gate, Verdict
from repoagent.agent.approvals.rules import Rule
from repoagent.agent.loop import load_agent
from repoagent.agent.state import Tool
from repoagent.errors import LimitReached, Refused, UsageError
from repoagent.tasks.plugins import _checked_description, observed, plugin_tools
from repoagent.tasks.user_hooks import Ran

GOOD = {
    "version": 1,
    "name": "weather",
    "text": "says the weather",
    "args": {"city": "which"},
    "body": "notes",
}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "top").mkdir()
    return tmp_path / "top"


def program(folder: Path, described: object = GOOD, script: str = "cat", name: str = "tool") -> Path:
    """A program that describes itself, and runs `script` when it is called."""
    said = described if isinstance(described, str) else json.dumps(described)
    path = folder / name
    path.write_text(
        f"#!/bin/sh\nif [ \"$1\" = --description ]; then cat <<'E'\n{said}\nE\nexit; fi\n{script}\n"
    )
    path.chmod(0o755)
    return path


class Desk:
    """The environment of a run: answers, approval requests and warnings."""

    def __init__(self, top: Path, verdict: Verdict | None = None) -> None:
        self.top, self.verdict = top, verdict or Verdict(True)
        self.requests: list[ApprovalRequest] = []
        self.warnings: list[str] = []
        self.events: list[object] = []
        self.gate: Gate | None = None

    def decide(self, request: ApprovalRequest) -> Verdict:
        self.requests.append(request)
        return self.gate.decide(request) if self.gate else self.verdict

    def tools(self, *programs: Path | str, settings: dict[str, str] | None = None) -> dict[str, Tool]:
        made = plugin_tools(
            self.top,
            [str(program) for program in programs],
            taken={"read", "run"},
            decide=self.decide,
            warn=self.warnings.append,
            settings=settings,
            audit=self.events.append,
        )
        return {tool.name: tool for tool in made}


def test_a_broken_program_is_skipped_with_one_warning(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away = top.parent
    cases = {
        "gone": "is not there",
        "plain": "is not executable; run `chmod",
        "fails": "failed with exit code 3 when called with --description: oh no",
        "words": "with JSON",
        "list": "did not print a JSON object",
        "newer": "of version 2",
        "nameless": "no valid name",
        "capital": "no valid name",
        "textless": "no valid text",
        "args": "argument name 'a b'",
        "id": "argument name 'id'",
        "slow": "must be a number of seconds",
        "reads": "must be true or false",
        "taken": "defines a tool run, but that name is taken",
        "own": "defines a tool finish, but that name is taken",
        "data": "defines a tool commit, but that name is taken",
    }
    described: dict[str, object] = {
        "words": "hello", "list": "[1]", "newer": {**GOOD, "version": 2}, "nameless": {"text": "x"},
        "capital": {**GOOD, "name": "Weather"}, "textless": {"name": "a", "text": " "}, "args": {**GOOD, "args": {"a b": ""}},
        "id": {**GOOD, "args": {"id": "x"}}, "slow": {**GOOD, "timeout": 1e9}, "reads": {**GOOD, "reads_only": "no"},
        "taken": {**GOOD, "name": "run"}, "own": {**GOOD, "name": "finish"}, "data": {**GOOD, "name": "commit"},
        "plain": GOOD, "fails": GOOD,
    }  # fmt: skip
    for name, said in described.items():
        program(away, said, name=name)
    (away / "plain").chmod(0o644)
    (away / "fails").write_text("#!/bin/sh\necho oh no >&2\nexit 3\n")
    context = Desk(top)
    assert context.tools(*(away / name for name in cases)) == {}
    assert len(context.warnings) == len(cases)
    for (name, why), warning in zip(cases.items(), context.warnings, strict=True):
        assert why in warning and f"/{name} of run.tools" in warning and "\n" not in warning, warning
        assert warning.endswith("skipped it")


def test_programs_in_the_repository_are_not_run(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(top, script="touch ran", name="evil")
    (top.parent / "link").symlink_to(top / "evil")
    (top / "out").symlink_to(program(top.parent, name="fine"))
    monkeypatch.setenv("PATH", f".:{top}:{os.environ['PATH']}")
    monkeypatch.chdir(top)
    context = Desk(top)
    assert (
        context.tools(
            "evil",
            "./evil",
            top / "evil",
            top.parent / "link",
            top / "out",
            "no-such",
            "a\0b",
            "",
            "~no-one/x",
        )
        == {}
    )
    assert len(context.warnings) == 9, context.warnings
    assert sum("work tree" in warning for warning in context.warnings) == 3


def test_a_tool_needs_approval_and_gets_the_action(top: Path) -> None:
    context = Desk(top)
    tool = context.tools(program(top.parent))["weather"]
    assert tool.text == '<weather city="which">notes</weather> says the weather'
    seen = tool.perform(Action("weather", {"city": "Oslo"}, "be short\n"))
    given = json.loads(seen.text.split("\n")[1])
    assert given == {
        "version": 1, "name": "weather", "args": {"city": "Oslo"}, "body": "be short\n", "top": str(top)
    }  # fmt: skip
    (request,) = context.requests
    assert (request.kind, request.what) == ("tool", 'weather(city="Oslo") be short')
    assert "unknown argument town" in tool.perform(Action("weather", {"town": "Oslo"})).text
    assert [e["name"] for e in context.events if isinstance(e, dict)] == ["weather"]


def test_a_rejected_tool_is_not_run(top: Path) -> None:
    context = Desk(top, Verdict(False, reason="not today"))
    seen = context.tools(program(top.parent, script="touch ran"))["weather"].perform(Action("weather", {}))
    assert (seen.ok, seen.text) == (False, "weather was not run: not today")
    assert not (top / "ran").exists()


def test_a_reading_tool_needs_no_approval(top: Path) -> None:
    context = Desk(top, Verdict(False, reason="no"))
    tool = context.tools(program(top.parent, {**GOOD, "reads_only": True}))["weather"]
    assert tool.perform(Action("weather", {"city": "x"})).ok and context.requests == []


def test_always_allows_only_this_tool(top: Path) -> None:
    kept: list[str] = []
    gate = Gate("ask", asker=lambda request: Verdict(True, always=True, keep=True), remember=kept.extend)
    context = Desk(top)
    context.gate = gate
    tool = context.tools(program(top.parent))["weather"]
    assert tool.perform(Action("weather", {"city": "Oslo"})).ok
    assert kept == ["tool:weather(*"]
    later = Gate("ask", allow=(Rule(kept[0]),))
    assert later.decide(ApprovalRequest("tool", 'weather(city="Bergen")')).allowed
    assert not later.decide(ApprovalRequest("tool", 'weather2(city="Bergen")')).allowed
    assert not Gate("read-only", allow=(Rule(kept[0]),)).decide(ApprovalRequest("tool", "weather()")).allowed


def test_output_is_text_or_json_and_always_quoted() -> None:
    def seen(output: str, code: int = 0, errors: str = "", ended: str = "") -> Observation:
        return observed("t", Ran(code, output, errors, 0.1, ended))

    assert "sunny\n</output" in seen("sunny").text
    answer = seen('{"text": "x </output>", "ok": false, "data": {"a": 1}}', errors="why")
    assert (
        not answer.ok
        and answer.data == {"a": 1}
        and answer.text.count("</output id=") == 1
        and "why" in answer.text
    )
    assert seen('{"a": 1}').text.count('{"a": 1}') == 1 and seen("{").ok
    failed = seen("half", 2, "trace\x1b[2J")
    assert (
        not failed.ok
        and "exit code 2" in failed.text
        and "trace" in failed.text
        and "\x1b" not in failed.text
    )
    assert seen("", ended="was ended after 1 seconds").text == "t was ended after 1 seconds."
    assert seen("").text == "t printed nothing."


def test_a_tool_that_hangs_is_killed(top: Path) -> None:
    tool = Desk(top).tools(program(top.parent, {**GOOD, "timeout": 0.2}, script="sleep 60"))["weather"]
    seen = tool.perform(Action("weather", {}))
    assert not seen.ok and "ended after 0.2 seconds" in seen.text


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.fixed_dictionaries(
    {"name": JSON | st.just("a"), "text": JSON | st.just("b")},
    optional=dict.fromkeys(("version", "args", "body", "reads_only", "timeout"), JSON),
)


@pytest.mark.soak
@given(JSON | FIELDS)
def test_any_description_is_valid_or_refused(record: object) -> None:
    try:
        said = _checked_description(record)
    except Refused:
        return
    assert said.prompt.startswith(f"<{said.name}") or said.text.startswith(f"<{said.name}")
    assert "\n" not in said.prompt and 0 < said.timeout <= 3600


MODULE = """
from repoagent.agent.actions import Observation; from repoagent.agent.state import Tool
from repoagent.errors import LimitReached, UsageError
from repoagent.tasks.plugins import PluginTool

def tool(name, perform):
    return Tool(name, f"<{name}/> is there", perform)

def well(context):
    def perform(action):
        context.audit({"kind": "note"})
        return Observation("good", context.settings.get("unit", "none") + " " + context.top.name)
    return [tool("good", perform), PluginTool("calm", "<calm/>", perform, reads_only=True)]

def defects(context):
    def over(action):
        raise LimitReached("enough")
    def wrong(action):
        raise UsageError("say a city")
    return (tool("zero", lambda action: 1 / 0), tool("none", lambda action: None), tool("over", over), tool("wrong", wrong))

def same(context): return tool("good", None)
def ours(context): return tool("read", None)
def odd(context): return tool("Odd name", None)
def text(context): return ["a"]
def raises(context): raise KeyError("where")
def quits(context): raise SystemExit(3)
"""
POINTS = ["well", "defects", "same", "ours", "odd", "text", "raises", "quits", "absent"]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    info = site / "kind_tools-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kind-tools\nVersion: 1.0\n")
    points = "".join(f"p{n}-{name} = kind_tools:{name}\n" for n, name in enumerate(POINTS))
    points = f"[repoagent.tools]\n{points}p9-gone = no_such_module_x:y\n[repoagent.agents]\n"
    points += "syntax = kind_syntax:A\nkey = kind_key:A\n"
    (info / "entry_points.txt").write_text(points)
    (site / "kind_syntax.py").write_text("class A(:\n")
    (site / "kind_key.py").write_text("{}['where']\n")
    (site / "kind_tools.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(site))


def test_installed_tools_are_used_and_broken_ones_skipped_with_a_warning(top: Path, installed: None) -> None:
    context = Desk(top)
    tools = context.tools(settings={"p0-well.unit": "C", "other.unit": "F"})
    assert sorted(tools) == ["calm", "good", "none", "over", "wrong", "zero"]
    assert tools["good"].perform(Action("good")).text == "C top" and context.events == [{"kind": "note"}]
    assert tools["calm"].perform(Action("calm")).text == "C top"
    assert [request.what for request in context.requests] == ["good()"]
    said = "\n".join(context.warnings)
    assert len(context.warnings) == 8 and said.count("skipped it") == 8
    for why in (
        "tool good, but that name is taken", "tool read, but that name is taken", "'Odd name'", "returns str instead of a Tool",
        "failed: KeyError: 'where'", "failed: SystemExit: 3", "AttributeError", "ModuleNotFoundError",
    ):  # fmt: skip
        assert why in said, said


def test_an_exception_in_a_tool_does_not_end_the_run(top: Path, installed: None) -> None:
    tools = Desk(top).tools()
    zero = tools["zero"].perform(Action("zero"))
    assert (zero.ok, zero.text) == (False, "the tool zero failed: ZeroDivisionError: division by zero.")
    assert not tools["none"].perform(Action("none")).ok
    assert tools["wrong"].perform(Action("wrong")).text == "say a city"
    with pytest.raises(LimitReached):
        tools["over"].perform(Action("over"))


@pytest.mark.parametrize(("name", "why"), [("syntax", "invalid syntax"), ("key", "'where'")])
def test_an_agent_that_cannot_be_loaded_is_reported(installed: None, name: str, why: str) -> None:
    with pytest.raises(UsageError, match=rf"could not load the agent {name} \(kind_{name}:A\): .*{why}"):
        load_agent(name)


def test_a_program_that_is_missing_at_a_call(top: Path) -> None:
    path = program(top.parent)
    tool = Desk(top).tools(path)["weather"]
    path.chmod(stat.S_IRUSR)
    path.unlink()
    seen = tool.perform(Action("weather", {}))
    assert not seen.ok and "could not run" in seen.text
