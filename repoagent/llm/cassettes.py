"""Cassettes: recorded requests and replies, for tests, demos and exact re-runs.

A cassette is a file of JSON lines, one per reply. A request is matched by its `key` alone, so a prompt can be reworded
without recording again; the text that was sent is kept only for reference.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, field
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm.model import Model, OnText, Reply, Request, display_name, render_request
from repoagent.llm.registry import Backend, ModelOptions, ModelStatus
from repoagent.storage import json_files

if TYPE_CHECKING:
    from repoagent.config.settings import Settings

VERSION = 1


@dataclass(frozen=True)
class Recorder:
    """Calls `model` and appends every reply to the cassette `path`."""

    model: Model
    path: Path

    @property
    def spec(self) -> str:
        return self.model.spec

    @property
    def takes(self) -> frozenset[str]:
        return self.model.takes

    @property
    def context_tokens(self) -> int | None:
        return self.model.context_tokens

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """See `llm.model.Model`. Failed attempts are not recorded."""
        reply = self.model.complete(request, on_text)
        sent = render_request(request)
        record = {
            "version": VERSION,
            "key": request.key,
            "model": display_name(reply.model or self.spec),
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "stop": reply.stop,
            "usage": asdict(reply.usage),
            "reply": reply.text,
            "sha256": sha256(sent.encode()).hexdigest(),
            "request": sent,
        }
        json_files.append_record(self.path, record)
        return reply


@dataclass
class Replay:
    """Returns the replies in the cassette `path`: those for a key in recorded order, each reply once."""

    path: Path
    takes: ClassVar[frozenset[str]] = frozenset({"effort", "temperature", "cache"})
    context_tokens: ClassVar[int | None] = None
    _left: dict[str, list[Reply]] = field(init=False)

    def __post_init__(self) -> None:
        """Raises ModelError if the cassette is missing, broken or of a newer format."""
        self._left = defaultdict(list)
        try:
            lines = self.path.read_bytes().split(b"\n")
        except OSError as error:
            raise ModelError(f"cannot read the cassette {self.path}: {error.strerror}") from error
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
                if value["version"] > VERSION:
                    raise ModelError(
                        f"{self.path} has format version {value['version']}, newer than the supported {VERSION}: "
                        "update repoagent"
                    )
                reply = json_files.decode(Reply, {**value, "text": value["reply"]})
                self._left[str(value["key"])].append(reply)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise ModelError(
                    f"line {number} of {self.path} is not a recorded reply: record the cassette again"
                ) from error

    @property
    def spec(self) -> str:
        return f"replay:{self.path}"

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """See `llm.model.Model`. Raises ModelError for a request that was not recorded."""
        if not self._left[request.key]:
            raise ModelError(
                f"{self.path} has no reply left for this request: record one with --record, or use the files that "
                "the cassette was recorded with"
            )
        reply = self._left[request.key].pop(0)
        for line in reply.text.splitlines(keepends=True):
            on_text(line)
        return reply


class ReplayBackend(Backend):
    def open_model(self, model: str, options: ModelOptions) -> Model:
        return Replay(Path(model).expanduser())

    def check(self, settings: Settings, model: str, *, online: bool = True) -> ModelStatus:
        return ModelStatus(problem="" if Path(model).expanduser().is_file() else "no such file")
