"""A local server that sends the exact bytes of a test, and a tool that may connect to it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import ApprovalRequest, Gate, Verdict
from repoagent.agent.web_fetch import Browser, Net

Answer = bytes | Callable[[socket.socket], None]


def answer(body: bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    """A complete HTTP response."""
    headers = {"content_type": "text/plain", "content_length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()]
    return f"HTTP/1.1 {status}\r\n{''.join(lines)}\r\n".encode() + body


@dataclass
class Site:
    """The responses by path, and the received requests."""

    port: int
    pages: dict[str, Answer] = field(default_factory=dict)
    requests: list[bytes] = field(default_factory=list)

    def serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(10)
            request = b""
            try:
                while b"\r\n\r\n" not in request:
                    if not (piece := connection.recv(65536)):
                        return
                    request += piece
                self.requests.append(request)
                page = self.pages.get(request.split()[1].decode(), answer(b"none", "404 Not Found"))
                if callable(page):
                    page(connection)
                else:
                    connection.sendall(page)
            except OSError:  # the client has closed it
                pass


class Bench:
    """The tool, called as the loop calls it. It may connect only to this machine, which has the names *.test."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.asked: list[ApprovalRequest] = []
        self.events: list[Mapping[str, object]] = []
        self.addresses = {"one.test": ["127.0.0.1"], "two.test": ["127.0.0.1"]}
        self.gate = Gate("auto", self._yes)
        net = Net(may=lambda address: address == "127.0.0.1", resolve=self._resolve, seconds=5.0)
        self.browser = Browser(self.gate, net, audit=self.events.append)

    def __call__(self, url: str, **net: object) -> Observation:
        """Fetch `url`, in which `:port` is replaced by the port of the site."""
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
