"""Addresses of pages: read strictly, and written in one way, so that what is asked, allowed and fetched is the same."""

from __future__ import annotations

import re
from urllib.parse import quote, urljoin, urlsplit

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError

LONGEST = 2_000  # characters
PORTS = {"http": 80, "https": 443}
_LOWEST = 1024  # of ports that may be asked for beside the usual ones: below are mail, files, shells
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\.?|\[[0-9a-f:.]+\]")
_SAFE = "!$&'()*+,;=:@/?-._~%"  # what stands for itself in a path or a query; a quotation mark does not


@dataclass(frozen=True)
class Url:
    """A page's address. host: in lower case, in the letters of DNS. target: path and query, as they are sent."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def site(self) -> str:
        """All that stands before the path."""
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
        raise UsageError(f"the address is longer than {LONGEST} characters.")
    if not text or re.search(r'[\x00-\x20\x7f-\x9f\\<>"^`{}|]', text):
        raise UsageError("that is no address of a page: say https://HOST/PATH, with %20 for a space.")
    try:
        parts = urlsplit(urljoin(str(base), text) if base else text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise UsageError(f"that is no address of a page: {error}.") from error
    if parts.scheme not in PORTS:
        raise UsageError(
            f"only pages of https:// and http:// are fetched, not of {parts.scheme or 'nothing'}:"
        )
    if "@" in parts.netloc:
        raise UsageError("an address with a user name in it is not fetched.")
    port = PORTS[parts.scheme] if port is None else port
    if port not in PORTS.values() and port < _LOWEST:
        raise UsageError(f"port {port} is not one of web pages.")
    target = quote(parts.path or "/", safe=_SAFE) + (
        f"?{quote(parts.query, safe=_SAFE)}" if parts.query else ""
    )
    return Url(parts.scheme, _host(host), port, target)


def _host(name: str) -> str:
    try:
        host = name.lower() if name.isascii() else name.encode("idna").decode("ascii").lower()
    except UnicodeError as error:
        raise UsageError("the host of that address is no name.") from error
    host = f"[{host}]" if ":" in host else host
    if len(host) > 253 or ".." in host or not _HOST.fullmatch(host):
        raise UsageError("the host of that address is no name.")
    return host.removesuffix(".")
