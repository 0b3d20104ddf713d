"""Fetch one page over HTTP from the public internet.

URLs are parsed strictly and written in one way, so that what is asked about, allowed and fetched is the same. The
name is resolved once, and that very address is connected to; every step has a deadline. No proxy is used: it would
resolve the name again, and could reach what is refused here.
"""

from __future__ import annotations

import http.client
import ipaddress
import os
import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from urllib.parse import quote, urljoin, urlsplit

from repoagent import __version__
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError

LONGEST = 2_000  # characters
PORTS = {"http": 80, "https": 443}
_LOWEST = 1024  # of the other allowed ports: below are mail, files, shells
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\.?|\[[0-9a-f:.]+\]")
_SAFE = "!$&'()*+,;=:@/?-._~%"  # not escaped in a path or a query


@dataclass(frozen=True)
class Url:
    """A page's address. host: in lower case, in the letters of DNS. target: path and query, as they are sent."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def site(self) -> str:
        """Scheme, host and port."""
        usual = self.port == PORTS[self.scheme]
        return f"{self.scheme}://{self.host}" + ("" if usual else f":{self.port}")

    def __str__(self) -> str:
        return self.site + self.target


def read_url(text: str, base: Url | None = None) -> Url:
    """The address that `text` is; relative to `base` where that is given. What follows `#` is left out.

    Raises UsageError, in a sentence that says what is wrong with it.
    """
    text = text.strip()
    if len(text) > LONGEST:
        raise UsageError(f"the URL is longer than {LONGEST} characters.")
    if not text or re.search(r'[\x00-\x20\x7f-\x9f\\<>"^`{}|]', text):
        raise UsageError("invalid URL; use https://HOST/PATH, with %20 for a space.")
    try:
        parts = urlsplit(urljoin(str(base), text) if base else text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise UsageError(f"invalid URL: {error}.") from error
    if parts.scheme not in PORTS:
        raise UsageError(
            f"unsupported scheme {parts.scheme or 'nothing'}: only https:// and http:// pages are fetched."
        )
    if "@" in parts.netloc:
        raise UsageError("URLs with a user name are not fetched.")
    port = PORTS[parts.scheme] if port is None else port
    if port not in PORTS.values() and port < _LOWEST:
        raise UsageError(f"port {port} is not a web port.")
    target = quote(parts.path or "/", safe=_SAFE) + (
        f"?{quote(parts.query, safe=_SAFE)}" if parts.query else ""
    )
    return Url(parts.scheme, _host(host), port, target)


def _host(name: str) -> str:
    try:
        host = name.lower() if name.isascii() else name.encode("idna").decode("ascii").lower()
    except UnicodeError as error:
        raise UsageError("invalid host name in URL.") from error
    host = f"[{host}]" if ":" in host else host
    if len(host) > 253 or ".." in host or not _HOST.fullmatch(host):
        raise UsageError("invalid host name in URL.")
    return host.removesuffix(".")


_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052: an address of version 4 in its last 32 bits
# Reserved by the registries of IANA, and taken for global by some versions of Python; some clouds have services there.
_RESERVED = tuple(
    map(
        ipaddress.ip_network,
        ("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "2001::/23", "3fff::/20", "5f00::/16"),
    )
)


def is_public(address: str) -> bool:
    """Whether `address`, in digits, belongs to the public internet: not to this machine or its network.

    An address of version 6 that holds one of version 4 is what it holds; those that lead through a tunnel are not.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return is_public(str(parsed.ipv4_mapped))
        if parsed in _NAT64:
            return is_public(str(ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)))
        if parsed.sixtofour is not None or parsed.teredo is not None or parsed.is_site_local:
            return False
    return parsed.is_global and not (
        any(parsed in network for network in _RESERVED)
        or parsed.is_multicast
        or parsed.is_reserved
        or parsed.is_unspecified
        or parsed.is_loopback
    )


