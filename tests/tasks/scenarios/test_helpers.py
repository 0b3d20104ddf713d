"""Tasks with sub-agents, skills, plugins, memory, linked work trees, and long conversations."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.errors import NothingDone
from repoagent.llm.usage import Limits
from tests.tasks.scenarios.rules import replace_line
from tests.tasks.scenarios.sight import Sight, edit, finish, patch, quoted
from tests.tasks.scenarios.stage import Look, Stage

Make = Callable[..., Stage]

BUMP = replace_line("README.md", "Converts units.", "Converts all units.", "Say all")
USER = ".config/repoagent"


def test_two_sub_agents_in_parallel(stage: Make) -> None:
    """Each answers its own question in its own process; the parent writes the answers."""

    def child(see: Sight) -> str:
        wanted = re.search(r"Which file defines (\w+)\?", see.words)
        if not wanted:
            return "<reject>I was asked nothing</reject>"
        return f"<finish>{see.found(f'def {wanted[1]}')[0][0]}</finish>"

    def parent(see: Sight) -> str:
        if any(one.applied for one in see.done):
            return finish("Say where things are", "two children found it")
        delegated = [one for one in see.done if one.kind == "delegate"]
        if not delegated:
            return "\n".join(
                f'<delegate kind="explore" background="yes">Which file defines {name}?</delegate>'
                for name in ("register", "rounded")
            )
        answers = [*see.results("wait"), *see.results("notice")]
        found = [
            line.strip() for text in answers for body in quoted(text, "answer") for line in body.split("\n")
        ]
        found = [line for line in dict.fromkeys(found) if line]
        if len(found) < 2:
            waited = {one.args["child"] for one in see.done if one.kind == "wait" and one.seen}
            names = re.findall(r'<wait child="(c\d)"/>', "\n".join(one.seen or "" for one in delegated))
            left = [name for name in names if name not in waited]
            return f'<wait child="{left[0]}"/>' if left else f"<reject>{answers}</reject>"
        lines = see.lines("README.md")
        return edit(patch("README.md", lines, [*lines, "", f"See {' and '.join(sorted(found))}."]))

    task = stage("python")
    outcome = task.go(
        lambda see: child(see) if "Which file defines" in see.words else parent(see), "Say where things are."
    )
    assert outcome.kind == "done"
    assert task.repo.read("README.md").endswith(b"See convert/rounding.py and convert/table.py.\n")
    assert outcome.turns == len(task.server.requests)  # type: ignore[union-attr]
    assert outcome.usage.total == task.record()["tokens"]
    result = next(
        text for text in task.server.requests[-1].text.split("</observation") if "sub-agent finished" in text
    )  # type: ignore[union-attr]
    name, tokens = re.findall(
        r"The sub-agent finished \((run-\S+)\), 2 calls, ([\d,]+) tokens, \$\d", result
    )[0]
    answered = task.record(name)
    assert (f"{answered['tokens']:,}", answered["parent"], answered["state"]) == (tokens, task.name, "done")
    task.whole("README.md")


def test_a_sub_agent_that_edits(stage: Make) -> None:
    """Its changes become part of the parent's, which commits them and undoes them together."""

    def parent(see: Sight) -> str:
        done = see.once("delegate", '<delegate kind="edit">CHILD: README.md shall say all units</delegate>')
        if "It changed README.md" not in done:
            return f"<reject>{done}</reject>"
        return replace_line("docs/mass.md", "# Mass", "# Masses", "Say all")(see)

    task = stage("python")
    rule = lambda see: BUMP(see) if "CHILD:" in see.words else parent(see)  # noqa: E731
    assert task.go(rule, "Have it changed.").kind == "done"
    task.whole("README.md", "docs/mass.md")


def test_a_sub_agent_has_no_more_than_its_parent(stage: Make) -> None:
    """A sub-agent of a read-only run cannot write; `explore` has no tool for that and no sub-agents."""
    tags: list[frozenset[str]] = []

    def rule(see: Sight) -> str:
        if "CHILD:" in see.words:
            tags.append(see.tags)
            return "I was not told how to edit." if not see.may_edit else "<finish>I could edit</finish>"
        seen = see.once("delegate", '<delegate kind="edit">CHILD: change it</delegate>')
        return f"it says: {quoted(seen, 'answer') or seen}"

    task = stage("python")
    outcome = task.go(rule, "Change it.", mode="read-only")
    assert "could edit" not in outcome.text
    assert all("delegate" not in some for some in tags)
    assert Look.at(task.repo) == task.before


@pytest.mark.soak
def test_a_skill_is_read_on_demand(stage: Make) -> None:
    """The prompt has one line; the model reads in the file how a unit is added."""
    skill = (
        "---\nname: add-unit\ndescription: How a unit is added here.\n---\n"
        "# Adding a unit\n\nWrite the factor in docs/FACTORS.md, a line `NAME = FACTOR`.\n"
    )

    def rule(see: Sight) -> str:
        name = re.search(r"^- ([\w-]+): How a unit is added", see.system, re.MULTILINE)
        if not name:
            return "<reject>no skill says how</reject>"
        text = see.once("skill", f'<skill name="{name[1]}"/>', name=name[1])
        where = re.search(r"Write the factor in (\S+), a line `NAME = FACTOR`", text)
        if not where:
            return f"<reject>{text}</reject>"
        if any(one.applied for one in see.done):
            return finish("Add the stone", "as the skill says")
        lines = see.lines(where[1])
        return edit(patch(where[1], lines, [*lines, "stone = 6.35"]))

    task = stage("python", {".claude/skills/add-unit/SKILL.md": skill, "docs/FACTORS.md": "# Factors\n\n"})
    task.go(rule, "Add the stone, 6.35 kilograms.")
    assert "Write the factor" not in task.server.requests[0].text  # type: ignore[union-attr]
    task.whole("docs/FACTORS.md")


