"""Questions before an action, and the messages without a user."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.agent.approvals.policy import ApprovalRequest
from repoagent.cli.commands.run_ui import folded, refuse_all
from repoagent.display_text import display_width
from tests.cli.screens import Screen, python

CODE = """
import sys
from repoagent.agent.approvals.policy import ApprovalRequest
from repoagent.cli.commands.run_ui import ask_user
from repoagent.cli.ui.terminal import Terminal
from repoagent.errors import RepoagentError
try:
    print(ask_user(Terminal.open())({asked}))
except RepoagentError as error:
    print(type(error).__name__, error)
"""


def screen(asked: str, cwd: Path) -> Screen:
    return Screen(python(CODE.format(asked=asked)), cwd, width=60)


def test_a_command_is_shown_completely_and_sanitized(tmp_path: Path) -> None:
    command = "echo " + "x" * 150 + " \\x1b[2J\\u202e; rm -rf /the/end"
    with screen(f'ApprovalRequest("command", "{command}", why="it is odd")', tmp_path) as shown:
        shown.answer("Run this command [y,n,q,?]? ", "n\n")
        assert "\x1b[2J" not in shown.seen and "^[[2J<U+202E>" in shown.seen and "/the/end" in shown.seen
        assert shown.seen.count("x") >= 150
        assert "without a sandbox" in shown.seen and "note: it is odd" in shown.seen
        shown.answer("Tell the model why", "use make\n")
        shown.expect("allowed=False, always=False, reason='the user said no: use make'")


def test_always_shows_the_allowed_patterns(tmp_path: Path) -> None:
    asked = 'ApprovalRequest("command", "make; pytest -q", ("make", "pytest *"), sandbox="landlock")'
    with screen(asked, tmp_path) as shown:
        shown.answer("[y,a,r,n,q,?]? ", "?\n")
        assert "    make\n    pytest *\n" in shown.seen and "in a sandbox (landlock)" in shown.seen
        shown.answer("do not ask again in this repository: make;", "a\n")
        shown.expect("allowed=True, always=True")
        shown.expect("keep=False")


@pytest.mark.parametrize(
    ("approval", "message"),
    [
        (ApprovalRequest("command", "make 'a b'", ("make 'a b'",)), "run.allow 'make '\"'\"'a b'\"'\"''`"),
        (
            ApprovalRequest("command", "eval $x", why="it is opaque"),
            "(it is opaque). The user can allow it with `--mode auto`",
        ),
        (ApprovalRequest("edit", "a.txt"), "`--mode auto-edit`"),
        (ApprovalRequest("browse", "https://x"), "a terminal"),
    ],
)
def test_without_a_user_the_refusal_names_an_option(approval: ApprovalRequest, message: str) -> None:
    verdict = refuse_all(approval)
    assert not verdict.allowed and message in verdict.reason and verdict.by == "nobody"


@given(st.text(st.sampled_from("ab  €\t漢\x1b\u202e-"), max_size=200), st.integers(20, 60))
def test_folding_drops_nothing(text: str, width: int) -> None:
    lines = folded(text, width)
    assert all(display_width(line) <= width for line in lines)
    whole = "".join(line[:-2] if line.endswith((" ↩", " \\")) else line for line in lines)
    assert whole == folded(text, 10_000)[0]
