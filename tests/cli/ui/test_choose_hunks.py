"""Choosing hunk by hunk, on a real terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.screens import Screen, python

CODE = r"""
import sys
from repoagent.cli.ui.terminal_interface import choose_hunks
from repoagent.cli.ui.terminal import Terminal
from repoagent.errors import RepoagentError
from repoagent.git.files import Content, FileChange

def text(**changed):
    return "".join(changed.get(f"l{n}", str(n)) + "\n" for n in range(1, 31)).encode()

changes = [
    FileChange.at("one", Content(text()), Content(text(l3="three", l15="fifteen", l17="seventeen"), "100755")),
    FileChange.at("two\x1b", None, Content(b"new\n")),
]
try:
    for change in choose_hunks(Terminal.open(), changes):
        lines = [a.decode() for a, b in zip(change.after.split(), text().split()) if a != b]
        print("TOOK", change.path == "one" and "one" or "two", change.mode, *lines)
except RepoagentError as error:
    print("ERROR", type(error).__name__)
"""

# input: the chosen hunks
ANSWERS = {
    "y y y y": ["TOOK one 100755 three fifteen seventeen", "TOOK two 100644 new"],
    "q": [],
    "a n": ["TOOK one 100755 three fifteen seventeen"],
    "d y": ["TOOK two 100644 new"],
    "n n s n y n": ["TOOK one 100644 seventeen"],
    "n y s y n n": ["TOOK one 100644 three fifteen"],
    "n ? x y n n": ["TOOK one 100644 three"],
}


@pytest.mark.soak
@pytest.mark.parametrize("typed", ANSWERS)
def test_answers_choose_hunks(tmp_path: Path, typed: str) -> None:
    with Screen(python(CODE), tmp_path, env={"NO_COLOR": "1"}) as screen:
        for letter in typed.split():
            screen.answer("?]? ", f"{letter}\n")
        screen.end()
    assert [line for line in screen.seen.splitlines() if line.startswith(("TOOK", "ERROR"))] == ANSWERS[typed]


def test_what_is_shown(tmp_path: Path) -> None:
    with Screen(python(CODE), tmp_path, env={"NO_COLOR": "1"}) as screen:
        seen = screen.answer("(1/4) Apply this mode change [y,n,q,a,d,?]? ", "y\n")
        assert "old mode 100644\nnew mode 100755\n" in seen
        seen = screen.answer("(2/4) Apply this hunk [y,n,q,a,d,?]? ", "y\n")
        assert "@@ -1,6 +1,6 @@\n 1\n 2\n-3\n+three\n 4\n" in seen and "diff --git" not in seen
        screen.answer("(3/4) Apply this hunk [y,n,q,a,d,s,?]? ", "s\n")
        seen = screen.answer("(3/5) Apply this hunk", "d\n")
        assert "split into 2 hunks\n@@ -12,5 +12,5 @@" in seen
        seen = screen.answer("(5/5) Apply the change to this file [y,n,q,a,d,?]? ", "\x04")
        assert "diff --git" in seen and "+new\n" in seen and "\x1b" not in screen.seen
        assert "TOOK" not in screen.expect("ERROR NothingDone")  # at the end of input nothing is applied
