"""The tool `browse`: fetch a page and show its text; the readable part of HTML."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from importlib.resources import files

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import ApprovalRequest, Gate
from repoagent.agent.state import Tool, check_arguments, failing
from repoagent.agent.web_client import LARGEST, PORTS, Net, Page, Url, fetch, ip_address, not_public, read_url
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.llm.model import fence
from repoagent.storage.secrets import mask

SECONDS = 30.0  # to extract the text of a page
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
        kind = page.kind if is_named else "of an unknown type"
        raise UsageError(f"{page.url} is {kind}; only pages and text are fetched.")
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
    with (
        tempfile.TemporaryFile() as page,
        tempfile.TemporaryFile() as extracted,
        tempfile.TemporaryFile() as errors,
        suppress(subprocess.TimeoutExpired),
    ):
        page.write(html.encode("utf-8", "replace"))
        page.seek(0)
        done = subprocess.run(
            wrap([sys.executable, "-I", "-c", text, url]),
            stdin=page,
            stdout=extracted,
            stderr=errors,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            start_new_session=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode == 0:
            extracted.seek(0)
            return extracted.read().decode("utf-8", "replace")
        errors.seek(0)
        if re.search(b"ImportError|ModuleNotFoundError", errors.read(1 << 16)):
            raise UsageError("cannot read HTML pages: reinstall repoagent with its extra `browse`.")
    raise UsageError(f"could not extract the text of {url}: it takes too long, or is not HTML.")


_ERROR_TEXT = 2_000  # characters of the text of a page with an error status


@dataclass(frozen=True)
class Browser:
    """Settings for fetching pages. wrap: the sandbox of the HTML parser. audit: records each page. seconds_left: of the
    run, None without a limit."""

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
            text = _text(page, self.wrap)
        except UsageError as error:
            self.audit({**event, "failed": str(error)})
            raise
        seconds = round(time.monotonic() - began, 3)
        facts = {"status": page.status, "bytes": len(page.data)}
        self.audit({**event, "at": str(page.url), **facts, "seconds": seconds})
        data = {"url": str(page.url), "kind": page.kind, **facts}
        return Observation("browse", _report(url, page, text), ok=page.ok, data=data)

    def _require_approval(self, url: Url, why: str = "") -> str:
        """Return who approved it, for the audit. Raises UsageError if it is refused."""
        if mask(str(url)) != str(url):
            raise UsageError("the URL contains a key.")
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
            self._require_approval(new, f"{old.site} leads there")
            return
        for rule in self.gate.deny:
            if rule.names("browse", str(new)):
                raise UsageError(
                    f"{old.site} redirects to {new}, and the user's rule `{rule.pattern}` denies that."
                )


def _text(page: Page, wrap: Wrap) -> str:
    if page.ok:
        return _readable(page, wrap)
    with suppress(UsageError):  # for example an image: only the status matters
        return "" if _is_html(page) else _readable(page, wrap)[:_ERROR_TEXT]
    return ""


def _report(requested: Url, page: Page, text: str) -> str:
    status = f"{page.status} {http.client.responses.get(page.status, '')}".strip()
    sentences = []
    if page.url != requested:
        sentences.append(f"Redirected to {page.url}.")
    if not page.ok:
        sentences.append(f"The status was {status}.")
    if page.cut:
        sentences.append(f"Only the first {LARGEST >> 20} MB were read.")
    if page.broken:
        sentences.append("The response ended early.")
    if text.strip():
        sentences.append(fence(text.replace("\r\n", "\n"), f'page url="{page.url}"'))
    elif page.ok:
        sentences.append("The page has no text.")
    return "\n".join(sentences)
