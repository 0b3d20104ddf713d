"""From what the user wrote after --model to a model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

from repoagent.errors import ModelError, UsageError
from repoagent.llm.anthropic_client import preload as preload_anthropic
from repoagent.llm.anthropic_errors import WAYS
from repoagent.llm.model import Model

DEFAULT_MODEL = "anthropic/claude-sonnet-5-5"
_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_FEDERATION_RULE_ID")
_KNOWN = "anthropic/NAME, command:CMD, manual, replay:FILE"


def open_model(
    spec: str | None,
    *,
    record: Path | None = None,
    effort: str | None = None,
    read_seconds: float = 120.0,
    command_seconds: float = 600.0,
    prompts: Path | None = None,
) -> Model:
    """The model that `spec` names; the default one for None, if there is a key for it.

    `record` names the cassette to append to, `effort` how much Claude is to think, `read_seconds` how long
    an API may be silent, `command_seconds` how long a command may take, `prompts` the folder for the prompts
    of `manual`. Nothing is sent and no heavy module imported yet. Raises ModelError for a model that is not
    known or a cassette that can't be used, UsageError for a wrong setting.
    """
    model = _open(spec or default_model(), effort, read_seconds, command_seconds, prompts)
    if record is None:
        return model
    from repoagent.llm.replay import Recorder

    return Recorder(model, record)


def default_model() -> str:
    """The spec to use when none is configured. Raises ModelError when there is no key for it."""
    if any(os.environ.get(name) for name in _KEYS):
        return DEFAULT_MODEL
    raise ModelError(f"no model is configured. {WAYS}")


def preload(spec: str | None) -> None:
    """Start, in a thread, what takes long about `spec`; never fails, does nothing for what is quick."""
    if spec is None and not any(os.environ.get(name) for name in _KEYS):
        return
    if (spec or DEFAULT_MODEL).startswith("anthropic/"):
        preload_anthropic()


def _open(
    spec: str, effort: str | None, read_seconds: float, command_seconds: float, prompts: Path | None
) -> Model:
    provider, _, name = spec.partition("/")
    kind, _, rest = spec.partition(":")
    if provider == "anthropic" and name:
        return _anthropic(name, effort, read_seconds)
    if kind == "command" and rest.strip():
        from repoagent.llm.command import CommandModel

        return CommandModel(rest, command_seconds)
    if kind == "replay" and rest:
        from repoagent.llm.replay import Replay

        return Replay(Path(rest).expanduser())
    if spec == "manual":
        from repoagent.llm.manual import ManualModel

        return ManualModel(prompts)
    if spec.startswith("claude-"):
        raise ModelError(f"a model is named provider/model: did you mean anthropic/{spec}?")
    raise ModelError(
        f"there is no model {spec!r}: known are {_KNOWN}. Any other model can be reached through a program "
        "that reads a prompt on standard input and prints the reply: command:CMD"
    )


def _anthropic(name: str, effort: str | None, read_seconds: float) -> Model:
    from repoagent.llm.anthropic_api import AnthropicModel, Effort

    efforts = get_args(Effort)
    if effort is not None and effort not in efforts:
        raise UsageError(f"there is no effort {effort!r}: use one of {', '.join(efforts)}")
    return AnthropicModel(name, next((known for known in efforts if known == effort), None), read_seconds)
