"""The catalog of models."""

from __future__ import annotations

import re
from datetime import date

import pytest

from repoagent.errors import UsageError
from repoagent.llm.catalog import _data, aliases, data_date, model_info, parameters
from repoagent.llm.model import Usage
from repoagent.llm.usage import Price

SONNET = "anthropic/claude-sonnet-5-5"


def test_the_list_is_whole() -> None:
    assert date.fromisoformat(data_date()) >= date(2026, 11, 1)
    models = _data()["models"]
    known = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-2")
    assert models.keys() >= {f"anthropic/{name}" for name in known}
    columns = {"input", "output", "cache_read", "cache_write", "long_above", "long", "context", "max_output", "format"}  # fmt: skip
    for name, row in models.items():
        found = model_info(name)
        assert found.price is not None, name
        assert 0 <= found.price.cache_read <= found.price.input <= found.price.output, name
        assert row.keys() <= columns, name
        assert found.context is None or found.context >= 8_000, name
    assert models.keys() >= {*aliases().values()}
    for row in (*_data()["families"], *_data()["media"]):
        assert row["match"] == row["match"].lower()
        assert row.get("format", "diff") in {"diff", "search", "whole", "function"}
        assert {*row.get("takes", ())} <= {"image", "pdf"}


@pytest.mark.parametrize(("model", "usage", "cost"), [
    ("sonnet-5-5", Usage(1_000_000, 100_000, 2_000_000, 400_000), 2 + 1 + 0.2 + 1),
    ("sonnet-5-5-20260901", Usage(1_000_000), 2),
    ("haiku-5-5", Usage(100_000, 1000), 0.01 + 0.0005),
    ("haiku-5-5", Usage(1, 1000, cache_read=100_000), 0.005 + 0.0025),  # a long prompt
])  # fmt: skip
def test_a_call_is_priced(model: str, usage: Usage, cost: float) -> None:
    price = model_info(f"anthropic/claude-{model}").price
    assert price is not None
    assert price.of(usage) == pytest.approx(cost, rel=1e-3)


def test_a_cloud_sells_the_same_model() -> None:
    for spec in ("bedrock/us.anthropic.claude-sonnet-5-5-v1:0", "vertex/claude-sonnet-5-5@20260901"):
        for name in ("price", "context", "format"):
            assert getattr(model_info(spec), name) == getattr(model_info(SONNET), name)


def test_unknown_and_free_models() -> None:
    nothing = model_info("acme/never-heard-of")
    assert (nothing.price, nothing.context, nothing.sources["price"]) == (None, None, "unknown")
    assert model_info("command:llm").price is None
    for free in ("manual", "replay:x.jsonl", "local/x.gguf"):
        assert model_info(free).price == Price()


def test_the_users_configuration_has_priority() -> None:
    own = {SONNET: {"input": 1, "output": 2.5}, "ollama/x": {"context": 4096, "format": "search"}}
    # without a separate price, the cache is not cheaper
    assert model_info(SONNET, own).price == Price(1, 2.5, 1, 1)
    assert model_info(SONNET, own).sources["price"] == "configured"
    assert model_info(SONNET, own).context == model_info(SONNET).context
    mine = model_info("ollama/x", own)
    assert (mine.context, mine.format, mine.price) == (4096, "search", None)
    with pytest.raises(UsageError, match=re.escape(SONNET)):
        model_info(SONNET, {SONNET: {"input": 1}})


def test_a_size_in_a_name() -> None:
    billions = {
        "ollama/qwen2.5-coder:1.5b": 1.5,
        "local/~/models/Qwen2.5-Coder-7B-Instruct-Q4_K_M.gguf": 7,
        "together/meta-llama/Llama-3.3-70B-Instruct-Turbo": 70,
        "mistral/open-mixtral-8x7b": 56,
        "ollama/gemma3n:e4b": 4,
        **dict.fromkeys(("openai/gpt-4o", "local/70b/model.gguf", "acme/q4b0")),
    }
    assert {spec: parameters(spec) for spec in billions} == billions


FORMATS = {
    "diff": (SONNET, "ollama/x:100b", "together/deepseek-ai/whatever-405B", "acme/never-heard-of", "command:claude -p"),
    "search": ("ollama/x:8.1b", "ollama/qwen2.5-coder:32b", "groq/openai/gpt-oss-120b"),
    "function": ("ollama/qwen2.5-coder:1.5b", "ollama/x:8b", "local/some.gguf", "command:ollama run llama3.2:3b"),
}  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
def test_the_format_of_a_model(format: str) -> None:
    assert {spec: model_info(spec).format for spec in FORMATS[format]} == dict.fromkeys(
        FORMATS[format], format
    )
