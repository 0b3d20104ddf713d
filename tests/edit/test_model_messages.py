"""The last reply of the model and its earlier messages are shown, however the edit ends."""

from __future__ import annotations

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script


def test_all_text_of_a_reply_is_printed(repo: GitRepo, edit: Run, script: Script) -> None:
    reply = f"<message>b.txt has to change too\nand c.txt</message>\nOnly a half.\n\n{GREET}"
    script.replies(reply)
    done = edit(request="greet")
    assert "b.txt has to change too\nand c.txt\n" in done.err and "Only a half.\n" in done.err
    repo.git("reset", "-q", "--hard", "HEAD^")
    script.replies(reply)
    value = edit("--json", request="greet once more").json
    assert (value["outcome"], value["answer"], value["words"]) == ("committed", "", "Only a half.")
    assert value["messages"] == ["b.txt has to change too\nand c.txt"]


@pytest.mark.parametrize("last", ["<finish>b.txt has to change</finish>", "b.txt has to change"])
def test_no_edit_after_a_failed_check_exits_6(repo: GitRepo, edit: Run, script: Script, last: str) -> None:
    before = repo.head(), repo.read("src/app.py")
    check = ("--check", "echo x >> .git/checked; false", "--check-unconfined")
    script.replies(GREET, last)
    done = edit(*check, code=6)
    assert (repo.head(), repo.read("src/app.py"), repo.status()) == (*before, "")
    assert "b.txt has to change\n" in done.err and "failed with exit code 1" in done.err
    assert repo.read(".git/checked") == b"x\n"  # once
    script.replies(GREET, last)
    error = edit(*check, "--json", request="greet it", code=6).json["error"]
    assert (error["exit"], error["words"]) == (6, "b.txt has to change")


def test_finishing_after_a_refused_edit_is_not_a_success(repo: GitRepo, edit: Run, script: Script) -> None:
    bad = "```diff\n--- a/src/app.py\n+++ b/src/app.py\n@@\n-no such line\n+x\n```\n"
    script.replies(bad, "<finish>all done</finish>", "<finish>all done</finish>")
    done = edit(code=3)
    assert (
        "the model's edit was refused, and the model did not send another" in done.err
        and "all done" in done.err
    )
    assert "Your last edit was refused and is not part of the change." in script.prompts[2]


def test_a_reply_without_action_does_not_drop_an_edit(edit: Run, script: Script) -> None:
    script.replies(f'{GREET}\n<read path="README.md"/>', "That is all.", "<finish>done</finish>")
    edit()
    assert "Your edit applies but is not committed" in script.prompts[2]


@pytest.mark.parametrize("reply", ["<bash>ls</bash>", "```bash\nls\n```"])
def test_without_commands_tools_are_named(repo: GitRepo, edit: Run, script: Script, reply: str) -> None:
    script.replies(reply, "Then I can't say.")
    edit(request="what is here?", code=1)
    assert "Nothing in your last reply was performed" in script.prompts[1]
    assert "read, files, search, outline" in script.prompts[1] and "and patches" not in script.prompts[1]
