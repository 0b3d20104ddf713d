"""Functions of a chat: commands, continued lines, paths, the input history, the status line."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from repoagent.cli.chat import input, slash_commands
from repoagent.cli.chat.chat_session import words_of
from repoagent.cli.chat.input import Paths, goes_on
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo


def test_which_lines_are_commands_and_which_go_on() -> None:
    for text, expected in (
        ("/help", ("help", "")),
        ("/MODEL a name ", ("model", "a name")),
        ("/diff HEAD~1", ("diff", "HEAD~1")),
        *((text, None) for text in ("/etc/passwd is missing", "/ is the root", " /help", "help", "/1")),
    ):
        assert slash_commands.read(text) == expected
    for text, more in (("a\\", True), ("a\\\\", False), ("a\\\\\\", True), ("a", False), ("", False)):
        assert goes_on(text) is more


def test_tracked_files_by_path_or_by_name(repo: GitRepo) -> None:
    repo.write("src/deep/app_more.py", "x\n")
    repo.write("odd\nname.py", "x\n")
    paths = Paths(open_worktree(repo.top))
    assert paths.candidates("src/") == ["src/app.py", "src/deep/app_more.py"]
    assert paths.candidates("app") == ["src/app.py", "src/deep/app_more.py"]
    assert paths.candidates("READ") == ["README.md"]
    assert not any("odd" in path for path in paths.candidates(""))


def test_the_input_history_is_private(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = input.history_file(open_worktree(repo.top))
    history = input.FileHistory(file, print)
    assert history.load_history_strings() == []
    history.store_string("two\nlines")
    history.store_string("key sk-ant-REDACTED")
    history.store_string("x" * 20_000)
    second, first = history.load_history_strings()
    assert first == "two\nlines" and "abcdefghij" not in second
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    file.mkdir()
    warnings: list[str] = []
    input.FileHistory(file, warnings.append).store_string("x")
    assert "cannot save the input history" in warnings[0]


def test_the_words_of_a_reply_are_without_its_actions() -> None:
    assert words_of('Let me look.\n<read path="a"/>') == "Let me look."
    assert words_of("<finish>It is done.</finish>") == "It is done."
    assert words_of("```diff\n-a\n+b\n```\n") == "(only actions, no text)"
