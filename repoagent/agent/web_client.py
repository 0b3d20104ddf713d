"""Fetch one page over HTTP from the public internet.

URLs are parsed strictly and normalized, so that the URL that is approved is the one that is fetched. The name is
resolved once, and the connection goes to that address; every step has a deadline. No proxy is used: it would resolve
the name again, and could reach what is refused here.
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
from contextlib import suppress
from urllib.parse import quote, urljoin, urlsplit

from repoagent import __version__
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError

LONGEST = 2_000  # characters
PORTS = {"http": 80, "https": 443}
_LOWEST = 1024  # of the other allowed ports: below are mail, files, shells
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\.?|\[[0-9a-f:.]+\]")
_SAFE = "!$&'()*+,;=:@/?-._~%"  # not escaped in a path or query


@dataclass(frozen=True)
class Url:
    """A normalized URL. host: in lower case and IDNA. target: the path and query."""

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
    """Parse a URL, relative to `base` if given, without its fragment. Raises UsageError if it is invalid."""
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


_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052: an IPv4 address in the last 32 bits
# Reserved by IANA, but global in some versions of Python; some clouds have services there.
_RESERVED = tuple(
    map(
        ipaddress.ip_network,
        ("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "2001::/23", "3fff::/20", "5f00::/16"),
    )
)


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet, and not to this machine or its network.

    An IPv6 address that embeds an IPv4 address is judged by the latter; tunnels are not public.
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
    """Whether `host` is an IP address and not a name."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def resolve(host: str, port: int) -> list[str]:
    """The IP addresses of `host`, in the order to try. Raises OSError."""
    entries = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


LARGEST = 2 * 1024 * 1024  # bytes of a page, also after decompression
SECONDS = 30.0  # with all redirects
_REDIRECTS = 5
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
    """Access to the network. may: whether to connect to an address. trust: the context for certificates."""

    may: Callable[[str], bool] = is_public
    resolve: Callable[[str, int], Sequence[str]] = resolve
    trust: Callable[[], ssl.SSLContext] = ssl.create_default_context
    seconds: float = SECONDS
    largest: int = LARGEST


@dataclass(frozen=True)
class Page:
    """A response. data: the body; cut: it was longer. kind: the content type in lower case, without parameters;
    charset: its parameter, or ""; broken: it ended too early."""

    url: Url
    status: int
    kind: str
    charset: str
    data: bytes
    cut: bool = False
    broken: bool = False

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


def fetch(url: Url, net: Net, moved: Callable[[Url, Url], None]) -> Page:
    """The page at `url`, after redirects; `moved` is called before each of them and raises to refuse it.

    Raises UsageError for every failure; a status such as 404 is not one.
    """
    deadline = time.monotonic() + net.seconds
    seen = {url}
    while True:
        exchange = _Exchange(url, net)
        exchange.start()
        try:
            exchange.join(max(0.0, deadline - time.monotonic()))
        finally:
            exchange.abandon()
        if exchange.failure is not None:
            raise exchange.failure
        if exchange.page is None:
            raise UsageError(f"{url.site} did not complete its answer within {net.seconds:g} s.")
        if not exchange.target:
            return exchange.page
        following = read_url(exchange.target, url)
        if url.scheme == "https" and following.scheme == "http":
            raise UsageError(
                f"{url.site} redirects to {following.site}, which is not encrypted; such redirects are not "
                "followed."
            )
        if following in seen or len(seen) > _REDIRECTS:
            raise UsageError(f"{url.site} redirects too often: {len(seen)} redirects were followed.")
        began = time.monotonic()
        moved(url, following)
        deadline += time.monotonic() - began  # the user may have been asked
        seen.add(following)
        url = following


def inside(url: Url, address: str) -> str:
    """The refusal to connect to the host of `url`, which has the IP address `address`."""
    host = url.host if url.host.strip("[]") == address else f"{url.host} is {address}, which"
    return f"{host} is not on the public internet; only public pages are fetched."


