"""`repoagent apply` with the patch on a pipe and questions on the terminal."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.cli.applying import GREET, TWO
from tests.cli.screens import Screen
from tests.conftest import GitRepo

QUESTION = "Apply this change [y,n,e,p,q,?]? "
PROGRAM = f"{sys.executable} -m repoagent"


def test_a_piped_patch_is_asked_about_on_the_terminal(repo: GitRepo, tmp_path: Path) -> None:
    (tmp_path / "fix.patch").write_text(GREET.replace("-    return", "-  return"))
    with Screen(
        ["/bin/sh", "-c", f"cat ../fix.patch | {PROGRAM} apply -m 'Greet well'"], repo.top, width=60
    ) as window:
        shown = window.expect(QUESTION)
        assert "diff --git a/src/app.py b/src/app.py" in shown
        assert "    Greet well\n" in shown and "Repoagent-Edit" not in shown
        assert "placed with tolerance: src/app.py:1 (lines matched ignoring\nwhite space" in shown
        window.send("n\n")
        assert "cancelled: nothing was changed" in window.expect("nothing was changed")
        assert window.end() == 1
    assert repo.status() == ""


def test_hunk_by_hunk_in_one_colour(repo: GitRepo, tmp_path: Path) -> None:
    (tmp_path / "fix.patch").write_text(GREET + TWO)
    command = ["/bin/sh", "-c", f"cat ../fix.patch | {PROGRAM} apply -p"]
    with Screen(command, repo.top, env={"NO_COLOR": "1", "TERM": "xterm"}, width=100) as window:
        window.expect("(1/2) Apply this hunk [")
        window.send("n\n")
        window.expect("(2/2) Apply this hunk [")
        window.send("y\n")
        window.expect("[main ")
        assert window.end() == 0
        assert "\x1b[3" not in window.seen
    assert repo.git("diff", "--name-only", "HEAD^").split() == ["a.txt"]
    assert repo.git("log", "-1", "--format=%s").strip() == "Apply a patch: change a.txt"