def test_a_tool_of_the_user(stage: Make, clean_environment: Path) -> None:
    """A program that describes itself: its line is in the prompt, its output in an observation."""
    tool = clean_environment / "weather"
    tool.write_text(
        '#!/bin/sh\nif [ "$1" = --description ]; then\n'
        '  echo \'{"version": 1, "name": "weather", "text": "says how the weather is", "args": {"place": "CITY"}}\'\n'
        'else\n  cat >/dev/null; echo "sunny in $ARG_PLACE"\nfi\n'
    )
    tool.chmod(0o755)

    def rule(see: Sight) -> str:
        if "weather" not in see.tags:
            return f"<reject>no weather in {sorted(see.tags)}</reject>"
        seen = see.once("weather", '<weather place="Oslo"/>', place="Oslo")
        word = re.search(r"(\w+) in Oslo", seen)
        return replace_line("README.md", "Converts units.", f"Converts units, {word[1] if word else '?'}.")(
            see
        )

    task = stage("python")
    task.go(rule, "Say how the weather in Oslo is.", config={"run.tools": [str(tool)]})
    assert b"Converts units, sunny." in task.repo.read("README.md")
    task.whole("README.md")


def test_notes_of_an_earlier_run_are_recalled(stage: Make) -> None:
    """The first run notes the reason; the second sees it when it reads the file, and finds it by a search, which does
    not find itself."""

    def first(see: Sight) -> str:
        return BUMP(see).replace(
            "<finish>", "<note>README.md: the word `all` is wanted by the lawyers</note>\n<finish>"
        )

    def second(see: Sight) -> str:
        found = see.once("recall", '<recall query="lawyers"/>', query="lawyers")
        unheard = see.once("recall", '<recall query="zebra stripes"/>', query="zebra stripes")
        assert unheard.strip() == "Nothing fits."
        read = see.once("read", '<read path="README.md"/>', path="README.md")
        in_read = "".join(quoted(read, "memory"))
        if "lawyers" in found and "lawyers" in in_read:
            return "<reject>`all` is wanted by the lawyers</reject>"
        return BUMP(see)

    task = stage("python")
    task.go(first, "Say all units.")
    task.sound()
    with pytest.raises(NothingDone, match="wanted by the lawyers"):
        task.go(second, "Drop the word all.", name="run-20260102-000000-abcdef")
    task.sound("rejected", name="run-20260102-000000-abcdef")


def test_a_long_run_with_a_small_window(stage: Make) -> None:
    """The run reads much more than the window holds, over several checkpoints, and completes the task."""
    steps = [f"part{n:02}.txt" for n in range(1, 25)]
    filler = "".join(
        f"line {n} of a text that is only long, with nothing in it that matters\n" for n in range(1, 110)
    )
    files: dict[str, bytes | str] = {
        f"parts/{name}": f"{filler}secret word: {name[4:6]}-kelvin\n" for name in steps
    }
    checkpoints: list[int] = []

    def rule(see: Sight) -> str:
        last = see.messages[-1][1]
        if "Write only the checkpoint" in last:
            checkpoints.append(len(see.messages))
            known = sorted(set(re.findall(r"\d\d-kelvin", "".join(text for _, text in see.messages))))
            return f"## Goal\nCollect the words of parts/.\n## Decisions\nWords so far: {' '.join(known)}\n## Next step\nRead on.\n"
        known = sorted(set(re.findall(r"\d\d-kelvin", "".join(text for _, text in see.messages))))
        if "Collect the words" not in see.words:
            return "<reject>I have forgotten what I was asked</reject>"
        for name in steps:
            if f"{name[4:6]}-kelvin" not in known:
                part = see.last("read", path=f"parts/{name}")
                rest = re.search(r'read them with lines="(\d+-\d+)"', (part.seen or "") if part else "")
                which = f' lines="{rest[1]}"' if rest else ""
                return f'<read path="parts/{name}"{which}/>'
        if any(one.applied for one in see.done):
            return finish("Collect the words", f"{len(known)} words")
        text = see.lines("README.md")
        return edit(patch("README.md", text, [*text, "", *known]))

    task = stage("python", files)
    outcome = task.go(
        rule,
        "Collect the words of parts/ in README.md.",
        limits=Limits(turns=90),
        config={"max_output_tokens": 1000, "models.anthropic/claude-sonnet-5-5.context": 16_000},
    )
    assert outcome.text == "24 words"
    assert len(checkpoints) >= 2
    assert task.repo.read("README.md").decode().split("\n")[-2] == "24-kelvin"
    task.whole("README.md")