def is_address(host: str) -> bool:
    """Whether `host` is an address in digits, and no name."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def resolve(host: str, port: int) -> list[str]:
    """The addresses of `host`, in digits, in the order in which they are to be tried. Raises OSError."""
    entries = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


LARGEST = 2 * 1024 * 1024  # bytes of a page, also when it is unpacked
SECONDS = 30.0  # for all of it, with its redirections
REDIRECTIONS = 5
_MOVED = {301, 302, 303, 307, 308}
_TRIES = 4  # addresses of one name
_HEADERS = {
    "User-Agent": f"repoagent/{__version__}",
    "Accept": "text/html, application/xhtml+xml, application/json, text/*;q=0.9, */*;q=0.1",
    "Accept-Language": "en, *;q=0.5",
    "Accept-Encoding": "gzip",
    "Connection": "close",
}


@dataclass(frozen=True)
class Net:
    """How the network is reached. may: which addresses may be connected to. trust: what a certificate is checked with,
    None for what the system has."""

    may: Callable[[str], bool] = is_public
    resolve: Callable[[str, int], Sequence[str]] = resolve
    trust: Callable[[], ssl.SSLContext] = ssl.create_default_context
    seconds: float = SECONDS
    largest: int = LARGEST


@dataclass(frozen=True)
class Page:
    """An answer. data: the body, at most as long as is taken; cut: there was more. kind: the content type without its
    parameters, in lower case; charset: what it says of its characters, or ""; broken: it ended too early."""

    url: Url
    status: int
    kind: str
    charset: str
    data: bytes
    cut: bool = False
    broken: bool = False

    @property
    def ok(self) -> bool:
        """Whether the status says that it is the page."""
        return 200 <= self.status < 300


def fetch(url: Url, net: Net, moved: Callable[[Url, Url], None]) -> Page:
    """The page at `url`, or at where it leads; `moved` is asked before each step there, and raises to say no.

    Raises UsageError, in a sentence, for whatever goes wrong; a status such as 404 does not.
    """
    deadline = time.monotonic() + net.seconds
    seen = {url}
    while True:
        page, target = _one(url, net, deadline)
        if not target:
            return page
        following = read_url(target, url)
        if url.scheme == "https" and following.scheme == "http":
            raise UsageError(
                f"{url.site} redirects to {following.site}, which is not encrypted; such redirects are not "
                "followed."
            )
        if following in seen or len(seen) > REDIRECTIONS:
            raise UsageError(f"{url.site} redirects too often: {len(seen)} redirects were followed.")
        began = time.monotonic()
        moved(url, following)
        deadline += time.monotonic() - began  # the user may have been asked
        seen.add(following)
        url = following


def inside(url: Url, address: str) -> str:
    """Why the host of `url`, which is `address`, is not connected to."""
    host = url.host if url.host.strip("[]") == address else f"{url.host} is {address}, which"
    return f"{host} is not on the public internet; only public pages are fetched."


def _one(url: Url, net: Net, deadline: float) -> tuple[Page, str]:
    """One answer, and where it leads to. The work is done by a thread, so that whatever hangs is left behind."""
    exchange = _Exchange(url, net)
    thread = threading.Thread(target=exchange.run, daemon=True)
    thread.start()
    try:
        thread.join(max(0.0, deadline - time.monotonic()))
        late = thread.is_alive()  # what fails from here on fails because of that
    finally:
        exchange.abandon()
    if exchange.failure is not None and not late:
        raise exchange.failure
    if exchange.page is None:
        raise UsageError(f"{url.site} did not complete its answer within {net.seconds:g} s.")
    return exchange.page, exchange.target


class _Exchange:
    """A request and its answer, in a thread of its own."""

    def __init__(self, url: Url, net: Net) -> None:
        self.url, self.net = url, net
        self.page: Page | None = None
        self.target = ""
        self.failure: UsageError | None = None
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._left = False

    def abandon(self) -> None:
        """Break the connection, if there is one, now or as soon as it is made."""
        with self._lock:
            self._left = True
            if self._socket is not None:
                _break(self._socket)

    def run(self) -> None:
        site = self.url.site
        try:
            self._exchange()
        except ssl.SSLCertVerificationError as error:
            self.failure = UsageError(
                f"the certificate of {site} is not trusted: {error.verify_message.rstrip('.')}."
            )
        except ssl.SSLError as error:
            self.failure = UsageError(
                f"could not open an encrypted connection to {site}: {error.reason or error}."
            )
        except http.client.HTTPException as error:
            self.failure = UsageError(f"invalid response from {site} ({type(error).__name__}).")
        except (UnicodeError, ValueError) as error:  # also of names and headers that the libraries refuse
            self.failure = UsageError(f"invalid response from {site} ({error}).")
        except UsageError as error:
            self.failure = error
        except OSError as error:
            self.failure = UsageError(f"could not reach {site}: {error.strerror or error}.{_proxy_note()}")

    def _exchange(self) -> None:
        connection = http.client.HTTPConnection(self.url.host.strip("[]"), self.url.port)
        try:
            connection.sock = self._connected(self._addresses())
            usual = self.url.site.partition("://")[2]
            connection.putrequest("GET", self.url.target, skip_host=True, skip_accept_encoding=True)
            for name, value in {"Host": usual, **_HEADERS}.items():
                connection.putheader(name, value)
            connection.endheaders()
            self._read(connection.getresponse())
        finally:
            connection.close()
            with self._lock:
                if self._socket is not None:
                    self._socket.close()

    def _addresses(self) -> list[str]:
        addresses = list(self.net.resolve(self.url.host, self.url.port))
        if not addresses:
            raise UsageError(f"{self.url.host} has no IP address.")
        if refused := [address for address in addresses if not self.net.may(address)]:
            raise UsageError(inside(self.url, refused[0]))
        return addresses[:_TRIES]

    def _connected(self, addresses: Sequence[str]) -> socket.socket:
        """A connection to the first of `addresses` that answers."""
        each = self.net.seconds / len(addresses)
        for address in addresses:
            try:
                plain = socket.create_connection((address, self.url.port), timeout=each)
            except OSError:
                if address == addresses[-1]:
                    raise
                continue
            break
        self._hold(plain)
        plain.settimeout(self.net.seconds)
        if self.url.scheme == "http":
            return plain
        secure = self.net.trust().wrap_socket(
            plain, server_hostname=self.url.host.strip("[]"), do_handshake_on_connect=False
        )
        self._hold(secure)
        secure.do_handshake()
        return secure

    def _hold(self, made: socket.socket) -> None:
        with self._lock:
            self._socket = made
            if self._left:
                _break(made)

    def _read(self, response: http.client.HTTPResponse) -> None:
        headers = response.headers
        target = headers.get("Location", "") if response.status in _MOVED else ""
        data, cut = (b"", False) if target else _body(response, self.net.largest)
        kind = headers.get_content_type() if headers.get("Content-Type") else ""
        page = Page(
            self.url, response.status, kind, headers.get_content_charset() or "", data, cut,
            broken=not (target or cut) and bool(response.length),
        )  # fmt: skip
        self.target = target.encode("latin-1", "replace").decode("utf-8", "replace")
        self.page = page


def _body(response: http.client.HTTPResponse, largest: int) -> tuple[bytes, bool]:
    """The body, unpacked, and whether there was more than `largest` bytes of it."""
    packing = response.headers.get("Content-Encoding", "").strip().lower()
    if packing not in {"", "identity", "gzip", "x-gzip", "deflate"}:
        raise UsageError(f"the response has the encoding {packing[:40]}, which was not requested.")
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32) if packing not in {"", "identity"} else None
    body = bytearray()
    taken = 0
    while len(body) <= largest:
        try:
            data = response.read1(1 << 16)
        except http.client.IncompleteRead as error:
            raise UsageError("the response ended early.") from error
        if not data:
            break
        taken += len(data)
        try:
            body += data if unpack is None else unpack.decompress(data, largest + 1 - len(body))
        except zlib.error as error:
            raise UsageError(f"could not decompress the response ({error}).") from error
        if taken > largest or (unpack is not None and unpack.eof):
            break
    return bytes(body[:largest]), len(body) > largest or taken > largest


def _break(connection: socket.socket) -> None:
    try:
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
    except OSError:  # it is closed already
        pass


def _proxy_note() -> str:
    names = [
        name
        for name in ("https_proxy", "http_proxy", "all_proxy")
        if os.environ.get(name) or os.environ.get(name.upper())
    ]
    return f" (The proxy of {names[0]} is not used.)" if names else ""
