"""The configuration and the models: what is set, whether there is a key, where it would be sent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from repoagent.doctor.check import Check, error, halves, ok, warning
from repoagent.doctor.program import is_installed

if TYPE_CHECKING:
    from repoagent.config import Settings
    from repoagent.llm.providers.anthropic.client import Platform
    from repoagent.store import Layout

_LOCAL = {"localhost", "127.0.0.1", "::1", "[::1]"}


def check_configuration(layout: Layout | None) -> Iterator[Check]:
    """Whether every layer can be read, and what is ignored in them."""
    from repoagent.config import load, user_file

    settings = load(layout)
    for sentence in settings.warnings:
        yield warning("configuration", *halves(sentence))
    mine = user_file(os.environ)
    where = str(mine) if mine.is_file() else f"defaults (no {mine})"
    if mine.is_file() and mine.stat().st_mode & 0o022:
        yield warning("configuration", f"{mine} can be written by others", f"chmod go-w {mine}")
    if not settings.warnings:
        yield ok("configuration", where)


def check_models(layout: Layout | None) -> Iterator[Check]:
    """The models of each role and the fall-backs: is there a key, is the library installed. Nobody is asked."""
    from repoagent.config import load
    from repoagent.errors import ModelError
    from repoagent.llm.naming import shown
    from repoagent.llm.select import chosen, resolve

    settings = load(layout)
    specs: dict[str, str] = {}
    try:
        first = chosen(settings)
        specs[first.spec] = "model"
    except ModelError as problem:
        yield warning(
            "model", str(problem).partition(". ")[0], "`repoagent edit` needs one: see `repoagent models`"
        )
    for role, key in (("summary", "summary.model"), ("review", "review.model")):
        if _is_option(key) and (name := settings.text_or_none(key)):
            specs.setdefault(resolve(settings, name), f"{role} model")
    for name in settings.texts("fallback"):
        specs.setdefault(resolve(settings, name), "fallback")
    for spec, role in specs.items():
        problem_or_key = _of(settings, spec)
        if isinstance(problem_or_key, str):
            yield ok(role, f"{shown(spec)}{', ' if problem_or_key else ''}{problem_or_key}")
        else:
            yield error(role, f"{shown(spec)}: {problem_or_key[0]}", problem_or_key[1])


def check_addresses(layout: Layout | None) -> Iterator[Check]:
    """Where keys and prompts are sent to when it is not the provider's own address."""
    from repoagent.config import load
    from repoagent.llm.providers.endpoints import shown

    addresses = {}
    if base := os.environ.get("ANTHROPIC_BASE_URL"):
        addresses["ANTHROPIC_BASE_URL"] = base
    for name, row in load(layout).family("providers").items():
        if row.get("base_url"):
            addresses[f"providers.{name}.base_url"] = str(row["base_url"])
    for name, address in addresses.items():
        try:
            parts = urlsplit(address)
            host = parts.hostname or ""
        except ValueError:
            yield error("address", f"{name} is no address", "say it as https://host/path")
            continue
        if parts.scheme not in ("http", "https") or not host:
            yield error("address", f"{name} is no address", "say it as https://host/path")
        elif parts.scheme == "http" and host not in _LOCAL:
            yield warning(
                "address", f"{name} is {shown(address)}", "keys and files go there unencrypted: use https"
            )
        else:
            yield ok("address", f"{name} is {shown(address)}")


def check_online(layout: Layout | None) -> Iterator[Check]:
    """Whether the configured models can be reached; nothing is paid for."""
    from repoagent.config import load
    from repoagent.llm.survey import configured

    asked: dict[str, str] = {}
    for row in configured(load(layout)):
        if row.spec and row.standing.tried and row.name in ("edit", "summary", "fallback"):
            asked.setdefault(row.spec, row.standing.problem)
    for spec, problem in asked.items():
        from repoagent.llm.naming import shown

        if problem:
            yield error("online", f"{shown(spec)}: {problem}", "see `repoagent models`")
        else:
            yield ok("online", f"{shown(spec)} can be reached")
    if not asked:
        yield ok("online", "no configured model is reached over the network")


def _of(settings: Settings, spec: str) -> str | tuple[str, str]:
    """Where the key of a model is, by name; or what is wrong and what to do. A command that prints a key is not run:
    it may ask for a finger or a PIN."""
    from repoagent.errors import RepoagentError
    from repoagent.extras import install_extra
    from repoagent.llm.select import is_claude
    from repoagent.llm.survey import standing

    provider, _, name = spec.partition("/")
    if is_claude(provider):
        return _of_claude(provider)
    if provider == "local" and not is_installed("xllamacpp"):
        return "its library is not installed", install_extra("local")
    if provider == "local" or ":" in spec.partition("/")[0] or spec == "manual":
        problem = standing(settings, spec).problem
        return (problem, "name another one, or put that right") if problem else ""
    from repoagent.llm.providers.endpoints import endpoint, needs_key

    try:
        found = endpoint(provider, settings.family("providers"))
    except RepoagentError as problem_there:
        return halves(str(problem_there))
    if found is None or not name:
        return "there is no such provider", "see `repoagent models` for those there are"
    if not is_installed("openai"):
        return "its library is not installed", install_extra("openai")
    if variable := next((one for one in found.key_variables if os.environ.get(one)), ""):
        return f"key in the environment variable {variable}"
    if found.key_command:
        return "key by a command (not run)"
    if needs_key(found):
        variables = " or ".join(found.key_variables) or f"providers.{provider}.api_key_env"
        return "no key", f"set {variables}"
    return "needs no key"


def _of_claude(provider: Platform) -> str | tuple[str, str]:
    from repoagent.llm.providers.anthropic.clouds import missing
    from repoagent.llm.providers.anthropic.reach import key_origin

    if provider != "anthropic" and (sentence := missing(provider)):
        return halves(sentence)
    if origin := key_origin(provider):
        return f"key in the environment variable {origin.removeprefix('environment ')}"
    if provider == "anthropic" and not (Path.home() / ".config" / "anthropic").is_dir():
        return "no key", "set ANTHROPIC_API_KEY"
    return "credentials of its own tools, not looked at"


def _is_option(key: str) -> bool:
    from repoagent.config import find

    return find(key) is not None
