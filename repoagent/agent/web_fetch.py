"""The tool `browse`: fetch a page from the public internet, and show its text (of HTML, the readable part).

URLs are parsed strictly and normalized, so that the URL that is approved is the one that is fetched. The host name is
resolved once, and the connection goes to the resulting address; every step has a deadline. No proxy is used: it would
resolve the name again, and could reach addresses that are refused here.
"""

from __future__ import annotations

import http.client
import ipaddress
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import field, replace
from importlib.resources import files
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

import httpx2

from repoagent import __version__
from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import ApprovalRequest, Gate
from repoagent.agent.state import Tool, check_arguments, failing
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.git.program import start_program
from repoagent.llm.model import fence
from repoagent.storage.secrets import mask

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
    """Whether an IP address belongs to the public internet, and not to this machine or its network.

    An IPv6 address that embeds an IPv4 address is judged by the latter; tunnel addresses (6to4, Teredo) are not public.
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
    """`host` as an IP address; None if it is a name."""
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
class Net:
    """Access to the network. may: returns whether to connect to an address. trust: creates the context that checks
    certificates."""

    may: Callable[[str], bool] = is_public
    resolve: Callable[[str, int], Sequence[str]] = resolve
    trust: Callable[[], ssl.SSLContext] = ssl.create_default_context
    seconds: float = SECONDS
    largest: int = LARGEST


@dataclass(frozen=True)
class Page:
    """A response. data: the body, decompressed; cut: whether the rest of the body was dropped. kind: the content type
    in lower case, without parameters; charset: the `charset` parameter, or ""; broken: whether the response ended too
    early."""

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
    """The page at `url`, after redirects; `moved` is called before each redirect, and raises an exception to refuse it.

    Raises UsageError for every failure; a status such as 404 does not count as one.
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
    """The error for refusing to connect to the host of `url`, which has the IP address `address`."""
    host = url.host if url.host.strip("[]") == address else f"{url.host} is {address}, which"
    return UsageError(f"{host} is not on the public internet; only public pages are fetched.")


def _request(url: Url, net: Net, deadline: float) -> tuple[Page, str]:
    """The response at `url`, and the target of its redirect or "". Raises UsageError."""
    results: list[tuple[Page, str] | Exception] = []

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
    raise UsageError(_failure(url.site, result, net.seconds)) from result


def _failure(site: str, error: Exception, seconds: float) -> str:
    """Why nothing was fetched from `site`."""
    if isinstance(error, TimeoutError | httpx2.TimeoutException):
        return f"{site} did not complete its response within {seconds:g} s."
    if isinstance(error, httpx2.DecodingError):
        return f"could not decompress the response ({error})."
    if not isinstance(error, httpx2.NetworkError | OSError):
        return f"invalid response from {site} ({type(error).__name__})."
    causes = [arg for cause in (error, error.__cause__) if cause for arg in cause.args]
    cause = next((cause for cause in causes if isinstance(cause, OSError)), error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the certificate of {site} is not trusted: {cause.verify_message.rstrip('.')}."
    if isinstance(cause, ssl.SSLError):
        return f"could not open an encrypted connection to {site}: {cause.reason or cause}."
    proxies = [
        name for name in os.environ if re.fullmatch("(https?|all)_proxy", name.lower()) and os.environ[name]
    ]
    proxy = f" (The proxy in {proxies[0]} is not used.)" if proxies else ""
    return f"could not reach {site}: {getattr(cause, 'strerror', None) or cause}.{proxy}"


def _exchange(url: Url, net: Net, deadline: float) -> tuple[Page, str]:
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
            with closing(response):
                location = response.headers.get("location", "") if response.status_code in _MOVED else ""
                data, cut, broken = (
                    (b"", False, False) if location else _body(response, net.largest, deadline)
                )
                kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
                charset = (response.charset_encoding or "").lower()
                return Page(url, response.status_code, kind, charset, data, cut, broken), location
    raise AssertionError("there is an address")


def _body(response: httpx2.Response, largest: int, deadline: float) -> tuple[bytes, bool, bool]:
    """The decompressed body, whether it has more than `largest` bytes, and whether it ended early."""
    packing = response.headers.get("content-encoding", "").strip().lower()
    if packing not in {"", "identity", "gzip", "deflate"}:
        raise UsageError(f"the response has the encoding {packing[:40]}, which was not requested.")
    body = bytearray()
    try:
        for data in response.iter_bytes():
            body += data
            if len(body) > largest or response.num_bytes_downloaded > largest:
                return bytes(body[:largest]), True, False
            if time.monotonic() > deadline:
                raise TimeoutError
    except (httpx2.RemoteProtocolError, httpx2.ReadError) as error:
        if not body:
            raise UsageError("the response ended early.") from error
        return bytes(body), False, True
    return bytes(body), False, False


EXTRACT_SECONDS = 30.0
LARGEST_TEXT = 1 << 22  # bytes of an extracted text
_HTML = {"text/html", "application/xhtml+xml"}
_TEXT = re.compile(
    r"text/.+|application/(.+\+)?(json|xml|yaml|toml)|application/(x-)?(javascript|ecmascript|sh|yaml|toml|ndjson|sql)"
    r"|application/(json5|jsonlines|ld-json|graphql|x-sh|x-tex|x-python)|message/.+|.+\+xml"
)
# Only these codecs are used: some others of Python are very slow on a long text, or do not decode text.
_CODECS = re.compile(
    r"utf-?8|utf-?16(-?[bl]e)?|utf-?32(-?[bl]e)?|(us-)?ascii|iso-?8859-?\d+|latin-?\d+|windows-?\d{3,4}|cp\d{3,4}"
    r"|koi8-?[rtu]|gb2312|gbk|gb18030|big5(-?hkscs)?|euc-?(jp|kr)|shift[-_]?jis|iso-2022-(jp|kr)|mac-?[a-z]+|tis-?620"
)
_META = re.compile(rb"<meta[^<>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_-]{1,30})", re.IGNORECASE)
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}

