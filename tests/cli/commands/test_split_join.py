"""`repoagent split --join` on a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.apply_patch import Ask
from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo

SOURCE = "".join(f"def f{n}(value):\n    first = value\n    return first\n\n\n" for n in range(1, 5))
QUESTION = "Discard them [y,q,?]? "


@pytest.fixture
def folder(repo: GitRepo, in_process: Ask) -> Path:
    """The split of `big.py`."""
    repo.commit("the file", **{"big.py": SOURCE})
    assert in_process("split", "big.py", "--target-bytes", "70").code == 0
    return repo.top / ".repoagent/splits/big.py"


def edit(folder: Path, name: str, value: str) -> None:
    segment = folder / name
    segment.write_text(segment.read_text().replace("first = value", f"first = {value}"))


def join(repo: GitRepo, *options: str, width: int = 80) -> Screen:
    command = [*PROGRAM, "split", "--join", ".repoagent/splits/big.py", *options]
    return Screen(command, repo.top, env={"NO_COLOR": "1"}, width=width)


@pytest.mark.soak
def test_force_shows_what_it_discards_and_asks(repo: GitRepo, folder: Path, in_process: Ask) -> None:
    edit(folder, "002.py", "ours")
    head, mark, tail = SOURCE.partition("def f2")
    theirs = head + mark + tail.replace("first = value", "first = theirs", 1).replace("f4", "f9")
    repo.commit("moved on", **{"big.py": theirs})
    before = repo.read("big.py"), repo.head()
    with join(repo, "--force") as window:
        shown = window.expect(QUESTION)
        message = "will discard these changes to big.py (line 2 of 002.py against line 7 of big.py)"
        assert message in " ".join(shown.split())
        assert "first = theirs" in shown and "f9" not in shown and "ours" not in shown
        window.send("q\n")
        window.expect("cancelled: nothing was changed.")
        assert window.end() == 1
    assert (repo.read("big.py"), repo.head()) == before
    with join(repo, "--force") as window:
        window.answer(QUESTION, "y\n")
        shown = window.expect("[main ")
        message = "discarded changes to big.py in favor of 002.py; `repoagent undo` restores them"
        assert message in " ".join(shown.split())
        assert "002.py  +1 -1  replaces a source change" in shown
        assert window.end() == 0
    assert repo.read("big.py") == before[0].replace(b"theirs", b"ours") and repo.status() == ""
    assert in_process("undo").code == 0
    assert repo.read("big.py") == before[0]


def test_a_terminal_shows_the_diff_and_the_message(repo: GitRepo, folder: Path) -> None:
    edit(folder, "003.py", "3")
    (folder / "003.py").write_text((folder / "003.py").read_text().rstrip("\n"))
    with join(repo, width=72) as window:
        shown = window.expect("diff: .repoagent/splits/big.py/join.diff")
        assert window.end() == 0
    assert "diff --git a/big.py b/big.py" in shown and "    Change big.py\n" in shown
    assert " ".join(shown.split()).count("restored the final newlines") == 1
    assert "003.py  +1 -1\n" in shown and "Change big.py · 1 file +1 -1" in shown
