"""A server on this machine that says what a test wants, byte by byte, and a tool that may connect to it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import ApprovalRequest, Gate, Verdict
from repoagent.agent.web_client import Net
from repoagent.agent.web_fetch import Browser

Answer = bytes | Callable[[socket.socket], None]


def answer(body: bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer of HTTP."""
    headers = {"content_type": "text/plain", "content_length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()]
    return f"HTTP/1.1 {status}\r\n{''.join(lines)}\r\n".encode() + body


@dataclass
class Site:
    """What is served below each path, and what was asked for."""

    port: int
    pages: dict[str, Answer] = field(default_factory=dict)
    requests: list[bytes] = field(default_factory=list)

    def serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(10)
            said = b""
            try:
                while b"\r\n\r\n" not in said:
                    if not (piece := connection.recv(65536)):
                        return
                    said += piece
                self.requests.append(said)
                found = self.pages.get(said.split()[1].decode(), answer(b"none", "404 Not Found"))
                if callable(found):
                    found(connection)
                else:
                    connection.sendall(found)
            except OSError:  # it was left
                pass


class Bench:
    """The tool, called as the loop calls it. The names *.test are this machine; only it may be connected to."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.asked: list[ApprovalRequest] = []
        self.events: list[Mapping[str, object]] = []
        self.addresses = {"one.test": ["127.0.0.1"], "two.test": ["127.0.0.1"]}
        self.gate = Gate("auto", self._yes)
        net = Net(may=lambda address: address == "127.0.0.1", resolve=self._resolve, seconds=5.0)
        self.browser = Browser(self.gate, net, audit=self.events.append)

    def __call__(self, url: str, **net: object) -> Observation:
        """The page at `url`, in which `:port` is that of the site."""
        browser = replace(self.browser, net=replace(self.browser.net, **net))  # type: ignore[arg-type]
        return browser.tool().perform(Action("browse", {"url": url.replace(":port", f":{self.site.port}")}))

    def _resolve(self, host: str, port: int) -> list[str]:
        return self.addresses.get(host, [])

    def _yes(self, asked: ApprovalRequest) -> Verdict:
        self.asked.append(asked)
        return Verdict(True)


@pytest.fixture
def site() -> Iterator[Site]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = Site(server.getsockname()[1])

        def accept() -> None:
            while True:
                try:
                    connection = server.accept()[0]
                except OSError:  # the test is over
                    return
                threading.Thread(target=made.serve, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield made
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


@pytest.fixture
def bench(site: Site) -> Bench:
    return Bench(site)