Wrap = Callable[[Sequence[str]], list[str]]


def _is_html(page: Page) -> bool:
    """Whether it is HTML, by its type, or by its beginning if it has none."""
    start = page.data[:1024].lstrip().lower()
    return page.kind in _HTML or (not page.kind and start.startswith((b"<!doctype html", b"<html")))


def _readable(page: Page, wrap: Wrap) -> str:
    """The text of `page`; `wrap` puts the HTML parser into a sandbox. Raises UsageError if it is not text."""
    text = decoded(page)
    if _is_html(page):
        return _of_html(text, str(page.url), wrap)
    if page.kind and not _TEXT.fullmatch(page.kind):
        is_named = re.fullmatch(r"[\w.+-]{1,40}/[\w.+-]{1,80}", page.kind)
        kind = f"type {page.kind}" if is_named else "an unknown type"
        raise UsageError(f"{page.url} is of {kind}; only pages and text are fetched.")
    if "\0" in text[:8192]:
        raise UsageError(f"{page.url} is binary; only pages and text are fetched.")
    return text


def decoded(page: Page) -> str:
    """Decode `page` by its byte order mark, header or meta element; as UTF-8 by default."""
    data = page.data
    meta = _META.search(data[:4096]) if _is_html(page) else None
    names = [codec for mark, codec in _MARKS.items() if data.startswith(mark)]
    names += [page.charset, meta[1].decode("ascii") if meta else ""]
    for name in names:
        if name in _MARKS.values() or _CODECS.fullmatch(name.lower()):
            with suppress(LookupError):  # an unknown encoding with a valid name
                return data.decode(name, "replace")
    return data.decode("utf-8", "replace")


def _of_html(html: str, url: str, wrap: Wrap) -> str:
    """Extract the text in a separate process, with limits on its time, memory and output."""
    text = (files("repoagent.agent") / "web_extract.py").read_text(encoding="utf-8")
    failure = f"could not extract the text of {url}: it took too long, or the page is not HTML."
    with start_program(
        wrap([sys.executable, "-I", "-c", text, url]), lambda why: UsageError(failure), cwd=".",
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}, stdin=html.encode("utf-8", "replace"),
        stderr=subprocess.PIPE, seconds=EXTRACT_SECONDS, most=LARGEST_TEXT,
    ) as program:  # fmt: skip
        output = b"".join(program.output(silence=0.0))
        code = program.process.wait()
    if code == 0 and not program.ended:
        return output.decode("utf-8", "replace")
    if re.search(b"ImportError|ModuleNotFoundError", program.errors):
        raise UsageError("cannot read HTML pages: reinstall repoagent with its `browse` extra.")
    raise UsageError(failure)


