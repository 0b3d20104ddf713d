"""Which model reviews, and within which limits."""

from __future__ import annotations

from dataclasses import replace

from repoagent.config import Settings
from repoagent.edit.means import Means, means
from repoagent.review.model.desk import Desk


def opened(desk: Desk) -> Means:
    """The model of `review.model`, or else that of edits, with its meter. Raises as `means`."""
    settings = asked_for(desk.settings)
    ready = means(settings, desk.record, desk.reply, desk.warn)
    if settings.origin("max_turns") == "default":  # a limit for an edit; a review has max_calls
        ready.meter.limits = replace(ready.meter.limits, turns=None)
    return ready


def asked_for(settings: Settings) -> Settings:
    """The settings with the model of reviews, unless one was named on the command line; it is waited for no longer than
    a review may take."""
    entries = dict(settings.entries)
    named = settings.origin("model").startswith("flag ")
    if not named and (model := settings.text_or_none("review.model")) is not None:
        entries["model"] = settings.setting("model")._replace(
            value=model, origin=settings.origin("review.model")
        )
    seconds = min(settings.number("timeout"), settings.number("review.max_seconds"))
    entries["timeout"] = settings.setting("timeout")._replace(value=seconds)
    return replace(settings, entries=entries)
