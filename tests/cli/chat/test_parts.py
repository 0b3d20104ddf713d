"""Functions of a chat: commands, continued lines, paths, the input history, the status line."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.cli.chat import input, slash_commands
from repoagent.cli.chat.chat_session import words_of
from repoagent.cli.chat.input import Paths, below, goes_on
from repoagent.errors import UsageError
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo

NAMES = st.text(alphabet="ab0-./é", min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/help", ("help", "")),
        ("/LOAD a name ", ("load", "a name")),
        ("/diff HEAD~1", ("diff", "HEAD~1")),
        ("/etc/passwd is missing", None),
        ("/ is the root", None),
        (" /help", None),
        ("help", None),
        ("/1", None),
    ],
)
def test_which_lines_are_commands(text: str, expected: tuple[str, str] | None) -> None:
    assert slash_commands.read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("a\\", True), ("a\\\\", False), ("a\\\\\\", True), ("a", False), ("", False)]
)
def test_a_backslash_at_the_end_continues_the_line(text: str, expected: bool) -> None:
    assert goes_on(text) is expected


@given(st.sets(NAMES, max_size=30), st.text(alphabet="ab0-./é", max_size=4))
def test_paths_are_offered_folder_by_folder(names: set[str], word: str) -> None:
    expected = set()
    for name in names:
        if name.startswith(word):
            slash_at = name.find("/", len(word))
            expected.add(name if slash_at < 0 else name[: slash_at + 1])
    result = list(below(sorted(names), word))
    assert set(result) == expected and len(result) == len(expected)


def test_tracked_files_by_path_or_by_name(repo: GitRepo) -> None:
    repo.write("src/deep/app_more.py", "x\n")
    repo.write("odd\nname.py", "x\n")
    paths = Paths(open_worktree(repo.top))
    assert paths.candidates("src/") == ["src/app.py", "src/deep/"]
    assert paths.candidates("app") == ["src/app.py", "src/deep/app_more.py"]
    assert paths.candidates("READ") == ["README.md"]
    assert not any("odd" in path for path in paths.candidates(""))


def test_the_input_history_is_private(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = input.history_file(open_worktree(repo.top))
    assert input.entries(file, print) == []
    input.add(file, "two\nlines")
    input.add(file, "key sk-ant-REDACTED")
    input.add(file, "x" * 20_000)
    one, two = input.entries(file, print)
    assert one == "two\nlines" and "abcdefghij" not in two
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text(
        "".join('{"text":"a' + str(n) + '"}\n' for n in range(3 * input.MOST_ENTRIES)) + "broken\n"
    )
    assert input.entries(file, lambda said: None)[-1] == f"a{3 * input.MOST_ENTRIES - 1}"
    assert len(file.read_text().splitlines()) == input.MOST_ENTRIES


def test_every_command_is_explained_and_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    for name, one in slash_commands.TABLE.items():
        assert name.isalpha() and one.line.endswith(".") and one.line[0].isupper()
    assert "/undo" in slash_commands.unknown("un")
    with pytest.raises(UsageError, match="unknown command /bogus"):
        slash_commands.perform(None, "bogus", "")  # type: ignore[arg-type]


def test_the_words_of_a_reply_are_without_its_actions() -> None:
    assert words_of('Let me look.\n<read path="a"/>') == "Let me look."
    assert words_of("<finish>It is done.</finish>") == "It is done."
    assert words_of("```diff\n-a\n+b\n```\n") == "(only actions, no text)"
