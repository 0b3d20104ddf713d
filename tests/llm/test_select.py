"""From a name to a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.errors import ModelError, UsageError
from repoagent.llm import DEFAULT_MODEL, open_model, preload
from repoagent.llm.replay import Recorder


@pytest.mark.parametrize(
    "spec", ["anthropic/claude-opus-5-5", "command:claude -p", "command:a/b:c", "manual"]
)
def test_a_model_keeps_its_name(spec: str) -> None:
    assert open_model(spec).spec == spec


def test_a_recorder_keeps_the_name_of_its_model(tmp_path: Path) -> None:
    model = open_model("manual", record=tmp_path / "x.jsonl")
    assert isinstance(model, Recorder)
    assert model.spec == "manual"


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
def test_the_default(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "k")
    assert open_model(None).spec == DEFAULT_MODEL == "anthropic/claude-sonnet-5-5"


def test_no_model_and_no_key_names_three_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    with pytest.raises(ModelError) as raised:
        open_model(None)
    for way in ("export ANTHROPIC_API_KEY=", '--model "command:claude -p"', "--model manual"):
        assert way in str(raised.value)
    preload(None)  # nothing to load, nothing to say


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("openai/gpt-5", "known are anthropic/NAME, command:CMD, manual, replay:FILE"),
        ("claude-opus-5-5", "did you mean anthropic/claude-opus-5-5"),
        ("anthropic/", "no model 'anthropic/'"),
        ("command: ", "no model 'command: '"),
        ("replay:", "no model 'replay:'"),
        ("manuel", "no model 'manuel'"),
    ],
)
def test_unknown_models(spec: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        open_model(spec)


def test_a_wrong_effort() -> None:
    with pytest.raises(UsageError, match="low, medium, high, xhigh, max"):
        open_model("anthropic/claude-opus-5-5", effort="enormous")
