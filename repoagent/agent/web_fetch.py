"""Fetch a page from the public internet.

URLs are parsed strictly and normalized, so that the URL that is approved is the one that is fetched. The host name is
resolved once, and the connection goes to the resulting address; every step has a deadline. No proxy is used: it would
resolve the name again, and could reach addresses that are refused here.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

import httpx2

from repoagent import __version__
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError

LONGEST = 2_000  # characters
PORTS = {"http": 80, "https": 443}
_LOWEST = 1024  # of the other allowed ports; lower ones serve mail, files, shells
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\.?|\[[0-9a-f:.]+\]")
_SAFE = "!$&'()*+,;=:@/?-._~%"  # not escaped in a path or query


class Url(NamedTuple):
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
    """Parse a URL, possibly relative to `base`, without its fragment. Raises UsageError if it is invalid."""
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
            f"unsupported scheme {parts.scheme or '(none)'}: only https:// and http:// pages are fetched."
        )
    if "@" in parts.netloc:
        raise UsageError("URLs with a user name are not fetched.")
    port = PORTS[parts.scheme] if port is None else port
    if port not in PORTS.values() and port < _LOWEST:
        raise UsageError(f"port {port} is not a web port; use 80, 443 or one above {_LOWEST - 1}.")
    target = quote(f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}", safe=_SAFE)
    try:
        host = host.lower() if host.isascii() else host.encode("idna").decode("ascii").lower()
    except UnicodeError as error:
        raise UsageError("invalid host name in URL.") from error
    host = f"[{host}]" if ":" in host else host
    if len(host) > 253 or ".." in host or not _HOST.fullmatch(host):
        raise UsageError("invalid host name in URL.")
    return Url(parts.scheme, host.removesuffix("."), port, target)


_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052: an IPv4 address in the last 32 bits
# Reserved by IANA, but global in some versions of Python; some clouds have services there.
_RESERVED = "192.0.0.0/24 192.88.99.0/24 64:ff9b:1::/48 2001::/23 3fff::/20 5f00::/16"
_NETWORKS = tuple(map(ipaddress.ip_network, _RESERVED.split()))


def is_public(address: str) -> bool:
    """Whether an IP address is on the public internet.

    If an IPv6 address embeds an IPv4 address, the embedded address decides. Tunnel addresses (6to4, Teredo) are not
    public.
    """
    parsed = ip_address(address)
    if parsed is None:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return is_public(str(parsed.ipv4_mapped))
        if parsed in _NAT64:
            return is_public(str(ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)))
        if parsed.sixtofour is not None or parsed.teredo is not None or parsed.is_site_local:
            return False
    special = parsed.is_multicast or parsed.is_reserved or parsed.is_unspecified or parsed.is_loopback
    return parsed.is_global and not special and not any(parsed in network for network in _NETWORKS)


def ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse `host` as an IP address; None if it is a name."""
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def resolve(host: str, port: int) -> list[str]:
    """The IP addresses of `host`, in the order in which to try them. Raises OSError if the name cannot be resolved."""
    entries = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


LARGEST = 2 * 1024 * 1024  # bytes of a page, also after decompression
SECONDS = 30.0  # including redirects
_SLICE = 0.1  # seconds of one wait: Python handles a ^C that arrives just before a wait only after it
_REDIRECTS = 5
_MOVED = {301, 302, 303, 307, 308}
_TRIES = 4  # addresses of a name to try
_HEADERS = {
    "User-Agent": f"repoagent/{__version__}",
    "Accept": "text/html, application/xhtml+xml, application/json, text/*;q=0.9, */*;q=0.1",
    "Accept-Language": "en, *;q=0.5",
    "Accept-Encoding": "gzip",
    "Connection": "close",
}


@dataclass(frozen=True)
class Network:
    """Access to the network.

    may: returns whether connecting to an address is allowed.
    resolve: returns the addresses of a host name.
    trust: creates the context that checks certificates.
    seconds, largest: the limits on the time and on the size of a page, in bytes.
    """

    may: Callable[[str], bool] = is_public
    resolve: Callable[[str, int], Sequence[str]] = resolve
    trust: Callable[[], ssl.SSLContext] = ssl.create_default_context
    seconds: float = SECONDS
    largest: int = LARGEST


@dataclass(frozen=True)
class WebPage:
    """A response.

    kind: the content type in lower case, without parameters; "" if unknown.
    charset: the `charset` parameter of the content type; "" if there is none.
    data: the decompressed body.
    cut: whether the rest of the body was dropped.
    broken: whether the response ended early.
    """

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


