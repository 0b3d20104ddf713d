"""Types of agents: a subagent is limited to its parent's permissions, and broken files are skipped."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.agent.approvals.policy import MODES, Mode
from repoagent.llm.usage import Limits
from repoagent.tasks import agent_types
from repoagent.tasks.agent_types import BUILT_IN, EXPLORE, WIDENING, AgentType, find_agent_types, narrow_type

TOOLS = [*sorted(EXPLORE), "edit", "run", "delegate", "weather"]
SETS = st.frozensets(st.sampled_from(TOOLS))
BUDGETS = st.builds(
    Limits, turns=st.none() | st.integers(-5, 50), tokens=st.none() | st.integers(-5, 10**6),
    cost=st.none() | st.floats(-1, 10), day=st.none() | st.floats(-1, 10), seconds=st.none() | st.floats(-1, 1e5),
)  # fmt: skip
KINDS = st.builds(
    AgentType, st.just("k"), st.just("d"), tools=st.none() | SETS, model=st.none() | st.just("a/b"), limits=BUDGETS,
    mode=st.none() | st.sampled_from(MODES),
)  # fmt: skip


def within(inner: float | None, outer: float | None) -> bool:
    return outer is None or (inner is not None and 0 <= inner <= max(outer, 0))


@given(KINDS, SETS, st.sampled_from(MODES), BUDGETS)
def test_a_sub_agent_has_no_more_than_its_parent_and_its_type(
    kind: AgentType, tools: frozenset[str], mode: Mode, left: Limits
) -> None:
    child = narrow_type(kind, tools, mode, left)
    assert child.tools is not None and child.mode is not None
    assert child.tools <= tools and (kind.tools is None or child.tools <= kind.tools)
    for allowed in (mode, kind.mode or mode):
        assert WIDENING.index(child.mode) <= WIDENING.index(allowed)
    for outer in (left, kind.limits):
        for name, limit in vars(outer).items():
            assert within(getattr(child.limits, name), limit), name
    assert narrow_type(kind, child.tools, child.mode, child.limits) == child


def test_a_type_without_limits_has_all_that_its_parent_has() -> None:
    left = Limits(turns=5, tokens=100, cost=0.5, day=2, seconds=9)
    child = narrow_type(AgentType("k", "d"), frozenset(TOOLS), "auto-edit", left)
    assert (child.tools, child.mode, child.limits) == (frozenset(TOOLS), "auto-edit", left)
    assert WIDENING == ("read-only", "ask", "auto-edit", "auto")


WIDE = """\
---
description: does all
tools: [read, run, edit]
model: "command:mine"
mode: auto
max_turns: 5
max-cost: 0.5
---
Do all of it.
"""


def find(folder: Path, **texts: str) -> tuple[dict[str, AgentType], list[str]]:
    (folder / "agents").mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / "agents" / f"{name}.md").write_text(text)
    warnings: list[str] = []
    return find_agent_types(folder, warnings.append), warnings


def test_a_users_type_is_read_and_does_not_replace_a_built_in_type(tmp_path: Path) -> None:
    types, warnings = find(
        tmp_path, wide=WIDE, explore="---\ndescription: x\n---\nObey.\n",
        same="---\nname: wide\ndescription: x\n---\nx\n".replace("wide", "last"), last=WIDE,
        less="---\ndescription: x\ntools: read, outline\nmode: read-only\n---\nLook.\n",
    )  # fmt: skip
    wide, less = types["wide"], types["less"]
    assert (wide.tools, wide.model, wide.mode) == ({"read", "run", "edit"}, "command:mine", "auto")
    assert wide.limits == Limits(turns=5, cost=0.5) and wide.instructions == "Do all of it."
    assert (less.tools, less.model, less.mode) == ({"read", "outline"}, None, "read-only")
    assert types["explore"] == BUILT_IN["explore"] and types["last"] == replace(wide, name="last")
    assert len(warnings) == 2 and "as a built-in" in warnings[0] and "as another of your types" in warnings[1]


@pytest.mark.parametrize(("number", "cost"), [(".5", 0.5), ("5.", 5), ("1e1", 10), ("+3", 3), ("1_0", 10)])
def test_a_cost_may_be_any_python_number(tmp_path: Path, number: str, cost: float) -> None:
    types, warnings = find(tmp_path, one=f"---\ndescription: x\nmax_cost: {number}\n---\nx\n")
    assert (types["one"].limits, warnings) == (Limits(cost=cost), [])


def test_each_broken_type_is_skipped_with_one_warning(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    os.mkfifo(tmp_path / "agents" / "pipe.md")
    types, warnings = find(tmp_path, **{
        "bare": "Just words.\n", "no-words": "---\nname: no-words\n---\nx\n", "empty": "---\ndescription: x\n---\n\n",
        "mode": "---\ndescription: x\nmode: all\n---\nx\n", "turns": "---\ndescription: x\nmax_turns: 1.5\n---\nx\n",
        "cost": "---\ndescription: x\nmax_cost: nan\n---\nx\n", "tools": "---\ndescription: x\ntools: {a: b}\n---\nx\n",
        "many": "---\ndescription: x\nmax_tokens: 1e3\n---\nx\n", "less": "---\ndescription: x\nmax_time: -1\n---\nx\n",
        "Name": "---\ndescription: x\n---\nx\n", "list": "---\ndescription: [x]\n---\nx\n",
        "large": "---\ndescription: x\n---\n" + "x" * 33_000, "README": "no agent",
    })  # fmt: skip
    assert types == BUILT_IN
    assert len(warnings) == 13 and all(warning.endswith("skipped it") for warning in warnings), warnings


def test_the_prompt_lists_the_types_up_to_a_limit() -> None:
    block = agent_types.agent_types_block
    assert "- explore: answers" in block(BUILT_IN) and block({}) == ""
    many = {f"k{n}": AgentType(f"k{n}", "x" * 500) for n in range(40)}
    assert "10 more are not shown" in block(many) and len(block(many)) < 8000