class _Exchange(threading.Thread):
    """A request and its response, in a thread, so that a hanging step can be abandoned."""

    def __init__(self, url: Url, net: Net) -> None:
        super().__init__(daemon=True)
        self.url, self.net = url, net
        self.page: Page | None = None
        self.target = ""  # of a redirect
        self.failure: UsageError | None = None
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._abandoned = False

    def abandon(self) -> None:
        """Break the connection, now or as soon as it is made."""
        with self._lock:
            self._abandoned = True
            self._use(self._socket)

    def _use(self, connection: socket.socket | None) -> None:
        """Note the current socket, so that `abandon` can break it. Call it with the lock."""
        self._socket = connection
        if connection is not None and self._abandoned:
            with suppress(OSError):  # it is closed already
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def run(self) -> None:
        site = self.url.site
        try:
            self._exchange()
        except UsageError as error:
            self.failure = error
        except ssl.SSLCertVerificationError as error:
            reason = error.verify_message.rstrip(".")
            self.failure = UsageError(f"the certificate of {site} is not trusted: {reason}.")
        except ssl.SSLError as error:
            reason = error.reason or str(error)
            self.failure = UsageError(f"could not open an encrypted connection to {site}: {reason}.")
        except http.client.HTTPException as error:
            self.failure = UsageError(f"invalid response from {site} ({type(error).__name__}).")
        except ValueError as error:  # also of names and headers that the libraries refuse
            self.failure = UsageError(f"invalid response from {site} ({error}).")
        except OSError as error:
            names = [f"{name}_proxy" for name in ("https", "http", "all")]
            names = [name for name in names if os.environ.get(name) or os.environ.get(name.upper())]
            note = f" (The proxy of {names[0]} is not used.)" if names else ""
            self.failure = UsageError(f"could not reach {site}: {error.strerror or error}.{note}")

    def _exchange(self) -> None:
        url, net = self.url, self.net
        addresses = list(net.resolve(url.host, url.port))
        if not addresses:
            raise UsageError(f"{url.host} has no IP address.")
        if refused := [address for address in addresses if not net.may(address)]:
            raise UsageError(inside(url, refused[0]))
        name = url.host.strip("[]")
        connection = http.client.HTTPConnection(name, url.port)
        try:
            connection.sock = self._connect(addresses[:_TRIES])
            if url.scheme == "https":
                secure = net.trust().wrap_socket(
                    connection.sock, server_hostname=name, do_handshake_on_connect=False
                )
                with self._lock:
                    self._use(secure)
                connection.sock = secure
                secure.do_handshake()
            connection.putrequest("GET", url.target, skip_host=True, skip_accept_encoding=True)
            for header, value in {"Host": url.site.partition("://")[2], **_HEADERS}.items():
                connection.putheader(header, value)
            connection.endheaders()
            response = connection.getresponse()
            headers = response.headers
            target = headers.get("Location", "") if response.status in _MOVED else ""
            data, cut = (b"", False) if target else _body(response, net.largest)
            kind = headers.get_content_type() if headers.get("Content-Type") else ""
            broken = not (target or cut) and bool(response.length)
            charset = headers.get_content_charset() or ""
            self.target = target.encode("latin-1", "replace").decode("utf-8", "replace")
            self.page = Page(url, response.status, kind, charset, data, cut, broken)
        finally:
            connection.close()
            with self._lock:
                if self._socket is not None:
                    self._socket.close()

    def _connect(self, addresses: Sequence[str]) -> socket.socket:
        """A connection to the first of `addresses` that answers."""
        for address in addresses:
            timeout = self.net.seconds / len(addresses)
            try:
                connection = socket.create_connection((address, self.url.port), timeout=timeout)
            except OSError:
                if address == addresses[-1]:
                    raise
                continue
            break
        connection.settimeout(self.net.seconds)
        with self._lock:
            self._use(connection)
        return connection


def _body(response: http.client.HTTPResponse, largest: int) -> tuple[bytes, bool]:
    """The decompressed body, and whether it has more than `largest` bytes."""
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
