"""A request, a scripted model, one attempt at any model, a certificate, and whether a process is gone."""

from __future__ import annotations

import os
import ssl
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repoagent.errors import ModelError
from repoagent.llm.model import Message, OnText, Part, Reply, Request


def ask(text: str = "make it faster", *, system: str = "You edit.", key: str = "") -> Request:
    return Request((Part(system),), (Message("user", (Part(text),)),), key=key)


@dataclass
class Scripted:
    """A model without a provider: gives each reply, or raises each error, in turn."""

    answers: Sequence[Reply | Exception]
    seen: list[Request] = field(default_factory=list)
    spec: str = "scripted/one"
    context_tokens: int | None = None
    takes: frozenset[str] = frozenset()

    def complete(self, request: Request, on_text: OnText) -> Reply:
        answer = self.answers[len(self.seen)]
        self.seen.append(request)
        if isinstance(answer, Exception):
            raise answer
        on_text(answer.text)
        return answer


def call(model: Any, request: Request | None = None) -> Reply:
    """The reply of one attempt, which was streamed as well."""
    pieces: list[str] = []
    reply: Reply = model.complete(request or ask(), pieces.append)
    assert "".join(pieces) == reply.text or reply.stop == "refusal"
    return reply


def refused(model: Any, kind: type[ModelError] = ModelError, request: Request | None = None) -> Any:
    """The error of one attempt: a line without the keys of the servers under test."""
    import pytest  # which the programs that import this module do without

    with pytest.raises(kind) as raised:
        call(model, request)
    assert type(raised.value) is kind, raised.value  # a wrong Retryable would be tried five times
    said = str(raised.value) + repr(raised.value)
    assert "\n" not in str(raised.value)
    assert not any(part in said for part in ("0123456789", "sk-ant-te", "sk-openai-te", "PRIVATE KEY"))
    return raised.value


def certified(name: str, folder: Path) -> tuple[ssl.SSLContext, str]:
    """The context of a server with a self-signed certificate for `name` (DNS:... or IP:...), and the file with it."""
    certificate, key = str(folder / "certificate.pem"), str(folder / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", f"/CN={name.partition(':')[2]}", "-addext", f"subjectAltName={name}", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate


def gone(process: int) -> bool:
    """Whether the process has ended; it may be a zombie."""
    try:
        os.kill(process, 0)
        status = Path(f"/proc/{process}/stat").read_text()
    except ProcessLookupError:  # also if it ends while it is read
        return True
    except FileNotFoundError:  # a system without /proc, or it has just ended
        return False
    return status.rpartition(")")[2].split()[0] == "Z"


def soon(true: Callable[[], object], seconds: float = 20) -> bool:
    """Wait until `true` is; False if it takes longer than `seconds`."""
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.02)
    return bool(true())
