"""A command's model with its limits, and the requests sent to it, which are stored in `.repoagent/sent/` for a few
days."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.prompt.formats import FORMS, OUTPUT_TOKENS, AnswerFormat
from repoagent.errors import UsageError
from repoagent.llm.catalog import SMALL
from repoagent.llm.complete import holds_secret, mask_request
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Model, Reply, ReplyBlocks, Request, display_name, public_spec, render_request
from repoagent.llm.open_model import AbsentModel, NoModel, attachment_refusal, model_info, open_model
from repoagent.llm.registry import provider_of
from repoagent.llm.usage import Limits, Meter, Price, SpendLog, estimate_tokens, refuse_unpriced, state_folder
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.storage.json_files import timestamp
from repoagent.storage.layout import Layout

if TYPE_CHECKING:
    from repoagent.edit.ui import UserInterface
    from repoagent.llm.media import Attachments, Media

DAY_SECONDS = 86_400
PLAIN = 65_536  # bytes; larger requests are compressed
SENT_VERSION = 1
HOUR_CACHE = 2.0  # price of a write to Anthropic's one-hour cache, relative to input tokens


@dataclass(frozen=True)
class ModelSetup:
    """The model to ask, its settings, and the meter of its use."""

    settings: Settings
    model: Model
    meter: Meter

    @property
    def context_tokens(self) -> int | None:
        """The context window of the current model in tokens; None if unknown. The current model may be a fallback."""
        return model_info(self.settings, self.model.spec).context or self.model.context_tokens

    @property
    def form(self) -> AnswerFormat:
        form = answer_format(self.settings, self.model.spec, self.max_output_tokens, self.context_tokens)
        return replace(form, native=self.native)

    @property
    def native(self) -> bool:
        return wants_tools(self.settings, self.model.spec) and "tools" in self.model.takes

    @property
    def max_output_tokens(self) -> int:
        """The maximum number of tokens in a reply: the configured number, or else the model's limit, but at most
        OUTPUT_TOKENS and half of the context window."""
        if (configured := self.settings.whole_or_none("max_output_tokens")) is not None:
            return configured
        window = self.context_tokens
        half = window // 2 if window else OUTPUT_TOKENS
        return min(
            OUTPUT_TOKENS, model_info(self.settings, self.model.spec).max_output or OUTPUT_TOKENS, half
        )


def lazy_attachments(setup: ModelSetup, folder: Path) -> Callable[[], Attachments]:
    """Return a function that returns the `Attachments` of a conversation, with copies in `folder`. They are created on
    its first call."""

    @cache
    def create() -> Attachments:
        from repoagent.llm.media import Attachments

        def refusal(media: Sequence[Media]) -> str:
            return attachment_refusal(setup.settings, setup.model.spec, media)

        return Attachments(folder, refusal)

    return create


def wants_tools(settings: Settings, spec: str) -> bool:
    """Whether to offer native tools to the model `spec`, according to the settings or, by default, its catalog
    entry."""
    protocol = settings.text("protocol")
    return (model_info(settings, spec).protocol if protocol == "auto" else protocol) == "tools"


def answer_format(
    settings: Settings, spec: str, output_tokens: int = OUTPUT_TOKENS, window: int | None = None
) -> AnswerFormat:
    """The answer format for the model `spec`: as configured, otherwise by its family. `window` overrides the context
    window (in tokens) from the catalog."""
    info, configured = model_info(settings, spec), settings.text("edit.format")
    form = next((form for form in FORMS if form == configured), info.format)
    is_small = info.parameters is not None and info.parameters <= SMALL
    return AnswerFormat(form, is_small or None, output_tokens, window or info.context)


def model_setup(
    settings: Settings,
    record: Path | None = None,
    reply: Path | None = None,
    say: Callable[[str], None] = lambda sentence: None,
    *,
    model: Model | None = None,
    limits: Limits | None = None,
    needed: bool = True,
) -> ModelSetup:
    """Set up `model`, or by default the model from the settings, and its meter. Sends nothing.

    `limits` default to those of one edit. `reply` is the file with the reply of the `manual` model. `say` is called
    with a sentence for each setting that the model does not support. Raises ModelError for an unknown model, or if a
    model is `needed` but none is configured; UsageError for a limit that cannot be enforced.
    """
    if record is not None:  # fail before a reply is paid for
        try:
            record.parent.mkdir(parents=True, exist_ok=True)
            if record.exists() and not record.is_file():
                raise UsageError(f"{record} is not a regular file: name another file for --record")
            with record.open("ab"):
                pass
        except OSError as error:
            reason = f"cannot write {record} ({error.strerror}): name another file for --record"
            raise UsageError(reason) from error
    if model is None:
        try:
            model = open_model(settings, record=record, reply=reply, say=say)
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


def keep_sent(dirs: Layout, request: Request) -> str:
    """Store the text of a request in `sent/` and return its name there, a hash of the text.

    Long requests are gzipped: in a long run, each repeats the previous one.
    """
    text = render_request(mask_request(request)).encode("utf-8", "surrogateescape")
    name = sha256(text).hexdigest()[:24]
    path = dirs.sent / (f"{name}.txt" if len(text) <= PLAIN else f"{name}.txt.gz")
    if not path.exists():
        write_whole(path, text if len(text) <= PLAIN else gzip.compress(text, mtime=0))
    return name


def announce_model(ui: UserInterface, spec: str) -> None:
    ui.note(f"asking {display_name(spec)}")
    if provider_of(spec).answered_by == "user":  # the user writes the reply in the terminal
        ui.quiet()


def keep_call(layout: Layout, request: Request, reply: Reply) -> dict[str, str]:
    """Store a request and the blocks of its reply. Returns the metadata of the turn with the reply."""
    usage = reply.usage
    return {
        "time": timestamp(),
        "sent": keep_sent(layout, request),
        "tokens": f"{usage.total - usage.output}+{usage.output}",
        **keep_blocks(layout, reply),
    }


def keep_blocks(dirs: Layout, reply: Reply) -> dict[str, str]:
    """Store the thinking and the tool calls of a reply, to be sent back with its turn. Nothing is stored if they
    contain a secret.

    Returns metadata for the turn: `blocks`, the file name, and `thought`, the estimated tokens of the thinking.
    """
    blocks = reply.blocks
    if blocks is None or holds_secret(blocks.items):
        return {}
    record = {
        "version": SENT_VERSION, "text": _hash(reply.text), "spec": blocks.spec, "prefix": blocks.prefix,
        "calls": blocks.calls, "items": blocks.items,
    }  # fmt: skip
    data = json.dumps(record).encode()
    name = sha256(data).hexdigest()[:24]
    write_whole(dirs.sent / f"{name}.json", data)
    thought = estimate_tokens(blocks.unseen)
    return {"blocks": name, **({"thought": str(thought)} if thought else {})}


def blocks_of(dirs: Layout, turn: Turn) -> ReplyBlocks | None:
    """The blocks that `keep_blocks` stored for a turn; None if the file is gone or the turn was edited."""
    name = turn.meta.get("blocks", "")
    if not name.isalnum():
        return None
    try:
        record = json.loads(read_regular(dirs.sent / f"{name}.json") or b"null")
    except ValueError:  # truncated by a crash, or edited: the text of the turn is enough
        return None
    is_current = isinstance(record, dict) and record.get("version") == SENT_VERSION
    if not is_current or record["text"] != _hash(turn.text):
        return None
    calls = tuple((call, tag) for call, tag in record["calls"])
    return ReplyBlocks(record["spec"], tuple(record["items"]), record["prefix"], calls)


def forget_sent(dirs: Layout, days: int) -> None:
    """Remove the files in `sent/` that are older than `days` days. Does nothing if it already ran within the last
    day."""
    present = time.time()
    looked = dirs.sent / "looked-through"
    checked = looked.exists() and 0 <= present - looked.stat().st_mtime < DAY_SECONDS
    if checked or not dirs.sent.is_dir():
        return
    write_whole(looked, b"")
    for path in dirs.sent.glob("*.*"):  # requests, blocks of replies, images and PDFs
        try:
            if path.stat().st_mtime < present - days * DAY_SECONDS:
                path.unlink()
        except FileNotFoundError:  # another process removed it
            continue


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def model_of_record(spec: str, turns: Sequence[Turn]) -> str:
    """The name of the model to record: for a replay, the recorded model; for a command, the model that it reports."""
    if provider_of(spec).reports_model:
        spec = next((turn.meta.get("model", spec) for turn in turns[::-1] if turn.role == "assistant"), spec)
    return public_spec(spec)
