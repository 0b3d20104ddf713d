"""The reference and the manual pages match the code, and groff and mandoc accept the latter."""

from __future__ import annotations

import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from repoagent.cli.app import COMMANDS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        result: dict[str, str] = runpy.run_path(str(DOCS / "man.py"))["pages"]()
    return result


def test_the_reference_is_what_the_code_says() -> None:
    made = runpy.run_path(str(DOCS / "reference.py"))["page"]()
    assert (DOCS / "reference.md").read_text(encoding="utf-8") == made, "run `make reference`"


def test_there_is_a_page_for_each_command_with_its_subcommands_and_one_for_git(pages: dict[str, str]) -> None:
    assert set(pages) == {"git-repoagent.1", "repoagent.1", *(f"repoagent-{name}.1" for name in COMMANDS)}
    assert pages["git-repoagent.1"] == ".so man1/repoagent.1\n"
    for name in COMMANDS:
        assert f"\\fBrepoagent\\-{name}\\fR(1)" in pages["repoagent.1"]
    assert '.SS "memory show"\n\\fBrepoagent memory show\\fR [OPTIONS] FILE' in pages["repoagent-memory.1"]
    dismiss = '.SS "review dismiss"\n\\fBrepoagent review dismiss\\fR [OPTIONS] ID'
    assert dismiss in pages["repoagent-review.1"]


@pytest.mark.parametrize("command", ["mandoc -Tlint -Wwarning", "groff -ww -man -Kutf8 -Tutf8 -z"])
def test_groff_and_mandoc_accept_the_pages(command: str, pages: dict[str, str], tmp_path: Path) -> None:
    words = command.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    (tmp_path / "man1").mkdir()  # as in share/man: git-repoagent.1 names man1/repoagent.1
    for name, text in pages.items():
        (tmp_path / "man1" / name).write_text(text, encoding="utf-8")
    words += sorted(map(str, tmp_path.glob("man1/repoagent*.1")))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_no_text_is_taken_for_a_macro() -> None:
    roff = runpy.run_path(str(DOCS / "roff.py"))
    assert roff["escaped"](".PP 'it\\n' --x") == "\\&.PP \\(aqit\\en\\(aq \\-\\-x"
    assert roff["escaped"]("'.") == "\\(aq."
    assert roff["words"]("say `git -C x`") == "say \\fBgit \\-C x\\fR"