_ERROR_TEXT = 2_000  # characters of the text of a page with an error status


@dataclass(frozen=True)
class Browser:
    """Settings for fetching pages. wrap: puts the HTML parser into a sandbox. audit: records each page. seconds_left:
    the time left for the run, None without a limit."""

    gate: Gate
    net: Net = field(default_factory=Net)
    wrap: Wrap = list
    audit: Callable[[Mapping[str, object]], None] = lambda event: None
    seconds_left: Callable[[], float | None] = lambda: None

    def tool(self) -> Tool:
        """The tool `browse`."""
        text = (
            '<browse url="https://HOST/PATH"/> fetches a public page and shows its text (HTML as Markdown). It '
            "sends nothing but the URL."
        )
        perform = failing("browse", self._perform, prefix="Nothing was fetched: ")
        return Tool("browse", text, perform, needs="nothing")

    def _perform(self, action: Action) -> Observation:
        check_arguments(action, ("url",))
        url = read_url(action.args.get("url") or action.body)
        by = self._require_approval(url)
        began = time.monotonic()
        net, remaining = self.net, self.seconds_left()
        if remaining is not None:
            net = replace(net, seconds=max(0.1, min(net.seconds, remaining)))
        event = {"kind": "browse", "url": str(url), "by": by}
        try:
            page = fetch(url, net, self._follow)
            text = _readable(page, self.wrap) if page.ok else ""
        except UsageError as error:
            self.audit({**event, "failed": str(error)})
            raise
        seconds = round(time.monotonic() - began, 3)
        facts = {"status": page.status, "bytes": len(page.data)}
        self.audit({**event, "at": str(page.url), **facts, "seconds": seconds})
        if not page.ok and not _is_html(page):
            with suppress(UsageError):  # for example an image: only the status matters
                text = _readable(page, self.wrap)[:_ERROR_TEXT]
        sentences = [f"Redirected to {page.url}."] if page.url != url else []
        if not page.ok:
            name = http.client.responses.get(page.status, "")
            sentences.append(f"The status was {f'{page.status} {name}'.strip()}.")
        if page.cut:
            sentences.append(f"Only the first {LARGEST >> 20} MB were read.")
        if page.broken:
            sentences.append("The response ended early.")
        if text.strip():
            sentences.append(fence(text.replace("\r\n", "\n"), f'page url="{page.url}"'))
        elif page.ok:
            sentences.append("The page has no text.")
        data = {"url": str(page.url), "kind": page.kind, **facts}
        return Observation("browse", "\n".join(sentences), ok=page.ok, data=data)

    def _require_approval(self, url: Url, why: str = "") -> str:
        """Return who approved it, for the audit. Raises UsageError if it is refused."""
        if mask(str(url)) != str(url):
            raise UsageError("URLs with a key or token are not fetched.")
        digits = url.host.strip("[]")
        if ip_address(digits) is not None and not self.net.may(digits):
            raise not_public(url, digits)
        notes = [why]
        if url.scheme == "http":
            notes.append("the connection is not encrypted: others can read the page and change it")
        if url.port != PORTS[url.scheme]:
            notes.append(f"port {url.port} is not the standard one")
        patterns = (f"browse:{url.site}/*",)
        verdict = self.gate.decide(
            ApprovalRequest("browse", str(url), patterns, why="; ".join(filter(None, notes)))
        )
        if not verdict.allowed:
            raise UsageError(verdict.reason)
        return verdict.by

    def _follow(self, old: Url, new: Url) -> None:
        """Raise UsageError for a refused redirect; another host needs its own approval."""
        if new.host != old.host or new.port not in {old.port, PORTS[new.scheme]}:
            self._require_approval(new, f"{old.site} redirects there")
            return
        for rule in self.gate.deny:
            if rule.names("browse", str(new)):
                raise UsageError(
                    f"{old.site} redirects to {new}, and the user's rule `{rule.pattern}` denies that."
                )
