"""Who is asked, and within which limits: all that can be said of it before a person has written a request."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from repoagent.config import Settings
from repoagent.errors import UsageError
from repoagent.llm import Limits, Meter, Model, open_model, price


class Means(NamedTuple):
    """Who is asked, and what has been used of what may be."""

    model: Model
    meter: Meter


def means(settings: Settings, record: Path | None = None) -> Means:
    """The model that the settings name, the built-in default only when there is a key for it; and its meter.

    Nothing is sent yet. Raises ModelError when there is no such model, UsageError for a limit that can't be kept.
    """
    if record is not None:
        _refuse_unwritable(record)
    spec = None if settings.origin("model") == "default" else settings.text("model")
    seconds = settings.number("timeout")
    model = open_model(spec, record=record, read_seconds=seconds, command_seconds=seconds)
    return Means(model, Meter(limits(settings), price(model.spec, settings.family("price"))))


def _refuse_unwritable(file: Path) -> None:
    """Raise UsageError where nothing can be recorded: that should be known before a reply is paid for."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and not file.is_file():
            raise UsageError(f"{file} is no file to --record to: name another")
        with file.open("ab"):
            pass
    except OSError as error:
        raise UsageError(
            f"{file} can't be written ({error.strerror}): name another file to --record to"
        ) from error


def limits(settings: Settings) -> Limits:
    return Limits(
        settings.whole("max_turns"), settings.whole_or_none("max_tokens"), settings.number_or_none("max_cost")
    )
