"""The table of providers: each entry works, and no other module names one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import repoagent
from repoagent.config.options import find_or_refuse
from repoagent.llm.registry import PROVIDERS, SERVERS, Backend, parse_spec, provider_of

SOURCE = Path(repoagent.__file__).parent
EXAMPLES = {
    "anthropic": "opus",
    "bedrock": "opus",
    "vertex": "opus",
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


@pytest.mark.parametrize(
    "spec", ["openai/gpt-x", "mine/some", "manual/x", "anthropic", "local", "none", "", "a:b/c"]
)
def test_other_specs_belong_to_the_servers(spec: str) -> None:
    assert provider_of(spec) is SERVERS


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_repository_names_no_program_and_no_file(name: str) -> None:
    _, option = find_or_refuse("model")
    assert option.only_like is not None
    allowed = option.only_like.fullmatch(spec_of(name)) is not None
    assert allowed is (PROVIDERS[name].argument not in {"file", "command"})


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
