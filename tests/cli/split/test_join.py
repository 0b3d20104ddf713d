"""`repoagent split --join` on a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.applying import program
from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo

SOURCE = "".join(f"def f{n}(value):\n    first = value\n    return first\n\n\n" for n in range(1, 5))
QUESTION = "Discard them [y,q,?]? "


@pytest.fixture
def clash(repo: GitRepo) -> Path:
    """A split with an edited segment that conflicts with a change of the source."""
    repo.commit("the file", **{"big.py": SOURCE})
    assert program(repo.top, "split", "big.py", "--target-bytes", "70").code == 0
    folder = repo.top / ".repoagent/splits/big.py"
    segment = folder / "002.py"
    segment.write_text(segment.read_text().replace("first = value", "first = ours"))
    head, mark, tail = SOURCE.partition("def f2")
    repo.commit(
        "moved on",
        **{"big.py": head + mark + tail.replace("first = value", "first = theirs", 1).replace("f4", "f9")},
    )
    return folder


@pytest.mark.soak
def test_force_shows_what_it_discards_and_asks(repo: GitRepo, clash: Path) -> None:
    before = repo.read("big.py"), repo.head()
    with Screen(
        [*PROGRAM, "split", "--join", str(clash), "--force"], repo.top, env={"NO_COLOR": "1"}
    ) as window:
        shown = window.expect(QUESTION)
        assert "will discard these changes to big.py (line 2 of 002.py against line 7 of big.py)" in " ".join(
            shown.split()
        )
        assert "first = theirs" in shown and "f9" not in shown and "ours" not in shown
        window.send("q\n")
        window.expect("cancelled: nothing was changed.")
        assert window.end() == 1
    assert (repo.read("big.py"), repo.head()) == before
    with Screen(
        [*PROGRAM, "split", "--join", str(clash), "--force"], repo.top, env={"NO_COLOR": "1"}
    ) as window:
        window.expect(QUESTION)
        window.send("y\n")
        shown = window.expect("[main ")
        message = "discarded changes to big.py in favor of 002.py; `repoagent undo` restores them"
        assert message in " ".join(shown.split())
        assert "002.py  +1 -1  replaces a source change" in shown
        assert window.end() == 0
    assert repo.read("big.py") == before[0].replace(b"theirs", b"ours") and repo.status() == ""
    assert program(repo.top, "undo").code == 0
    assert repo.read("big.py") == before[0]


def test_a_terminal_shows_the_diff_and_the_message(repo: GitRepo) -> None:
    repo.commit("the file", **{"big.py": SOURCE})
    assert program(repo.top, "split", "big.py", "--target-bytes", "70").code == 0
    segment = repo.top / ".repoagent/splits/big.py/003.py"
    segment.write_text(segment.read_text().replace("first = value", "first = 3").rstrip("\n"))
    with Screen(
        [*PROGRAM, "split", "--join", ".repoagent/splits/big.py"], repo.top, env={"NO_COLOR": "1"}, width=72
    ) as window:
        shown = window.expect("diff: .repoagent/splits/big.py/join.diff")
        assert window.end() == 0
    assert "diff --git a/big.py b/big.py" in shown and "    Change f3 in big.py\n" in shown
    assert " ".join(shown.split()).count("restored the final newlines") == 1
    assert "003.py  +1 -1\n" in shown and "Change f3 in big.py · 1 file +1 -1" in shown
