"""Names of models where others may read them."""

from __future__ import annotations

import pytest

from repoagent.llm.model import display_name, public

SECRET = "sk-abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("anthropic/claude-sonnet-5-5", "anthropic/claude-sonnet-5-5"),
        ("openrouter/qwen/qwen3-coder:free", "openrouter/qwen/qwen3-coder:free"),
        ("local/~/clients/acme/qwen.gguf", "local/qwen.gguf"),
        (f"command:KEY={SECRET} /opt/bin/llm -m x", "command:llm"),
        ("command:claude -p (claude-sonnet-5-5)", "command:claude (claude-sonnet-5-5)"),
        ("replay:/home/ada/x.jsonl", "replay:x.jsonl"),
        ("manual", "manual"),
    ],
)
def test_a_commit_names_no_arguments_and_no_folders(spec: str, name: str) -> None:
    assert public(spec) == name


@pytest.mark.parametrize(
    "spec", [f"command:KEY={SECRET} llm", f"command:llm --key {SECRET}", f"command:llm -x {SECRET}"]
)
def test_no_key_is_shown(spec: str) -> None:
    assert SECRET not in display_name(spec)
    assert "llm" in display_name(spec)
    assert display_name("manual") == "manual"
