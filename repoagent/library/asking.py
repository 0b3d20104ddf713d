"""Which model is asked on a program's behalf: the one that it names, brings along, or that is configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.errors import UsageError

if TYPE_CHECKING:
    from repoagent.config import Settings
    from repoagent.edit.means import Means
    from repoagent.llm import Limits, Model


def named(model: str | Model | None) -> dict[str, object]:
    """The setting that a model given by its name is; nothing for another."""
    return {"model": model} if isinstance(model, str) else {}


def ready(
    settings: Settings,
    model: str | Model | None,
    said: list[str],
    limits: Limits | None = None,
    *,
    needed: bool = True,
) -> Means:
    """The model and its meter; `said` gets what must be known of it. Raises ModelError (also where one is `needed` and
    none is configured), UsageError for a limit that can't be kept and for `manual`, which asks at a terminal."""
    from repoagent.edit.means import means
    from repoagent.llm import chosen
    from repoagent.llm.select import NoModel

    own = None if model is None or isinstance(model, str) else model
    try:
        asks = own is None and chosen(settings).spec == "manual"
    except NoModel:
        if needed:
            raise
        asks = False
    if asks:
        raise UsageError(
            "the model manual asks a person at a terminal, and a program has none: name another model, or give an "
            "object that has the methods of repoagent.llm.Model"
        )
    return means(settings, say=said.append, model=own, limits=limits, needed=needed)
