"""A chat with a program: input and output are lines of JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.applying import Done
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script

LOOK = '<read path="src/app.py"/>'
DONE = "<commit>Greet with a comma</commit>\n<finish>It greets with a comma.</finish>"


def lines(*values: object) -> str:
    return "".join(f"{json.dumps(value)}\n" for value in values)


def events(done: Done) -> list[dict[str, Any]]:
    result = [json.loads(line) for line in done.out.splitlines()]
    assert all(one["version"] == 1 for one in result)
    return result


def kinds(done: Done, *wanted: str) -> list[str]:
    return [one["event"] for one in events(done) if one["event"] in wanted]


def test_without_a_model_it_is_an_event(run: Run) -> None:
    done = run("chat", "--json-stream", env={"REPOAGENT_MODEL": "replay:nowhere"})
    (error,) = events(done)
    assert (error["event"], error["exit"]) == ("error", done.code) and done.code != 0


def test_an_invalid_turn_is_reported_and_an_error_does_not_end_it(run: Run, script: Script) -> None:
    script.replies(LOOK, "Two.")
    message = (
        f"nonsense\n[]\n{lines({'say': ' '}, {'say': '/quit'}, {'say': 'b'}, {'stop': True}, {'say': 'c'})}"
    )
    done = run("chat", "--json-stream", "--max-turns", "1", stdin=message)
    assert kinds(done, "start", "say", "error", "end") == ["start", "say", "say", "say", "error", "end"]
    assert (done.code, len(script.prompts)) == (0, 2) and "/quit" in script.prompts[0]
    end = events(done)[-1]
    assert (end["text"], end["usage"]["calls"]) == ("Two.", 1)


@pytest.mark.soak
def test_questions_are_answered_and_numbered_through_it(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(LOOK, GREET, DONE, "<run>touch a</run>", "never")
    stop = {"stop": True}
    done = run(
        "chat", "--json-stream", stdin=lines({"say": "a"}, {"id": 1, "answer": "yes"}, {"say": "b"}, stop)
    )
    questions = [(one["id"], one["of"]) for one in events(done) if one["event"] == "ask"]
    assert questions == [(1, "edit"), (2, "command")]
    assert kinds(done, "commit", "end", "error") == ["commit", "end", "error"]
    assert done.code == 130 and "Greet with a comma" in repo.git("log", "-1", "--format=%s")
