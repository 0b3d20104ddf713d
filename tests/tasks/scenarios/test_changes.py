"""Tasks that change files, with commands, hooks, limits, plans and subagents; `undo` restores the bytes. The last ones
run the whole program as a process."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from repoagent.errors import CheckFailed, Exit, LimitReached, NothingDone
from repoagent.llm.usage import Limits
from tests import program
from tests.llm.providers.messages_server import Received, text
from tests.tasks.bare import NAME
from tests.tasks.scenarios.stage import BUMP, FIX, MODEL, Look, Stage, change, finish, seen

Make = Callable[..., Stage]


@pytest.mark.parametrize("staged", [False, True])
def test_the_users_work_in_the_same_file_stays_uncommitted(stage: Make, staged: bool) -> None:
    task = stage()
    mine = task.repo.read("convert/rounding.py").replace(b'"""Rounding."""', b'"""Rounding, mine."""')
    task.repo.write("docs/mass.md", "staged\n")
    task.repo.write("convert/rounding.py", mine)
    task.repo.git("add", "docs/mass.md", *(["convert/rounding.py"] if staged else []))
    task.repo.write("notes.txt", "untracked\n")
    assert task.go(*FIX, prompt="Make the failing test pass.").kind == "done"
    assert task.kinds() == ["run", "read", "edit", "run", "finish"]
    assert "mine" not in task.repo.git("show", "HEAD:convert/rounding.py")
    assert task.repo.read("convert/rounding.py") == mine.replace(b"str(value)", b"str(round(value))")
    letters = "M " if staged else " M"
    assert task.repo.status() == f"{letters} convert/rounding.py\nM  docs/mass.md\n?? notes.txt\n"
    task.whole("convert/rounding.py")


@pytest.mark.parametrize("by", ["hook", "before_finish"])
def test_a_hook_that_always_fails(stage: Make, by: str) -> None:
    task = stage()
    if by == "hook":
        task.repo.hook("pre-commit", "echo never; exit 1\n")
    config = {"run.before_finish": "echo never; exit 3"} if by == "before_finish" else {}
    tries = [f"<run>true</run>\n{finish('Say all', f'try {number}')}" for number in range(4)]
    end = r"never(.|\n)*Nothing was committed after 3 tries\. Your files contain the change"
    with pytest.raises(CheckFailed, match=end) as failed:
        task.go(*BUMP[:2], *tries, prompt="Say all units.", config=config)
    assert (int(failed.value.exit_code), task.kinds().count("finish")) == (6, 3)
    if by == "before_finish":
        start = "The user's command before_finish (`echo never; exit 3`) failed with exit code 3. Nothing"
        assert str(failed.value).startswith(start) and failed.value.printed == "never"
    assert task.before is not None
    assert (task.repo.head(), task.repo.status()) == (task.before.head, " M README.md\n")
    task.sound("failed")
    assert task.record()["exit"] == 6
    (task.repo.top / ".git/hooks/pre-commit").unlink(missing_ok=True)
    task.go()
    task.whole("README.md")


def test_the_model_reads_before_finish_and_after_edit(stage: Make) -> None:
    """`after_edit` formats, which is reported; `before_finish` requires a word that the model reads in its output."""
    config = {
        "run.before_finish": "grep -q Celsius README.md || { echo say Celsius in README; exit 1; }",
        "run.after_edit": "sed -i 's/All units/all units/; s/[ ]*$//' README.md; echo formatted $AGENT_PATHS",
    }
    more = seen("say Celsius in README", change("README.md", "## Options", "## Options in Celsius"))
    task = stage()
    formatted = seen("formatted README.md", finish("Say all"))
    task.go(*BUMP[:2], formatted, more, finish("x"), prompt="x", config=config)
    task.whole("README.md")


def test_five_megabytes_of_output(stage: Make) -> None:
    """The relevant line is in the middle; the model searches the rest of the output."""

    def search(received: Received) -> str:
        rest = re.search(r"omitted: (@output/\S+) has", received.turns[-1][1])
        return f'<search path="{rest[1] if rest else "?"}" pattern="the answer is"/>'

    def read(received: Received) -> str:
        path = re.search(r'path="(@output/\S+?)"', received.turns[-2][1])
        line = re.search(r"^(\d+):the answer is Kelvin", received.turns[-1][1], re.MULTILINE)
        if path is None or line is None:
            return "<reject>no</reject>"
        return f'<read path="{path[1]}" lines="{line[1]}-{line[1]}"/>'

    task = stage()
    command = "<run>seq 1 700000 | sed 's/^350000$/the answer is Kelvin/'</run>"
    end = seen("the answer is Kelvin", finish("x"))
    assert task.go(command, search, read, end, prompt="What does it say?").kind == "done"
    assert max(len(received.text) for received in task.requests) < 60_000


@pytest.mark.parametrize(
    ("limits", "reply"),
    [
        (Limits(turns=3), {}),
        (Limits(turns=40, tokens=70_000), {"usage": {"input_tokens": 20_000, "output_tokens": 100}}),
        (Limits(turns=40, cost=0.15), {"usage": {"input_tokens": 20_000, "output_tokens": 100}}),
        (Limits(turns=40, seconds=4.0), {"first_delay": 2.5}),
    ],
    ids=["turns", "tokens", "cost", "time"],
)
def test_resume_after_a_limit(stage: Make, limits: Limits, reply: dict[str, Any]) -> None:
    """The run reports the limit and resumes from there, without repeating any work or cost."""
    task = stage()
    task.behave = lambda received, words: text(words, **reply)
    # a limit of time would also end a command
    replies, path = (BUMP, "README.md") if limits.seconds else (FIX, "convert/rounding.py")
    with pytest.raises(LimitReached) as ended:
        task.go(*replies, prompt="Improve it.", limits=limits)
    assert ended.value.exit_code == Exit.LIMIT
    first = len(task.sent)
    task.sound("limit")
    assert (task.record()["exit"], task.repo.head()) == (5, task.before.head)
    task.behave = None
    assert task.go().kind == "done"
    assert len(task.kinds()) == len(replies) > first >= 1
    task.whole(path)


def test_a_plan_first_and_the_users_task_then(stage: Make) -> None:
    """--plan-only writes a plan; the resumed run does it, and a task that the user adds meanwhile."""
    task = stage()
    add = '<task add="Say all units">README.md</task>\n<task add="Read it"/>'
    assert task.go(add, "<finish>two</finish>", prompt="Say all units.", plan_only=True).text == "two"
    assert "Only a plan is wanted" in task.requests[0].system and Look.at(task.repo) == task.before
    plan = task.file("runs", NAME, "plan.md")
    assert plan.read_text().count("\n- [ ]") == 2

    def add_task() -> None:
        plan.write_text(plan.read_text().rstrip("\n") + "\n- [ ] Thank Ada in CONTRIBUTING.md\n")

    task.at[4] = add_task
    thanks = change("CONTRIBUTING.md", "# Contributing", "# Thanks, Ada")
    task.go(
        add, "<finish>two</finish>", *BUMP[:2], '<task n="1" state="done"/>\n<task n="2" state="done"/>',
        seen("Thank Ada", finish("Say all")), seen("Tasks of the plan are open: 3 Thank Ada", thanks),
        '<task n="3" state="done"/>', finish("Say all"), prompt="Do it.",
    )  # fmt: skip
    assert plan.read_text().count("\n- [x]") == 3
    task.whole("CONTRIBUTING.md", "README.md")


def test_two_sub_agents_in_parallel(stage: Make) -> None:
    """Each subagent answers one question in its own process; the parent writes the answers."""
    asked = {"register": "convert/table.py", "rounded": "convert/rounding.py"}

    def reply(received: Received) -> str:
        is_first = len(received.turns) == 1
        if wanted := re.search(r"Which file defines (\w+)\?", received.turns[0][1]):
            question = f'<search pattern="def {wanted[1]}"/>'
            return question if is_first else f"<finish>{asked[wanted[1]]}</finish>"
        if is_first:
            begin = '<delegate kind="explore" background="yes">Which file defines {}?</delegate>\n'
            return "".join(map(begin.format, asked))
        bodies = re.findall(r"<answer[^<>\n]*>\n(.*?)</answer", received.text, re.DOTALL)
        answers = [body.strip() for body in bodies]
        if len(set(answers)) < 2:
            return f'<wait child="c{1 + (asked["register"] in answers)}"/>'
        if "Applied" not in received.turns[-1][1]:
            return change("README.md", "Converts units.", f"See {' and '.join(sorted(set(answers)))}.")
        return finish("Say where things are")

    task = stage()
    outcome = task.go(*[reply] * 7, prompt="Say where things are.")
    assert outcome.kind == "done"
    assert b"See convert/rounding.py and convert/table.py." in task.repo.read("README.md")
    assert outcome.turns == len(task.requests) and outcome.usage.total == task.record()["tokens"]
    assert not outcome.usage.estimated
    results = "\n".join(said for _, said in task.requests[-1].turns)
    name, tokens = re.findall(r"subagent finished \((run-\S+)\), 2 calls, ([\d,]+) tokens, \$\d", results)[0]
    answered = task.record(name)
    assert (f"{answered['tokens']:,}", answered["parent"], answered["state"]) == (tokens, task.name, "done")
    task.whole("README.md")


@pytest.mark.parametrize("mode", ["auto-edit", "read-only"])
def test_a_sub_agent_that_edits(stage: Make, mode: str) -> None:
    """The worker's changes become the parent's, which commits them; the worker of a read-only run cannot edit."""
    tried: list[bool] = []

    def reply(received: Received) -> str:
        number = sum(role == "assistant" for role, _ in received.turns)
        if "CHILD:" in received.turns[0][1]:
            tried.append("```diff" in received.system)
            assert "<delegate" not in received.system
            return str(BUMP[number] if number < 2 else "<finish>ok</finish>") if tried[-1] else "I can't."
        if number == 0:
            return '<delegate kind="edit">CHILD: README.md shall say all units</delegate>'
        return seen("It changed README.md|unknown kind edit", finish("Say all"))(received)

    task = stage()
    assert task.go(*[reply] * 4, prompt="Have it changed.", mode=mode).kind == "done"
    if mode == "auto-edit":
        task.whole("README.md")
    else:
        assert not any(tried) and Look.at(task.repo) == task.before


def test_notes_of_an_earlier_run_are_recalled(stage: Make) -> None:
    """The next run sees the note when it reads the file, and finds it by a search."""
    task = stage()
    noted = finish("Say all").replace("<finish>", "<note>README.md: the lawyers want `all`</note>\n<finish>")
    task.go(*BUMP[:2], noted, prompt="x")
    task.sound()
    later = "run-20260102-000000-abcdef"
    with pytest.raises(NothingDone, match="the lawyers want it"):
        task.go(
            '<recall query="lawyers"/>', seen("lawyers", '<recall query="zebra stripes"/>'),
            seen("Nothing matches", '<read path="README.md"/>'), seen("lawyers", "<reject>the lawyers want it</reject>"),
            prompt="Drop the word all.", name=later,
        )  # fmt: skip
    task.sound("rejected", name=later)


def test_a_long_run_with_a_small_window(stage: Make) -> None:
    """The run reads much more than the window holds, over several checkpoints, and completes the task."""
    steps = range(1, 25)
    filler = "".join(
        f"line {n} of a text that is only long, with nothing in it that matters\n" for n in range(110)
    )
    checkpoints: list[int] = []

    def reply(received: Received) -> str:
        everything = "".join(said for _, said in received.turns)
        known = sorted(set(re.findall(r"\d\d-kelvin", everything)))
        if "Write only the checkpoint" in received.turns[-1][1]:
            checkpoints.append(len(received.turns))
            return f"## Goal\nCollect.\n## Decisions\nWords: {' '.join(known)}\n## Next step\nRead on.\n"
        if "Collect the words" not in everything:
            return "<reject>I have forgotten the task</reject>"
        if missing := [number for number in steps if f"{number:02}-kelvin" not in known]:
            path = f"parts/part{missing[0]:02}.txt"
            rest = re.findall(rf'{path}(?:.|\n)*?read them with lines="(\d+-\d+)"', everything)
            return f'<read path="{path}"' + (f' lines="{rest[-1]}"/>' if rest else "/>")
        if "Applied" not in received.turns[-1][1]:
            return change("README.md", "Converts units.", f"{len(known)} words.")
        return finish("Collect the words", f"{len(known)} words")

    task = stage({f"parts/part{n:02}.txt": f"{filler}secret word: {n:02}-kelvin\n" for n in steps})
    config = {"max_output_tokens": 1000, "models.anthropic/claude-sonnet-5-5.context": 16_000}
    limits = Limits(turns=90)
    outcome = task.go(*[reply] * 90, prompt="Collect the words of parts/.", limits=limits, config=config)
    assert outcome.text == "24 words" and len(checkpoints) >= 2
    task.whole("README.md")


# -- the whole program: linked work trees, answers by a program, and a kill during a command

COMMAND = ("run", "--model", MODEL, "--mode")


def run(task: Stage, *words: str, stdin: bytes = b"", mode: str = "auto-edit") -> tuple[int, str, str]:
    done = program.run([*COMMAND, mode, *words], task.repo.top, stdin=stdin, load=("anthropic",))
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("way", [("--branch", "topic"), ("--worktree", "../beside")])
def test_a_new_branch_or_work_tree(stage: Make, way: tuple[str, str]) -> None:
    """The work tree of an interrupted run is kept, and --resume uses it again."""
    task = stage()
    task.repo.write("README.md", "# mine\n")
    task.repo.write("docs/mass.md", "staged\n")
    task.repo.git("add", "docs/mass.md")
    task.replies, task.before = BUMP, Look.at(task.repo)
    on_branch = way[0] == "--branch"
    code, out, err = run(task, *way, *(("--max-turns", "2") if on_branch else ()), "--json", "Say all units.")
    assert code == (5 if on_branch else 0), err
    if on_branch:
        (folder,) = task.file("runs").iterdir()
        code, out, err = run(task, "--resume", folder.name, "--json")
        assert code == 0, err
    assert Look.at(task.repo) == task.before
    (commit,) = json.loads(out)["commits"]
    assert task.repo.git("rev-parse", f"{commit}^").strip() == task.before.head
    assert "Converts all units." in task.repo.git("show", f"{commit}:README.md")
    branches = task.repo.git("for-each-ref", "--format=%(refname:short)", "--contains", commit).split()
    assert branches == ["topic"] if on_branch else len(branches) == 1 and branches != ["main"]
    assert task.repo.git("worktree", "list").count("\n") == (1 if on_branch else 2)


def test_events_and_an_answer_by_a_program(stage: Make) -> None:
    """--json-stream: each line is an event; the answer is read from standard input."""
    task = stage()
    task.replies = ("<run>make check</run>", seen("exit [12]", str(BUMP[0])), *BUMP[1:])
    task.before = Look.at(task.repo)
    answers = "".join(json.dumps({"id": n, "answer": "yes"}) + "\n" for n in (1, 2, 3)).encode()
    code, out, err = run(task, "--json-stream", "Say all units.", stdin=answers, mode="ask")
    assert code == 0, (out, err)
    events = [json.loads(line) for line in out.splitlines()]
    assert {event["version"] for event in events} == {1}
    assert (events[0]["event"], events[-1]["event"]) == ("start", "end")
    assert [event["of"] for event in events if event["event"] == "ask"] == ["command", "edit"]
    task.name = events[0]["run"]
    task.sound()
    task.committed("README.md")


def test_without_a_user_to_ask(stage: Make) -> None:
    """The default mode without a terminal: nothing is written, and the message names the remedy."""
    task = stage()
    task.replies, task.before = BUMP, Look.at(task.repo)
    code, _, err = run(task, "Say all units.", mode="ask")
    assert code != 0 and "--mode auto-edit" in err
    assert Look.at(task.repo) == task.before


def test_killed_during_a_command(stage: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command dies with the run; the model learns that its progress is unknown."""
    monkeypatch.setenv("REPOAGENT_RUN__ALLOW", "python3 *\ntouch *\nsleep *")
    task = stage()
    wait = "<run>touch begun; sleep 31.4159; touch ended</run>"
    task.name, task.replies = "fix", (wait, seen("This was interrupted", str(FIX[0])), *FIX[1:])
    task.before = Look.at(task.repo)
    words = ("--conversation", task.name, "Make the failing test pass.")
    running = program.start([*COMMAND, "auto-edit", *words], task.repo.top, load=("anthropic",))
    while not (task.repo.top / "begun").exists():
        assert running.poll() is None, running.communicate()
        time.sleep(0.02)
    running.kill()
    running.communicate()
    until = time.monotonic() + 5
    while b"sleep 31.4159" in subprocess.run(["ps", "-eo", "args"], capture_output=True, check=True).stdout:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert not (task.repo.top / "ended").exists()
    (task.repo.top / "begun").unlink()
    code, _, err = run(task, "--resume", task.name)
    assert code == 0, err
    task.whole("convert/rounding.py")