def fetch(url: Url, net: Network, moved: Callable[[Url, Url], None]) -> WebPage:
    """Fetch the page at `url`, following redirects. Raises UsageError for every failure; a status such as 404 is not a
    failure.

    `moved` is called before each redirect, and raises an exception to refuse it.
    """
    deadline = time.monotonic() + net.seconds
    seen = {url}
    while True:
        page, target = _request(url, net, deadline)
        if not target:
            return page
        following = read_url(target, url)
        if url.scheme == "https" and following.scheme == "http":
            raise UsageError(
                f"{url.site} redirects to {following.site}, which is not encrypted; such redirects are not "
                "followed."
            )
        if following in seen or len(seen) > _REDIRECTS:
            raise UsageError(f"{url.site} redirects in a loop, or more than {_REDIRECTS} times.")
        began = time.monotonic()
        moved(url, following)
        deadline += time.monotonic() - began  # the user may have been asked
        seen.add(following)
        url = following


def not_public(url: Url, address: str) -> UsageError:
    host = url.host if url.host.strip("[]") == address else f"{url.host} has the address {address}, which"
    return UsageError(f"{host} is not on the public internet; only public pages are fetched.")


_CODES = re.compile(r"^\[[^\]]*\] (certificate verify failed: )?| \(_ssl\.c:\d+\)$")  # in a message


def _request(url: Url, net: Network, deadline: float) -> tuple[WebPage, str]:
    """The response at `url`, and the target of its redirect or "". Raises UsageError."""
    results: list[tuple[WebPage, str] | Exception] = []

    def exchange() -> None:
        try:
            results.append(_exchange(url, net, deadline))
        except (UsageError, httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            results.append(error)

    # in a thread, so that a step that hangs or drips is abandoned in time
    thread = threading.Thread(target=exchange, daemon=True)
    thread.start()
    while thread.is_alive() and (remaining := deadline - time.monotonic()) > 0:
        thread.join(min(_SLICE, remaining))
    result = results[0] if results else TimeoutError()
    if isinstance(result, tuple):
        return result
    if isinstance(result, UsageError):
        raise result
    if isinstance(result, TimeoutError | httpx2.TimeoutException):
        failure = f"{url.site} did not complete its response within {net.seconds:g} s."
    elif not isinstance(result, httpx2.NetworkError | OSError):
        failure = f"invalid response from {url.site} ({type(result).__name__})."
    else:
        why = _CODES.sub("", str(result)).rstrip(".") or type(result).__name__
        failure = f"could not reach {url.site}: {why}."
    raise UsageError(failure) from result


def _exchange(url: Url, net: Network, deadline: float) -> tuple[WebPage, str]:
    """Request `url` from the first of its addresses that answers."""
    host = url.host.strip("[]")
    addresses = list(net.resolve(url.host, url.port))
    if not addresses:
        raise UsageError(f"{url.host} has no IP address.")
    if refused := [address for address in addresses if not net.may(address)]:
        raise not_public(url, refused[0])
    addresses = addresses[:_TRIES]
    timeout = httpx2.Timeout(net.seconds, connect=net.seconds / len(addresses))
    headers = {"Host": url.site.partition("://")[2], **_HEADERS}
    verify = net.trust() if url.scheme == "https" else False
    with httpx2.Client(verify=verify, trust_env=False, timeout=timeout) as client:
        for address in addresses:
            # connect to the address, but check the certificate for the name
            target = httpx2.URL(
                scheme=url.scheme, host=address, port=url.port, raw_path=url.target.encode("ascii")
            )
            request = client.build_request("GET", target, headers=headers, extensions={"sni_hostname": host})
            try:
                response = client.send(request, stream=True)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if address == addresses[-1]:
                    raise
                continue
            break
        with closing(response):
            location = response.headers.get("location", "") if response.status_code in _MOVED else ""
            packing = response.headers.get("content-encoding", "").strip().lower()
            if not location and packing not in {"", "identity", "gzip", "deflate"}:
                raise UsageError(f"the response has the encoding {packing[:40]}, which was not requested.")
            body, cut, broken = bytearray(), False, False
            try:
                for data in () if location else response.iter_bytes():
                    body += data
                    cut = len(body) > net.largest or response.num_bytes_downloaded > net.largest
                    if cut:
                        break
                    if time.monotonic() > deadline:
                        raise TimeoutError
            except (httpx2.RemoteProtocolError, httpx2.ReadError) as error:
                if not body:
                    raise UsageError("the response ended early.") from error
                broken = True
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            charset = (response.charset_encoding or "").lower()
            page = WebPage(url, response.status_code, kind, charset, bytes(body[: net.largest]), cut, broken)
            return page, location
