"""The model of a command with its limits, as far as the settings determine them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.prompt.formats import FORMS, OUTPUT_TOKENS, AnswerFormat
from repoagent.errors import UsageError
from repoagent.llm.catalog import SMALL, ModelInfo
from repoagent.llm.model import Model
from repoagent.llm.open_model import AbsentModel, NoModel, model_info, open_model
from repoagent.llm.usage import Limits, Meter, Price, SpendLog, refuse_unpriced, state_folder

if TYPE_CHECKING:
    from repoagent.llm.media import Attachments, Media

HOUR_CACHE = 2.0  # price of a write to Anthropic's one-hour cache, relative to input tokens


@dataclass(frozen=True)
class ModelSetup:
    """The model to ask, its settings, and the meter of its use."""

    settings: Settings
    model: Model
    meter: Meter

    @property
    def known(self) -> ModelInfo:
        """The catalog entry of the current model, which may be a fallback."""
        return model_info(self.settings, self.model.spec)

    @property
    def context_tokens(self) -> int | None:
        """The size of its context window in tokens, None if unknown."""
        return self.known.context or self.model.context_tokens

    @property
    def form(self) -> AnswerFormat:
        """The answer format to request."""
        form = answer_format(self.settings, self.model.spec, self.max_output_tokens, self.context_tokens)
        return replace(form, native=self.native)

    @property
    def native(self) -> bool:
        """Whether native tools are offered."""
        return wants_tools(self.settings, self.model.spec) and "tools" in self.model.takes

    @property
    def max_output_tokens(self) -> int:
        """The maximum number of tokens of a reply: as configured, else the limit of the model, at most half of its
        window."""
        if (configured := self.settings.whole_or_none("max_output_tokens")) is not None:
            return configured
        window = self.context_tokens
        return min(
            OUTPUT_TOKENS, self.known.max_output or OUTPUT_TOKENS, window // 2 if window else OUTPUT_TOKENS
        )


def attachments(setup: ModelSetup, folder: Path) -> Callable[[], Attachments]:
    """A function that returns the images and PDFs of a conversation, with copies in `folder`, for the current model;
    they are created on the first call."""

    @cache
    def create() -> Attachments:
        from repoagent.llm.media import Attachments
        from repoagent.llm.open_model import attachment_refusal

        def refusal(media: Sequence[Media]) -> str:
            return attachment_refusal(setup.settings, setup.model.spec, media, setup.context_tokens)

        return Attachments(folder, refusal)

    return create


def wants_tools(settings: Settings, spec: str) -> bool:
    """Whether to offer native tools to the model `spec`, by the setting or its catalog entry."""
    protocol = settings.text("protocol")
    return (model_info(settings, spec).protocol if protocol == "auto" else protocol) == "tools"


def answer_format(
    settings: Settings, spec: str, output_tokens: int = OUTPUT_TOKENS, window: int | None = None
) -> AnswerFormat:
    """The answer format for the model `spec`: as configured, else by its family. `window` (tokens) overrides the
    context window in the catalog."""
    info, configured = model_info(settings, spec), settings.text("edit.format")
    form = next((form for form in FORMS if form == configured), info.format)
    small = info.parameters is not None and info.parameters <= SMALL
    return AnswerFormat(form, True if small else None, output_tokens, window or info.context)


def model_setup(
    settings: Settings,
    record: Path | None = None,
    reply: Path | None = None,
    say: Callable[[str], None] = lambda sentence: None,
    on_progress: Callable[[str, float], None] = lambda doing, part: None,
    *,
    model: Model | None = None,
    limits: Limits | None = None,
    needed: bool = True,
) -> ModelSetup:
    """The model of the settings (the built-in default only if there is a key for it) or `model`, with its meter.

    `limits` default to those of one edit. `reply` is the file with the reply for `manual`. `say` is called with a
    sentence for each setting that the model does not support, `on_progress` with the current step of a local model and
    the fraction done, 0 to 1. Sends nothing. Raises ModelError for an unknown model, or if a model is `needed` and none
    is configured; UsageError for a limit that cannot be enforced.
    """
    if record is not None:  # fail before a reply is paid for
        try:
            record.parent.mkdir(parents=True, exist_ok=True)
            if record.exists() and not record.is_file():
                raise UsageError(f"{record} is not a regular file: name another file for --record")
            with record.open("ab"):
                pass
        except OSError as error:
            raise UsageError(
                f"cannot write {record} ({error.strerror}): name another file for --record"
            ) from error
    if model is None:
        try:
            model = open_model(settings, record=record, reply=reply, say=say, on_progress=on_progress)
        except NoModel as error:
            if needed:
                raise
            model = AbsentModel(str(error))

    def price_of(spec: str) -> Price | None:
        if isinstance(model, AbsentModel):
            return Price()
        price = model_info(settings, spec).price
        if price is not None and settings.text("cache") == "1h":  # then all writes go to the one-hour cache
            return replace(price, cache_write=HOUR_CACHE * price.input)
        return price

    limits = limits or Limits(
        settings.whole("max_turns"),
        settings.whole_or_none("max_tokens"),
        settings.number_or_none("max_cost"),
        settings.number_or_none("max_cost_per_day"),
    )
    refuse_unpriced(limits, [model.spec], price_of)
    log = SpendLog(state_folder(), must=limits.day is not None, warn=say)
    return ModelSetup(settings, model, Meter(limits, price_of, log))
