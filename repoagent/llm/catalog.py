"""Properties of models: prices, windows, suitable edit formats. The data is in models.toml, which users can extend.

The last part parses the names of Claude models, which differ by platform.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, fields
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal

from repoagent.config.layers import parse_toml
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.llm.registry import parse_spec
from repoagent.llm.usage import Price

Format = Literal["diff", "search", "whole", "function"]
Protocol = Literal["tags", "tools"]
Table = Mapping[str, Mapping[str, Any]]

# Billions of parameters: whole functions up to SMALL, search/replace below MIDDLE.
SMALL, MIDDLE = 8.0, 100.0
_BYTES_PER_WEIGHT = 0.6  # of a model file at the usual quantization to 4 bits
_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d{1,2})x)?e?(\d{1,4}(?:\.\d+)?)b(?![a-z0-9])")
_MEDIA = frozenset({"image", "pdf"})
_PRICES = frozenset(item.name for item in fields(Price))


@dataclass(frozen=True)
class ModelInfo:
    """The properties of a model, None if unknown.

    context, max_output: limits in tokens.
    parameters: the number of parameters in billions.
    media: the accepted media, "image" and "pdf".
    protocol: how tools are offered.
    sources: the origin of the price and of the format.
    """

    price: Price | None = None
    context: int | None = None
    max_output: int | None = None
    parameters: float | None = None
    format: Format = "diff"
    media: frozenset[str] | None = None
    protocol: Protocol = "tags"
    sources: Mapping[str, str] = field(default_factory=dict)


def model_info(spec: str, own: Table | None = None) -> ModelInfo:
    """The properties of the model `spec`, from `own` or else from models.toml.

    `own` is the `models` table of the user's configuration. Raises UsageError for an incomplete price or unknown media
    in `own`.
    """
    provider, _, model = parse_spec(spec)
    sdk_name = f"{provider.sdk}/{family_name(model)}" if provider.sdk else spec  # the name in models.toml
    mine = _row(spec, own or {})
    ours = _row(spec, _data()["models"]) or _row(sdk_name, _data()["models"])
    both = {**{key: value for key, value in ours.items() if key not in _PRICES}, **mine}
    price: Price | None = None
    source = "unknown"
    if _PRICES & mine.keys():
        price, source = _read_price(spec, mine), "configured"
    elif _PRICES & ours.keys():
        price, source = _read_price(spec, ours), f"as of {data_date()}"
    elif provider.free:
        price, source = Price(), "free"
    # whole functions (and short files) for a small model, diffs for a large one
    size = parameters(spec)
    family = next((row for row in _data()["families"] if fnmatchcase(_base(spec), row["match"])), None)
    form: Format
    if "format" in both:
        form, form_source = both["format"], "configured"
    elif family and (size is None or size > SMALL):  # a small one regardless of its family
        form, form_source = family["format"], f"as {family['match']}"
    elif size is None:  # an unknown model is probably small if it runs from a file, and large otherwise
        form, form_source = ("function", "a model file") if provider.model_file else ("diff", "by default")
    else:
        form = "function" if size <= SMALL else "search" if size < MIDDLE else "diff"
        form_source = f"by its size, {size:g}b"
    families = (row for row in _data()["media"] if fnmatchcase(_base(spec), row["match"]))
    media = mine["media"] if "media" in mine else next((row["takes"] for row in families), None)
    if wrong := set(media or ()) - _MEDIA:
        raise UsageError(
            f"`media` under [models.{spec!r}] has an unknown value {min(wrong)!r}: use {' or '.join(sorted(_MEDIA))}"
        )
    return ModelInfo(
        price,
        both.get("context"),
        both.get("max_output"),
        size,
        form,
        None if media is None else frozenset(media),
        both.get("protocol", "tags"),
        {"price": source, "format": form_source},
    )


def _row(spec: str, table: Table) -> Mapping[str, Any]:
    undated = re.sub(r"[-@](\d{8}|\d{4}-\d{2}-\d{2})$", "", spec)
    return table.get(spec) or table.get(undated) or {}


def _read_price(name: str, row: Mapping[str, Any]) -> Price:
    values: dict[str, Any] = {key: value for key, value in row.items() if key in _PRICES}
    if "long" in values:
        values["long"] = _read_price(name, values["long"])
    if not {"input", "output"} <= values.keys():
        raise UsageError(
            f"the price of {name} is incomplete: set `input` and `output` under [models.{name!r}], in "
            "dollars per million tokens (also `cache_read` and `cache_write`, if they differ from `input`)"
        )
    return Price(**{"cache_read": values["input"], "cache_write": values["input"], **values})


@cache
def _data() -> Mapping[str, Any]:
    return parse_toml(Path(__file__).with_name("models.toml").read_bytes())


def data_date() -> str:
    """The date of the data in models.toml, as ISO 8601."""
    return str(_data()["date"])


def aliases() -> Mapping[str, str]:
    table: Mapping[str, str] = _data()["aliases"]
    return table


def model_names() -> dict[str, str]:
    """Each alias with its spec, and each known model spec with ""; for shell completion."""
    return {**dict.fromkeys(_data()["models"], ""), **aliases()}


def short_names() -> Mapping[str, str]:
    """Each short name (`sonnet`, `gpt-5`), mapped to the newest model of its family."""
    table: Mapping[str, str] = _data()["short_names"]
    return table


def named(name: str) -> str:
    """Expand an alias or a short name, ignoring the user's configuration; return any other name unchanged."""
    return {**short_names(), **aliases()}.get(name.lower(), name)


