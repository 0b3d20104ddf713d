"""Pages: refused URLs, hostile servers, and the text of a page."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import socket
import socketserver
import ssl
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import ApprovalRequest, Gate, Verdict
from repoagent.agent.approvals.rules import Rule
from repoagent.agent.browse_tool import Browser
from repoagent.agent.web_fetch import Network, is_public, read_url
from tests.llm.helpers import certified

Answer = bytes | Callable[[socket.socket], None]


def answer(body: bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    """A complete HTTP response."""
    headers = {"content_type": "text/plain", "content_length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()]
    return f"HTTP/1.1 {status}\r\n{''.join(lines)}\r\n".encode() + body


class Site(socketserver.ThreadingTCPServer):
    """The responses by path, and the received requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self.port = self.server_address[1]
        self.pages: dict[str, Answer] = {}
        self.requests: list[bytes] = []

    def finish_request(self, connection: socket.socket, address: object) -> None:
        connection.settimeout(10)
        with suppress(OSError):  # the client has closed it
            self.respond(connection)

    def respond(self, connection: socket.socket) -> None:
        request = b""
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


class Bench:
    """The tool, called as the loop calls it. It may connect only to this machine, which has the names *.test."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.asked: list[ApprovalRequest] = []
        self.events: list[Mapping[str, object]] = []
        self.addresses = {"one.test": ["127.0.0.1"], "two.test": ["127.0.0.1"]}
        self.gate = Gate("auto", lambda asked: self.asked.append(asked) or Verdict(True))
        local = Network("127.0.0.1".__eq__, lambda host, port: self.addresses.get(host, []), seconds=5.0)
        self.browser = Browser(self.gate, local, audit=self.events.append)

    def __call__(self, url: str = "http://one.test:port/", **net: object) -> Observation:
        """Fetch `url`, in which `:port` is replaced by the port of the site."""
        browser = replace(self.browser, net=replace(self.browser.net, **net))
        return browser.tool().perform(Action("browse", {"url": url.replace(":port", f":{self.site.port}")}))


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Site() as site:
        threading.Thread(target=site.serve_forever, args=(0.01,), daemon=True).start()
        yield Bench(site)
        site.shutdown()


PRIVATE = """
127.0.0.1 127.8.8.8 0.0.0.0 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 100.100.100.200 192.0.0.192 224.0.0.1
239.255.255.250 255.255.255.255 240.0.0.1 198.18.0.1 192.0.2.1 ::1 :: fe80::1 fe80::1%eth0 fc00::1 fd00:ec2::254 fec0::1 ff02::1
::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 64:ff9b::10.0.0.1 64:ff9b::169.254.169.254 2002:7f00:1::
2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:db8::1 localhost 0x7f.1 2130706433
"""
PUBLIC = "1.1.1.1 93.184.216.34 2606:4700::1111 ::ffff:1.1.1.1 64:ff9b::101:101"


def test_public_addresses() -> None:
    assert {address for address in PRIVATE.split() if is_public(address)} == set()
    assert {address for address in PUBLIC.split() if not is_public(address)} == set()


INVALID = {
    "invalid URL": ["", "https://one.test\\@two.test/", "https://one.test/a b", "https://one.test/\r\nX: y"],
    "invalid URL; use": ["https://a.example/'\"", "https://a.example/<x>"],
    "invalid URL: ": ["https://one.test:99999/", "https://one.test:x/", "https://[::1/"],
    "unsupported scheme": ["file:///etc/passwd", "ftp://one.test/", "one.test/page"],
    "invalid host name": ["https://", "https:///etc", "https://one..test/", "https://-/"],
    "user name": ["https://me:secret@one.test/"],
    "port 22": ["https://one.test:22/"],
    "longer than": ["https://one.test/" + "a" * 2000],
    "with a key or token": ["https://one.test/?k=ghp_" + "0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX"],
}


def test_invalid_url_is_refused_without_asking(bench: Bench) -> None:
    for expected, urls in INVALID.items():
        for url in urls:
            seen = bench(url)
            assert not seen.ok and expected in seen.text, url
    assert not bench.asked and not bench.site.requests


def test_url_is_normalized() -> None:
    for url, base, expected in (
        ("HTTPS://Docs.Example.ORG:443/a/%7Ex?q=ä#part", "", "https://docs.example.org/a/%7Ex?q=%C3%A4"),
        ("https://bücher.example", "", "https://xn--bcher-kva.example/"),
        ("../b?c", "https://a.example:8443/x/y/z", "https://a.example:8443/x/b?c"),
        ("//b.example/", "http://a.example/", "http://b.example/"),
    ):
        assert str(read_url(url, read_url(base) if base else None)) == expected


def test_rule_or_always_is_for_one_host(bench: Bench) -> None:
    bench.site.pages = {"/a": answer(b"there")}
    bench.gate.asker = lambda asked: Verdict(False, reason="not that one")
    seen = bench()
    assert not seen.ok and "not that one" in seen.text and not bench.site.requests
    saved: list[str] = []
    bench.gate.remember = saved.extend
    bench.gate.asker = lambda asked: bench.asked.append(asked) or Verdict(True, always=True, keep=True)
    assert bench("http://one.test:port/a").ok and bench("http://one.test:port/a").ok
    assert len(bench.asked) == 1 and saved == [f"browse:http://one.test:{bench.site.port}/*"]
    assert "not encrypted" in bench.asked[0].why and "not the standard one" in bench.asked[0].why
    bench.gate.asker = lambda asked: Verdict(False, reason="not that one")
    for other in ("http://two.test:port/a", "http://one.test.two.test:port/a", "http://one.test:8000/a"):
        assert "not that one" in bench(other).text
    assert len(bench.site.requests) == 2


def test_request_has_no_cookies_or_credentials(bench: Bench) -> None:
    bench.site.pages = {"/a?b=c": answer(b"A", set_cookie="x=1"), "/": answer(b"B")}
    assert bench("http://one.test:port/a?b=c#d").ok and bench().ok
    first, second = (request.decode().lower() for request in bench.site.requests)
    assert first.startswith("get /a?b=c http/1.1\r\n") and f"host: one.test:{bench.site.port}\r\n" in first
    assert "user-agent: repoagent/" in first
    assert not any(word in first + second for word in ("cookie", "referer", "authorization"))


def test_name_with_a_private_address_is_refused(bench: Bench) -> None:
    for addresses in (["10.0.0.1"], ["127.0.0.1", "169.254.169.254"], ["::1"], []):
        bench.addresses["one.test"] = addresses
        seen = bench()
        assert not seen.ok and not bench.site.requests
        assert ("not on the public internet" if addresses else "has no IP address") in seen.text
        assert "failed" in bench.events[-1]


def test_local_address_is_refused_by_default(bench: Bench) -> None:
    for host in ("127.0.0.1", "2130706433", "0x7f.1", "localhost"):
        seen = bench(f"http://{host}:port/", may=Network().may, resolve=Network().resolve)
        assert not seen.ok and "not on the public internet" in seen.text
    assert not bench.site.requests
    local = f"http://127.0.0.1:{bench.site.port}/"
    assert local not in [asked.what for asked in bench.asked]  # refused before the user is asked


def test_name_is_resolved_once_per_request(bench: Bench) -> None:
    answers = [["127.0.0.1"], ["10.0.0.1"]]

    def rebinding(host: str, port: int) -> list[str]:
        return answers.pop(0)

    moved = answer(b"", "302 Found", location="/secret")
    bench.site.pages = {"/": answer(b"hello"), "/moved": moved, "/secret": answer()}
    assert bench(resolve=rebinding).ok
    assert answers == [["10.0.0.1"]]
    answers.insert(0, ["127.0.0.1"])
    seen = bench("http://one.test:port/moved", resolve=rebinding)
    assert not seen.ok and "not on the public internet" in seen.text and len(bench.site.requests) == 2


def test_forbidden_redirect(bench: Bench) -> None:
    bench.addresses["inside.test"] = ["192.168.0.1"]
    for step in range(9):
        bench.site.pages[f"/step{step}"] = answer(b"", "307 Moved", location=f"/step{step + 1}")
    for target, expected in {
        "file:///etc/passwd": "unsupported scheme file:",
        "http://inside.test/": "not on the public internet",
        "http://me@two.test/": "user name",
        "/loop": "in a loop",
        "/step0": "more than 5 times",
        "gopher://two.test": "unsupported scheme gopher:",
    }.items():
        bench.site.pages["/loop"] = answer(b"", "301 Moved", location=target)
        bench.site.requests.clear()
        seen = bench("http://one.test:port/loop")
        assert not seen.ok and expected in seen.text
        assert len(bench.site.requests) <= 6


def test_redirect_to_another_host_needs_approval(bench: Bench) -> None:
    bench.site.pages = {
        "/a": answer(b"", "302 Found", location="/b"),
        "/b": answer(b"", "302 Found", location=f"http://two.test:{bench.site.port}/c"),
        "/c": answer(b"the end"),
    }
    seen = bench("http://one.test:port/a")
    port = bench.site.port
    assert seen.ok and f"Redirected to http://two.test:{port}/c." in seen.text and "the end" in seen.text
    assert [asked.what for asked in bench.asked] == [f"http://one.test:{port}/a", f"http://two.test:{port}/c"]
    assert f"http://one.test:{port} redirects there" in bench.asked[1].why
    bench.gate.deny = (Rule(f"browse:http://one.test:{port}/b"),)
    denied = bench("http://one.test:port/a")
    assert not denied.ok and "denies that" in denied.text


def _slowly(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for _ in range(100):
        connection.sendall(b"x: y\r\n")
        time.sleep(0.05)


def _for_ever(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
    for _ in range(2000):
        connection.sendall(b"line\n" * 2000)


def _again_and_again(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


@pytest.mark.soak
@pytest.mark.parametrize(("page", "expected"), [
    (_slowly, "within 0.4 s"),
    (_again_and_again, "within 0.4 s"),
    (lambda _: time.sleep(0.6), "within 0.4 s"),
    (b"", "invalid response from http://one.test"),
    (b"nonsense\r\n\r\n", "invalid response from http://one.test"),
    (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000 + b"\r\n\r\n", "invalid response from http://one.test"),
    (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 60_000 + b"\r\n", "invalid response from http://one.test"),
    (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "the response ended early"),
    (answer(b"no gzip", content_encoding="gzip"), "invalid response from http://one.test"),
    (answer(b"x", content_encoding="br"), "the response has the encoding br, which was not requested"),
    (answer(b"%PDF-1.7", content_type="application/pdf"), "is of type application/pdf; only pages and text"),
    (answer(b"x", content_type="image/\x1b[31m"), "is of an unknown type; only pages and text"),
    (answer(b"\0\1\2"), "is binary"),
])  # fmt: skip
def test_bad_server_is_reported(bench: Bench, page: Answer, expected: str) -> None:
    bench.site.pages = {"/": page}
    began = time.monotonic()
    seen = bench(seconds=0.4 if callable(page) else 5.0)
    assert not seen.ok and expected in seen.text, seen.text
    assert time.monotonic() - began < 3
    assert "\x1b" not in seen.text


def test_size_of_a_page_is_limited_after_decompression(bench: Bench) -> None:
    bomb = gzip.compress(b"boom\n" * 4_000_000, 9)
    bench.site.pages = {
        "/for-ever": _for_ever,
        "/bomb": answer(bomb, content_encoding="gzip"),
        "/deflated": answer(zlib.compress(b"unpacked"), content_encoding="deflate"),
    }
    for path in ("/for-ever", "/bomb"):
        seen = bench(f"http://one.test:port{path}", largest=50_000)
        assert seen.ok and "Only the first" in seen.text and seen.data["bytes"] == 50_000
    assert "unpacked" in bench("http://one.test:port/deflated").text


def test_response_that_ends_early(bench: Bench) -> None:
    def reset(connection: socket.socket) -> None:
        connection.sendall(answer(b"half", content_length="10"))
        time.sleep(0.5)  # a reset drops what was not read
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    for page in (answer(b"half", content_length="10"), reset):
        bench.site.pages = {"/": page}
        seen = bench()
        assert seen.ok and "half" in seen.text and "The response ended early." in seen.text


def test_refused_connection(bench: Bench) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        seen = bench(f"http://one.test:{closed.getsockname()[1]}/")
    assert not seen.ok and ": Connection refused." in seen.text


def test_other_statuses(bench: Bench) -> None:
    for status in ("404 Not Found", "500 Oh No", "302 Found", "999 What"):
        bench.site.pages = {"/": answer(b'{"why": "so"}', status, content_type="application/json")}
        seen = bench()
        assert not seen.ok and f"The status was {status[:3]}" in seen.text and '"why": "so"' in seen.text
        assert "Oh No" not in seen.text and bench.events[-1]["status"] == int(status[:3])
    for body, kind in ((b"<p>why", "text/html"), (b"why", "image/png")):
        bench.site.pages = {"/": answer(body, "404 Not Found", content_type=kind)}
        assert bench().text == "The status was 404 Not Found."
    bench.site.pages = {"/": answer(b"", "204 No Content")}
    seen = bench()
    assert seen.ok and "The page has no text" in seen.text and bench.events[-1]["status"] == 204


ENCODED = [
    ("grün", "latin-1", "text/plain; charset=ISO-8859-1"),
    ("grün", "utf-8", "text/plain"),
    ("grün", "utf-8", "text/plain; charset=idna"),
    ("grün", "utf-8", "text/plain; charset=cp99999"),
    ("grün", "utf-8", "text/plain; charset=latin99"),
    ("grün", "utf-8", "text/plain; charset=punycode"),
    ("grün", "utf-8-sig", "text/plain"),
    ("grün", "latin-1", "text/plain; charset=latin1"),
    ("zielona łąka", "iso-8859-2", "text/plain; charset=iso-8859-2"),
    ("10 €", "iso-8859-15", "text/plain; charset=ISO-8859-15"),
    ("zielona łąka", "cp1250", "text/plain; charset=windows-1250"),
    ("зелёный", "koi8-r", "text/plain; charset=KOI8-R"),
    ("日本語", "shift_jis", "text/plain; charset=Shift_JIS"),
    ("中文", "gbk", "text/plain; charset=gbk"),
    ("grün", "utf-16-le", "text/plain; charset=utf-16le"),
    ("<p>eins</p><p>зелёный", "cp1251", "text/html; charset=windows-1251"),
    ("grün", "utf-16", "text/plain; charset=utf-16"),
    ("<meta charset=koi8-r><p>eins</p><p>grün", "latin-1", "text/html; charset=windows-1252"),
    ("<p>eins</p><p>grün", "utf-8", "text/html; charset=cp99999"),
]


def test_encodings(bench: Bench) -> None:
    for text, codec, kind in ENCODED:
        bench.site.pages = {"/": answer(text.encode(codec), content_type=kind)}
        seen = bench()
        assert text.rpartition("<p>")[2] in seen.text and "\ufeff" not in seen.text, (text, kind, seen.text)


def test_text_of_a_page(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    paragraph = "This page tells at some length how the thing is done, so that it counts as text. " * 4
    html = (
        f"<html><head><title>How &amp; why</title></head><body><nav><a href='/x'>menu</a></nav><article><h1>Doing it</h1>"
        f"<p>{paragraph}</p><p>See <a href='more?x'>more</a>.</p><pre>code()</pre></article><script>evil()</script></body></html>"
    )
    bench.site.pages = {"/in/here": answer(html.encode(), content_type="text/html; charset=utf-8")}
    seen = bench("http://one.test:port/in/here")
    assert seen.ok, seen.text
    assert f'<page url="http://one.test:{bench.site.port}/in/here">' in seen.text
    assert "How & why" in seen.text and "at some length" in seen.text and "code()" in seen.text
    assert f"(http://one.test:{bench.site.port}/in/more?x)" in seen.text
    assert "evil" not in seen.text and "<p>" not in seen.text
    for limit in ("EXTRACT_SECONDS", "LARGEST_TEXT"):
        with monkeypatch.context() as patch:
            patch.setattr(f"repoagent.agent.browse_tool.{limit}", 0.01)
            assert "it took too long, or the page" in bench("http://one.test:port/in/here").text


def test_interrupt_is_not_delayed(bench: Bench) -> None:
    bench.site.pages = {"/": _slowly}
    threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        bench()


def test_certificates(bench: Bench, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    context, certificate = certified("DNS:one.test", tmp_path)
    trust = partial(ssl.create_default_context, cafile=certificate)
    site, plain = bench.site, bench.site.respond

    def secure(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            plain(secured)

    site.respond = secure
    down = answer(b"", "302 Found", location=f"http://one.test:{site.port}/")
    site.pages = {"/": answer(b"safe"), "/down": down}
    for url, options, expected in (
        ("https://one.test:port/", {}, ": self-signed certificate."),
        ("https://one.test:port/", {"trust": trust}, "safe"),
        ("https://two.test:port/", {"trust": trust}, "certificate is not valid for"),
        ("https://one.test:port/down", {"trust": trust}, "not encrypted; such redirects are not followed"),
    ):
        seen = bench(url, **options)
        assert seen.ok is (expected == "safe") and expected in seen.text
    site.respond = lambda connection: connection.sendall(b"HTTP/1.1 400 No\r\n\r\n")
    assert "could not reach https://one.test" in bench("https://one.test:port/", trust=trust).text


@pytest.mark.soak
@pytest.mark.parametrize(
    "html",
    ["<div>" * 200_000, "<table><tr><td>" * 50_000, "<a href='" + "x" * 1_900_000, "<!--" * 400_000, "&amp;" * 300_000,
     "<p " + "a=b " * 400_000 + ">", "<b><i>" * 100_000 + "x", "<title>" + "<" * 100_000, "\0" * 100_000, ""],
    ids=range(10),
)  # fmt: skip
def test_hostile_html_is_stopped_in_time(bench: Bench, html: str) -> None:
    bench.site.pages = {"/": answer(html.encode(), content_type="text/html")}
    began = time.monotonic()
    seen = bench()
    assert time.monotonic() - began < 45
    assert "page" in seen.text or "could not extract the text of http://one.test" in seen.text
