"""An endpoint: where a provider's models are reached, and with which key."""

from __future__ import annotations

from repoagent.dataclass import dataclass


@dataclass(frozen=True)
class Endpoint:
    """How `NAME/model` is reached through an OpenAI-compatible server.

    base_url: up to and with `/v1`. key_variables: environment variables, the first that is set has the key;
    () where none is needed. key_command: a program that prints it (a password manager), asked when no variable
    is set. local: a server on this machine, which needs no key. traits: what it has beyond the common protocol,
    see endpoints.toml.
    """

    name: str
    base_url: str
    key_variables: tuple[str, ...] = ()
    key_command: str = ""
    local: bool = False
    traits: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Key:
    """A key and where it came from ("environment OPENAI_API_KEY", "command pass show openai"). Never shown."""

    secret: str
    origin: str

    def __repr__(self) -> str:
        return f"Key(***, {self.origin!r})"
