"""The messages of a run are shown however it ends; unfinished work is not reported as done."""

from __future__ import annotations

import json

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script

LOOK = '<message>half way\nthere</message>\nb.py comes next.\n<read path="src/app.py"/>'


def test_at_a_limit_the_message_is_shown_and_in_the_json(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(LOOK)
    done = run("run", "greet", "--mode", "auto-edit", "--max-turns", "1")
    assert (done.code, done.out) == (5, "")
    assert "half way\nthere\n" in done.err and "\nb.py comes next.\n" in done.err
    script.replies(LOOK)
    result = json.loads(run("run", "greet", "--mode", "auto-edit", "--max-turns", "1", "--json").out)["error"]
    assert (result["words"], result["messages"]) == ("b.py comes next.", ["half way\nthere"])
    script.replies(LOOK)
    done = run("run", "greet", "--mode", "auto-edit", "--max-turns", "1", "--json-stream")
    last = json.loads(done.out.splitlines()[-1])
    assert (last["event"], last["words"]) == ("error", "b.py comes next.")
    assert last["messages"] == ["half way\nthere"]


def test_a_message_after_a_change_exits_with_1(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(GREET, "Half of it.", "I stop here.")
    done = run("run", "greet", "--mode", "auto-edit")
    assert (done.code, done.out) == (1, "I stop here.\n")
    assert "not finished: the model stopped with a message." in done.err
    assert "unfinished" in run("runs", "show", "last").out
    script.replies("<commit>\nGreet\n</commit>\nb.py is left.\n<finish>greets</finish>")
    result = json.loads(run("run", "--continue", "finish", "--mode", "auto-edit", "--json").out)
    assert (result["outcome"], result["text"], result["words"]) == ("done", "greets", "b.py is left.")
