"""Setting a value: the rest of the file stays as its owner wrote it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from repoagent.config.layers import set_value
from repoagent.errors import UsageError


def test_comments_order_and_other_values_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("# mine\nmax_turns = 3  # few\n\n[commit]\ntrailers = true\n# the end\n")
    set_value(path, "max_turns", "4")
    set_value(path, "commit.trailers", "off")
    set_value(path, "model", "openai/x")
    assert path.read_text() == (
        '# mine\nmax_turns = 4  # few\nmodel = "openai/x"\n\n[commit]\ntrailers = false\n# the end\n'
    )


@pytest.mark.parametrize(
    ("before", "key", "text", "after"),
    [
        ("", "models.openai/gpt-4.1.input", "2.5", '[models."openai/gpt-4.1"]\ninput = 2.5\n'),
        ("", "context", "a.md\nb.md", 'context = ["a.md", "b.md"]\n'),
        ("", "max_cost", "none", 'max_cost = "none"\n'),
        ("", "maxTokens", "1k", "max_tokens = 1024\n"),
        ("maxTurns = 3\n", "max_turns", "4", "maxTurns = 4\n"),
        ("commit.trailers = true\n", "commit.trailers", "off", "commit.trailers = false\n"),
        (
            "commit.trailers = true\n",
            "commit.trailer",
            "By",
            'commit.trailers = true\ncommit.trailer = "By"\n',
        ),
        ("commit = { trailers = true }\n", "commit.trailers", "off", "commit = { trailers = false }\n"),
    ],
)
def test_how_it_is_written(tmp_path: Path, before: str, key: str, text: str, after: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(before)
    set_value(path, key, text)
    assert path.read_text() == after


@pytest.mark.parametrize(
    ("before", "key", "text", "says"),
    [
        ("", "modle", "x", "did you mean model"),
        ("", "max_turns", "many", "invalid value 'many' for max_turns"),
        ("commit = 3", "commit.trailers", "off", "commit must be a table"),
        ("a = ", "max_turns", "3", "not valid TOML"),
        ("\udcff", "max_turns", "3", "not valid TOML"),
    ],
)
def test_a_refusal_leaves_the_file_as_it_was(
    tmp_path: Path, before: str, key: str, text: str, says: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(os.fsencode(before))
    with pytest.raises(UsageError, match=says):
        set_value(path, key, text)
    assert path.read_bytes() == os.fsencode(before)


@pytest.mark.parametrize(
    ("key", "text"), [("check", "make test"), ("model", "command:x"), ("edit.scope", "repo")]
)
def test_a_forbidden_key_is_not_written_to_the_repository_s_file(tmp_path: Path, key: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"git config repoagent.{key}"):
        set_value(tmp_path / "config.toml", key, text, repository=True)
    assert list(tmp_path.iterdir()) == []


def test_the_user_s_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"
    set_value(path, "max_turns", "3")
    assert path.stat().st_mode & 0o777 == 0o600