def parameters(spec: str) -> float | None:
    """The number of parameters in billions, from the name (56 for `mixtral-8x7b`) or the size of the model file; None
    if unknown."""
    if match := _SIZE.search(_base(spec)):
        return float(match[2]) * int(match[1] or 1)
    provider, _, model = parse_spec(spec)
    if provider.model_file:
        with suppress(OSError, RuntimeError, ValueError):  # the first call reports it
            return Path(model).expanduser().stat().st_size / _BYTES_PER_WEIGHT / 1e9
    return None


def _base(spec: str) -> str:
    """The name of the model in lower case, without provider, folders and extension; of a command, all of it."""
    provider, _, model = parse_spec(spec)
    if provider.argument == "command":
        return model.strip().lower()
    return spec.rpartition("/")[2].lower().removesuffix(".gguf")


# Words and numbers of one or two digits, so that dates and revisions ("-v1:0", "@20260901") are not matched.
_FAMILY = re.compile(r"claude(?:-(?!latest)(?:[a-z]+|\d{1,2})(?![a-z0-9]))+")
_VERSION = re.compile(r"claude-[a-z]+-(\d+)(?:-(\d+))?(?:-|$)|claude-(\d+)(?:-(\d+))?(?:-|$)")


def family_name(name: str) -> str:
    """Strip platform prefixes and suffixes from the name of a Claude model; return other names unchanged.

    For example, `us.anthropic.claude-sonnet-5-5-v1:0` becomes `claude-sonnet-5-5`.
    """
    match = _FAMILY.search(re.sub(r"(?<=\d)\.(?=\d)", "-", name.lower()))
    return match[0] if match else name


def _version(name: str) -> tuple[int, int] | None:
    match = _VERSION.match(family_name(name))
    return (int(match[1] or match[3]), int(match[2] or match[4] or 0)) if match else None


def context_tokens(name: str) -> int | None:
    """The context window of a Claude model in tokens; None if unknown."""
    if _version(name) is None:
        return None
    return 1_000_000 if thinks(name) else 200_000


def thinks(name: str) -> bool:
    """Whether the model supports `thinking: adaptive` and accepts no temperature: true for Claude 4.6 and later."""
    version = _version(name)
    return version is not None and version >= (4, 6)


def has_effort(name: str) -> bool:
    """Whether the model supports `output_config.effort`: Opus 4.5, Claude 4.6 and later, and unknown models do."""
    return _version(name) is None or thinks(name) or family_name(name) == "claude-opus-4-5"
