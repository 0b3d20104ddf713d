"""The manual pages: what the code says, and what groff and mandoc read without a complaint."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.cli.program.app import COMMANDS

TOP = Path(__file__).parents[2]
MAN = TOP / "man"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    sys.path.insert(0, str(TOP / "docs"))
    try:
        found: dict[str, str] = runpy.run_path(str(TOP / "docs" / "man.py"))["pages"]()
    finally:
        sys.path.remove(str(TOP / "docs"))
    return found


@pytest.fixture(scope="module")
def roff() -> dict[str, Callable[..., str]]:
    return runpy.run_path(str(TOP / "docs" / "roff.py"))


def test_the_pages_are_those_of_the_code(pages: dict[str, str]) -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in MAN.iterdir()}
    stale = sorted(name for name in pages.keys() | there.keys() if pages.get(name) != there.get(name))
    assert stale == [], "run `make reference`"


def test_git_finds_each_page_by_its_own_names(pages: dict[str, str]) -> None:
    assert pages["git-repoagent.1"] == ".so man1/repoagent.1\n"
    for name in COMMANDS:
        for other in (
            f"git-repoagent-{name}.1",
            f"gitrepoagent-{name}.1",
        ):  # `man`, and `git help`, ask for these
            assert pages[other] == f".so man1/repoagent-{name}.1\n"
        assert f"\\fBrepoagent\\-{name}\\fR(1)" in pages["repoagent.1"]


def test_what_stands_behind_a_word_of_a_command_has_its_options_there(pages: dict[str, str]) -> None:
    assert '.SS "memory show"\n\\fBrepoagent memory show\\fR [OPTIONS] FILE' in pages["repoagent-memory.1"]
    assert (
        '.SS "review dismiss"\n\\fBrepoagent review dismiss\\fR [OPTIONS] ID' in pages["repoagent-review.1"]
    )


@pytest.mark.parametrize(
    "command", [["mandoc", "-Tlint", "-Wwarning"], ["groff", "-ww", "-man", "-Kutf8", "-Tutf8", "-z"]]
)
def test_nothing_in_a_page_is_complained_of(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    whole = [str(path) for path in sorted(MAN.glob("repoagent*.1"))]
    done = subprocess.run([*command, *whole], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_no_line_that_stays_is_wider_than_a_page(pages: dict[str, str]) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    command = ["groff", "-man", "-Kutf8", "-Tascii", "-P-cbou", "-rLL=80n"]
    for name in ("repoagent.1", "repoagent-edit.1", "repoagent-split.1", "repoagent-completion.1"):
        out = subprocess.run(command, input=pages[name], capture_output=True, text=True, check=True).stdout
        assert max(map(len, out.splitlines())) <= 80


def test_man_shows_a_page_that_git_asks_for(tmp_path: Path) -> None:
    if shutil.which("man") is None:
        pytest.skip("man is not installed")
    (tmp_path / "man1").symlink_to(MAN)
    (tmp_path / "git-repoagent").write_text("#!/bin/sh\n")
    (tmp_path / "git-repoagent").chmod(0o755)
    env = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "MANPATH": str(tmp_path),
        "MANPAGER": "cat",
        "MANWIDTH": "80",
        "LC_ALL": "C.UTF-8",
    }
    for topic in ("repoagent", "git-repoagent", "repoagent-edit"):
        done = subprocess.run(["git", "help", topic], env=env, capture_output=True, text=True, check=False)
        if "minimized" in done.stdout + done.stderr:
            pytest.skip("this system has no manual pages")
        assert "SYNOPSIS\n       repoagent" in done.stdout, (topic, done)


def test_no_text_is_taken_for_a_macro(roff: dict[str, Callable[..., str]]) -> None:
    assert roff["escaped"](".PP 'it\\n' --x") == "\\&.PP \\(aqit\\en\\(aq \\-\\-x"
    assert roff["escaped"]("'.") == "\\(aq."
    assert roff["words"]("say `git -C x`") == "say \\fBgit \\-C x\\fR"
