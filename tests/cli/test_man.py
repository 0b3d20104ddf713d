"""The manual pages match the code, and groff and mandoc accept them."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.cli.app import COMMANDS

TOP = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    sys.path.insert(0, str(TOP / "docs"))
    try:
        result: dict[str, str] = runpy.run_path(str(TOP / "docs" / "man.py"))["pages"]()
    finally:
        sys.path.remove(str(TOP / "docs"))
    return result


@pytest.fixture(scope="module")
def roff() -> dict[str, Callable[..., str]]:
    return runpy.run_path(str(TOP / "docs" / "roff.py"))


@pytest.fixture
def folder(pages: dict[str, str], tmp_path: Path) -> Path:
    """A folder like share/man."""
    (tmp_path / "man1").mkdir()
    for name, text in pages.items():
        (tmp_path / "man1" / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_there_is_a_page_for_each_command_with_its_subcommands_and_one_for_git(pages: dict[str, str]) -> None:
    assert set(pages) == {"git-repoagent.1", "repoagent.1", *(f"repoagent-{name}.1" for name in COMMANDS)}
    assert pages["git-repoagent.1"] == ".so man1/repoagent.1\n"
    for name in COMMANDS:
        assert f"\\fBrepoagent\\-{name}\\fR(1)" in pages["repoagent.1"]
    assert '.SS "memory show"\n\\fBrepoagent memory show\\fR [OPTIONS] FILE' in pages["repoagent-memory.1"]
    dismiss = '.SS "review dismiss"\n\\fBrepoagent review dismiss\\fR [OPTIONS] ID'
    assert dismiss in pages["repoagent-review.1"]


@pytest.mark.parametrize(
    "command", [["mandoc", "-Tlint", "-Wwarning"], ["groff", "-ww", "-man", "-Kutf8", "-Tutf8", "-z"]]
)
def test_groff_and_mandoc_accept_the_pages(command: list[str], folder: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    whole = [str(path) for path in sorted(folder.glob("man1/repoagent*.1"))]
    done = subprocess.run([*command, *whole], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_no_text_is_taken_for_a_macro(roff: dict[str, Callable[..., str]]) -> None:
    assert roff["escaped"](".PP 'it\\n' --x") == "\\&.PP \\(aqit\\en\\(aq \\-\\-x"
    assert roff["escaped"]("'.") == "\\(aq."
    assert roff["words"]("say `git -C x`") == "say \\fBgit \\-C x\\fR"
