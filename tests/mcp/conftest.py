"""The tools as the server uses them, without the protocol."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jsonschema
import pytest

from repoagent.mcp.schema import Call, Service, Told
from repoagent.mcp.server import offers, performed
from tests.conftest import GitRepo


@dataclass
class Tools:
    """`cancelled` holds for every call; `said` is the progress of all."""

    service: Service
    cancelled: threading.Event
    said: list[str]

    def told(self, name: str, /, **arguments: Any) -> Told:
        """The answer, whose data is as the tool's own schema has it."""

        def progress(message: str, done: float | None = None, total: float | None = None) -> None:
            self.said.append(message)

        offer = offers(self.service)[name]
        told = performed(offer, Call(self.service, arguments, self.cancelled, progress))
        jsonschema.validate(told.data, offer.gives)
        return told

    def data(self, name: str, /, **arguments: Any) -> Any:
        return self.told(name, **arguments).data


Use = Callable[..., Tools]


@pytest.fixture
def use(repo: GitRepo) -> Use:
    """Tools of a server that was started in the repository with these options."""

    def make(**options: Any) -> Tools:
        return Tools(Service(repo.top, **options), threading.Event(), [])

    return make
