"""From a name to a model."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import repoagent
from repoagent.config.layers import load
from repoagent.config.options import DEFAULT_MODEL, find_or_refuse
from repoagent.config.settings import Settings
from repoagent.errors import ModelError, UsageError
from repoagent.llm import catalog
from repoagent.llm.complete import Fallback
from repoagent.llm.open_model import choose_model, open_model, preload, resolve
from repoagent.llm.registry import PROVIDERS, SERVERS, Backend, parse_spec, provider_of

GGUF = "local/~/models/qwen.gguf"


def settings(tmp_path: Path, **flags: object) -> Settings:
    return load(None, tmp_path, flags={name.replace("__", "."): value for name, value in flags.items()})


def test_a_model_keeps_its_name(tmp_path: Path) -> None:
    for spec in (
        "anthropic/claude-opus-5-5",
        "bedrock/us.anthropic.claude-opus-5-5-v1:0",
        "vertex/claude-opus-5-5@20261001",
        "openai/gpt-x",
        "openrouter/qwen/qwen3-coder:free",
        "ollama/qwen2.5-coder:1.5b",
        "command:claude -p",
        "command:a/b:c",
        "manual",
        GGUF,
    ):
        assert open_model(settings(tmp_path, model=spec)).spec == spec
        assert open_model(settings(tmp_path), spec=spec).spec == spec


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
def test_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "k")
    assert open_model(settings(tmp_path)).spec == DEFAULT_MODEL == "anthropic/claude-sonnet-5-5"


def test_no_model_and_no_key_names_the_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    with pytest.raises(ModelError) as raised:
        open_model(settings(tmp_path))
    ways = (
        "export ANTHROPIC_API_KEY=",
        "repoagent help docs/models.md",
        '"command:claude -p"',
        "--model manual",
    )
    for way in ways:
        assert way in str(raised.value)
    preload(None)  # nothing to load, no warning


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("sonet", "did you mean sonnet?"),
        ("manuel", "did you mean manual"),
        ("fats", "did you mean fast"),
        ("ollama", "did you mean ollama/NAME"),
        ("opneai/gpt-x", "did you mean openai/gpt-x"),
        ("anthropic/", "no model 'anthropic/'"),
        ("openai/", r"no model 'openai/': .*openai/NAME, ollama/NAME\Z"),
        ("command: ", r"no model 'command: ': .*ollama/NAME\Z"),
        ("http://x", r"providers\.NAME\.base_url"),
        ("replay:", "no model 'replay:'"),
        ("nope", "no model or alias 'nope': use anthropic/NAME, "),
        ("acme/some", r"providers\.acme\.base_url"),
        ("local", r"no model or alias 'local': use .*local/PATH\.gguf"),
    ],
)
def test_unknown_models(tmp_path: Path, spec: str, words: str) -> None:
    with pytest.raises(ModelError, match=words) as raised:
        open_model(settings(tmp_path, model=spec))
    assert "\n" not in str(raised.value)


def test_any_server_is_a_provider_by_its_address(tmp_path: Path) -> None:
    known_now = settings(tmp_path, providers__acme__base_url="https://llm.acme.example/v1")
    assert open_model(known_now, spec="acme/some").spec == "acme/some"


def test_aliases(tmp_path: Path) -> None:
    names = {"alias__quick": "fast", "alias__fast": "openai/gpt-x", "alias__local": GGUF}
    mine = settings(tmp_path, model="quick", **names)
    assert open_model(mine).spec == "openai/gpt-x"
    assert (choose_model(mine).origin, choose_model(mine).why) == ("flag --model", "alias quick")
    assert open_model(mine, spec="local").spec == GGUF
    assert choose_model(settings(tmp_path, model="sonnet")).why == "newest sonnet"
    best = open_model(settings(tmp_path, model="best")).spec
    assert best.startswith("anthropic/")  # one of those that are there


def test_aliases_in_a_circle(tmp_path: Path) -> None:
    round_about = settings(tmp_path, model="one", alias__one="two", alias__two="one")
    with pytest.raises(UsageError, match="alias one refers to itself"):
        open_model(round_about)


def test_another_model_for_summaries(tmp_path: Path) -> None:
    both = settings(tmp_path, model="openai/gpt-x", summary__model="fast")
    assert open_model(both, role="summary").spec == "anthropic/claude-haiku-5-5"
    assert open_model(both).spec == "openai/gpt-x"
    assert open_model(settings(tmp_path, model="openai/gpt-x"), role="summary").spec == "openai/gpt-x"


def test_fallbacks(tmp_path: Path) -> None:
    chain = settings(tmp_path, model="openai/gpt-x", fallback=["fast", "openai/gpt-x", "manual"])
    model = open_model(chain)
    assert isinstance(model, Fallback)
    assert [one.spec for one in model.models] == ["openai/gpt-x", "anthropic/claude-haiku-5-5", "manual"]
    for exact in ("manual", "replay:/dev/null"):  # the user and recordings have no fallback
        assert not isinstance(open_model(chain, spec=exact), Fallback)


def test_unsupported_wishes_are_reported(tmp_path: Path) -> None:
    said: list[str] = []
    wishing = settings(tmp_path, effort="high", temperature=0.25, cache="off")
    open_model(wishing, spec="command:llm", reply=tmp_path / "reply", say=said.append)
    assert said == [
        "ignoring --reply: command:llm is not manual",
        "ignoring effort = high: command:llm does not support it",
        "ignoring temperature = 0.25: command:llm does not support it",
        "ignoring cache = off: command:llm does not support it",
    ]
    said.clear()
    open_model(settings(tmp_path), spec="command:llm", say=said.append)
    assert said == []


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("sonnet", "anthropic/claude-sonnet-5-5"),
        ("GPT-5", "openai/gpt-5.6-sol"),
        ("gemini-flash", "google/gemini-3.8-flash"),
        ("anthropic/claude-sonnet-5", "anthropic/claude-sonnet-5"),
        ("gpt", "gpt"),
        ("", ""),
    ],
)
def test_a_short_name_is_the_newest_model_of_its_family(tmp_path: Path, name: str, spec: str) -> None:
    assert resolve(settings(tmp_path), name) == spec


def test_your_own_alias_comes_before_a_family(tmp_path: Path) -> None:
    own = load(None, tmp_path, env={"REPOAGENT_ALIAS__SONNET": "manual", "REPOAGENT_ALIAS__MINE": "opus"})
    assert (resolve(own, "sonnet"), resolve(own, "mine")) == ("manual", "anthropic/claude-opus-5-5")


def test_short_names_are_listed_and_each_means_what_is_listed(tmp_path: Path) -> None:
    listed = catalog.short_names()
    assert {"sonnet", "opus", "haiku", "gpt-5", "gemini", "grok"} <= set(listed)
    assert {name: resolve(settings(tmp_path), name) for name in listed} == listed
    assert set(listed.values()) <= set(catalog.names())
    assert listed["sonnet"] == DEFAULT_MODEL


# The table of providers: each entry works, and no other module names one.

SOURCE = Path(repoagent.__file__).parent
EXAMPLES = {
    **dict.fromkeys(("anthropic", "bedrock", "vertex"), "opus"),
    "local": "a/b.gguf",
    "command": "llm -m x",
}
WORDS = {"local", "command"}  # which mean much else


def spec_of(name: str) -> str:
    provider = PROVIDERS[name]
    return f"{name}{provider.separator}{EXAMPLES.get(name, 'x') if provider.separator else ''}"


@pytest.mark.parametrize("name", PROVIDERS)
def test_an_entry_is_found_by_its_spec_and_has_a_backend(name: str) -> None:
    provider, found, model = parsed = parse_spec(spec_of(name))
    assert (provider, found) == (PROVIDERS[name], name)
    assert spec_of(name) == f"{name}{provider.separator}{model}"
    backend = parsed.backend
    assert isinstance(backend, Backend) and backend.name == name
    assert type(backend).open_model is not Backend.open_model
    assert type(backend).check is not Backend.check
    option = find_or_refuse("model")[1]  # a repository names no program and no file
    assert option.only_like is not None
    allowed = option.only_like.fullmatch(spec_of(name)) is not None
    assert allowed is (provider.argument not in {"file", "command"})


@pytest.mark.parametrize(
    "spec", ["openai/gpt-x", "mine/some", "manual/x", "anthropic", "local", "none", "", "a:b/c"]
)
def test_other_specs_belong_to_the_servers(spec: str) -> None:
    assert provider_of(spec) is SERVERS


def test_no_other_module_names_a_provider() -> None:
    names = {*PROVIDERS} - WORDS | {
        f"{name}{entry.separator}" for name, entry in PROVIDERS.items() if entry.separator
    }
    own = {
        SOURCE / "llm" / "registry.py",
        SOURCE / "llm" / "cassettes.py",
        *(SOURCE / "llm" / "providers").iterdir(),
    }
    naming = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if path not in own
        if any(name.encode() in path.read_bytes() for name in names)  # parsing all takes seconds
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert naming == set()
