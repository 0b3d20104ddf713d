"""From a name to a model."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import repoagent
from repoagent.config.layers import load_settings
from repoagent.config.options import DEFAULT_MODEL, find_or_refuse
from repoagent.config.settings import Settings
from repoagent.errors import ModelError, UsageError
from repoagent.llm import catalog
from repoagent.llm.complete import Fallback
from repoagent.llm.open_model import choose_model, open_model, preload_model, resolve_spec
from repoagent.llm.registry import PROVIDERS, SERVERS, Backend, parse_spec, provider_of

GGUF = "local/~/models/qwen.gguf"
HAIKU = "anthropic/claude-haiku-5-5"


def settings(**flags: object) -> Settings:
    outside = Path("/")  # of any repository
    by_key = {name.replace("__", "."): value for name, value in flags.items()}
    return load_settings(None, outside, flags=by_key)


@pytest.mark.parametrize("spec", [
    "anthropic/claude-opus-5-5", "bedrock/us.anthropic.claude-opus-5-5-v1:0", "vertex/claude-opus-5-5@20261001",
    "openai/gpt-x", "openrouter/qwen/qwen3-coder:free", "ollama/qwen2.5-coder:1.5b", "command:claude -p",
    "command:a/b:c", "manual", GGUF,
])  # fmt: skip
def test_a_model_keeps_its_name(spec: str) -> None:
    assert open_model(settings(model=spec)).spec == open_model(settings(), spec=spec).spec == spec


def test_the_default_needs_a_key_or_an_error_names_the_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "k")
        assert open_model(settings()).spec == DEFAULT_MODEL == "anthropic/claude-sonnet-5-5"
        monkeypatch.setenv(name, "")
    with pytest.raises(ModelError) as raised:
        open_model(settings())
    ways = (
        "export ANTHROPIC_API_KEY=",
        "repoagent help docs/models.md",
        '"command:claude -p"',
        "--model manual",
    )
    assert all(way in str(raised.value) for way in ways)
    preload_model(None)  # nothing to load, no warning


@pytest.mark.parametrize(("spec", "words"), [
    ("sonet", "did you mean sonnet?"),
    ("manuel", "did you mean manual"),
    ("fats", "did you mean fast"),
    ("ollama", "no model or alias 'ollama': use .*ollama/NAME"),
    ("opneai/gpt-x", "did you mean openai/gpt-x"),
    ("antropic", r"did you mean anthropic/NAME\?"),
    ("antropic/", r"did you mean anthropic/NAME\?"),
    ("anthropicc/claude-x", r"did you mean anthropic/claude-x\?"),
    ("comand", r"did you mean command:CMD\?"),
    ("sonet/x", r"no model or alias 'sonet/x': use anthropic/NAME"),
    ("anthropic/", "no model or alias 'anthropic/'"),
    ("openai/", r"no model or alias 'openai/': .*openai/NAME, ollama/NAME"),
    ("command: ", r"no model or alias 'command: ': .*command:CMD"),
    ("http://x", r"providers\.NAME\.base_url"),
    ("replay:", "no model or alias 'replay:'"),
    ("nope", "no model or alias 'nope': use anthropic/NAME, "),
    ("acme/some", r"providers\.NAME\.base_url"),
    ("local", r"no model or alias 'local': use .*local/PATH\.gguf"),
])  # fmt: skip
def test_unknown_models(spec: str, words: str) -> None:
    with pytest.raises(ModelError, match=words) as raised:
        open_model(settings(model=spec))
    assert "\n" not in str(raised.value)


def test_aliases() -> None:
    names = {"quick": "fast", "fast": "openai/gpt-x", "local": GGUF, "sonnet": "manual", "mine": "opus"}
    own = settings(model="quick", **{f"alias__{name}": spec for name, spec in names.items()})
    assert open_model(own).spec == "openai/gpt-x"
    assert (choose_model(own).origin, choose_model(own).why) == ("flag --model", "alias quick")
    assert open_model(own, spec="local").spec == GGUF
    assert (resolve_spec(own, "sonnet"), resolve_spec(own, "mine")) == ("manual", "anthropic/claude-opus-5-5")
    assert choose_model(settings(model="sonnet")).why == "newest sonnet"
    assert open_model(settings(model="best")).spec.startswith("anthropic/")  # one of those that are there
    with pytest.raises(UsageError, match="alias one refers to itself"):
        open_model(settings(model="one", alias__one="two", alias__two="one"))


def test_another_model_for_summaries() -> None:
    both = settings(model="openai/gpt-x", summary__model="fast")
    assert choose_model(both, "summary").spec == HAIKU
    without = settings(model="openai/gpt-x")
    assert choose_model(both).spec == choose_model(without, "summary").spec == "openai/gpt-x"


def test_fallbacks() -> None:
    chain = settings(model="openai/gpt-x", fallback=["fast", "openai/gpt-x", "manual"])
    model = open_model(chain)
    assert isinstance(model, Fallback)
    assert [one.spec for one in model.models] == ["openai/gpt-x", HAIKU, "manual"]
    for exact in ("manual", "replay:/dev/null"):  # the user and recordings have no fallback
        assert not isinstance(open_model(chain, spec=exact), Fallback)


def test_unsupported_wishes_are_reported(tmp_path: Path) -> None:
    said: list[str] = []
    open_model(settings(), spec="command:llm", say=said.append)
    assert said == []
    wishing = settings(effort="high", temperature=0.25, cache="off")
    open_model(wishing, spec="command:llm", reply=tmp_path / "reply", say=said.append)
    wishes = ("effort = high", "temperature = 0.25", "cache = off")
    assert said == [
        "ignoring --reply: it works only with --model manual, not with command:llm",
        *(f"ignoring {wish}: command:llm does not support it" for wish in wishes),
    ]


def test_a_short_name_is_the_newest_model_of_its_family() -> None:
    listed = catalog.short_names()
    assert {"sonnet", "opus", "haiku", "gpt-5", "gemini", "grok"} <= set(listed)
    assert set(listed.values()) <= set(catalog.model_names())
    assert listed["sonnet"] == DEFAULT_MODEL
    specs = {
        **listed, "GPT-5": "openai/gpt-5.6-sol", "gemini-flash": "google/gemini-3.8-flash", "gpt": "gpt", "": "",
        "anthropic/claude-sonnet-5": "anthropic/claude-sonnet-5",
    }  # fmt: skip
    assert {name: resolve_spec(settings(), name) for name in specs} == specs


# The table of providers: each entry works, and no other module names one.

SOURCE = Path(repoagent.__file__).parent
EXAMPLES = dict.fromkeys(("anthropic", "bedrock", "vertex"), "opus") | {
    "local": "a/b.gguf",
    "command": "llm -m x",
}


@pytest.mark.parametrize("name", PROVIDERS)
def test_an_entry_is_found_by_its_spec_and_has_a_backend(name: str) -> None:
    provider = PROVIDERS[name]
    model = EXAMPLES.get(name, "x") if provider.separator else ""
    spec = f"{name}{provider.separator}{model}"
    parsed = parse_spec(spec)
    assert parsed == (provider, name, model)
    backend = parsed.backend
    assert isinstance(backend, Backend) and backend.name == name
    assert type(backend).open_model is not Backend.open_model
    assert type(backend).check is not Backend.check
    option = find_or_refuse("model")[1]  # a repository names no program and no file
    assert option.only_like is not None
    allowed = option.only_like.fullmatch(spec) is not None
    assert allowed is (provider.argument not in {"file", "command"})


def test_other_specs_belong_to_the_servers() -> None:
    for spec in ("openai/gpt-x", "mine/some", "manual/x", "anthropic", "local", "none", "", "a:b/c"):
        assert provider_of(spec) is SERVERS, spec
    known_now = settings(providers__acme__base_url="https://llm.acme.example/v1")
    assert open_model(known_now, spec="acme/some").spec == "acme/some"


def test_no_other_module_names_a_provider() -> None:
    names = {f"{name}{entry.separator}" for name, entry in PROVIDERS.items()}
    names |= {*PROVIDERS} - {"local", "command"}  # which mean much else
    own = {SOURCE / "llm/registry.py", SOURCE / "llm/cassettes.py", *(SOURCE / "llm/providers").iterdir()}
    naming = {
        str(path.relative_to(SOURCE))
        for path in {*SOURCE.rglob("*.py")} - own
        if any(name.encode() in path.read_bytes() for name in names)  # parsing all takes seconds
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert naming == set()
