"""The `browse` tool: fetch a page and return its text. For HTML, this is the readable part."""

from __future__ import annotations

import codecs
import http.client
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from importlib.resources import files

from repoagent.agent import web_fetch
from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import ApprovalRequest, Gate
from repoagent.agent.state import Tool, check_arguments, report_usage_errors
from repoagent.agent.web_fetch import Network, Url, WebPage
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.git.process import start_program
from repoagent.llm.model import fence
from repoagent.storage.secrets import mask

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
_ERROR_TEXT = 2_000  # characters of the text of a page with an error status

Wrap = Callable[[Sequence[str]], list[str]]


def readable(page: WebPage, wrap: Wrap) -> str:
    """Return the text of `page`. Raises UsageError if the page is not text. `wrap` turns the HTML parser's command
    line into one that runs it in a sandbox."""
    try:
        codec = codecs.lookup(page.charset).name if _CODECS.fullmatch(page.charset) else ""
    except LookupError:  # an unknown encoding with a valid name
        codec = ""
    start = page.data[:1024].lstrip().lower()
    looks_like_html = not page.kind and start.startswith((b"<!doctype html", b"<html"))
    if page.kind not in _HTML and not looks_like_html:
        if page.kind and not _TEXT.fullmatch(page.kind):
            is_named = re.fullmatch(r"[\w.+-]{1,40}/[\w.+-]{1,80}", page.kind)
            kind = f"type {page.kind}" if is_named else "an unknown type"
            raise UsageError(f"{page.url} is of {kind}; only pages and text are fetched.")
        text = page.data.decode(codec or "utf-8", "replace").removeprefix("\ufeff")
        if "\0" in text[:8192]:
            raise UsageError(f"{page.url} is binary; only pages and text are fetched.")
        return text

    # in a separate process, with limits on its time, memory and output; it finds the encoding if `codec` is empty
    source = (files("repoagent.agent") / "web_extract.py").read_text(encoding="utf-8")
    failure = f"could not extract the text of {page.url}: it took too long, or the page is not HTML."
    with start_program(
        wrap([sys.executable, "-I", "-c", source, str(page.url), codec]), lambda why: UsageError(failure), cwd=".",
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}, stdin=page.data,
        stderr=subprocess.PIPE, seconds=EXTRACT_SECONDS, most=LARGEST_TEXT,
    ) as program:  # fmt: skip
        output = b"".join(program.output(silence=0.0))
        code = program.process.wait()
    if code == 0 and not program.ended:
        return output.decode("utf-8", "replace")
    if re.search(b"ImportError|ModuleNotFoundError", program.errors):
        raise UsageError("cannot read HTML pages: reinstall repoagent with its `browse` extra.")
    raise UsageError(failure)


@dataclass(frozen=True)
class Browser:
    """Fetches pages for the `browse` tool.

    wrap: turns the HTML parser's command line into one that runs it in a sandbox.
    audit: records each page.
    seconds_left: returns the time left for the run; None without a limit.
    """

    gate: Gate
    net: Network = field(default_factory=Network)
    wrap: Wrap = list
    audit: Callable[[Mapping[str, object]], None] = lambda event: None
    seconds_left: Callable[[], float | None] = lambda: None

    def tool(self) -> Tool:
        text = (
            '<browse url="https://HOST/PATH"/> fetches a public page and shows its text (HTML as Markdown). It '
            "sends nothing but the URL."
        )
        perform = report_usage_errors("browse", self._perform, prefix="Nothing was fetched: ")
        return Tool("browse", text, perform, needs="nothing")

    def _perform(self, action: Action) -> Observation:
        check_arguments(action, ("url",))
        url = web_fetch.read_url(action.args.get("url") or action.body)
        by = self._require_approval(url)
        began = time.monotonic()
        net, remaining = self.net, self.seconds_left()
        if remaining is not None:
            net = replace(net, seconds=max(0.1, min(net.seconds, remaining)))
        event = {"kind": "browse", "url": str(url), "by": by}
        try:
            page = web_fetch.fetch(url, net, self._follow)
            text = readable(page, self.wrap) if page.ok else ""
        except UsageError as error:
            self.audit({**event, "failed": str(error)})
            raise
        seconds = round(time.monotonic() - began, 3)
        facts = {"status": page.status, "bytes": len(page.data)}
        self.audit({**event, "at": str(page.url), **facts, "seconds": seconds})
        if not page.ok and page.kind not in _HTML:
            with suppress(UsageError):  # for example an image: only the status matters
                text = readable(page, self.wrap)[:_ERROR_TEXT]
        sentences = [f"Redirected to {page.url}."] if page.url != url else []
        if not page.ok:
            name = http.client.responses.get(page.status, "")
            sentences.append(f"The status was {f'{page.status} {name}'.strip()}.")
        if page.cut:
            sentences.append(f"Only the first {web_fetch.LARGEST >> 20} MB were read.")
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
        if web_fetch.ip_address(digits) is not None and not self.net.may(digits):
            raise web_fetch.not_public(url, digits)
        notes = [why]
        if url.scheme == "http":
            notes.append("the connection is not encrypted: others can read the page and change it")
        if url.port != web_fetch.PORTS[url.scheme]:
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
        if new.host != old.host or new.port not in {old.port, web_fetch.PORTS[new.scheme]}:
            self._require_approval(new, f"{old.site} redirects there")
            return
        for rule in self.gate.deny:
            if rule.names("browse", str(new)):
                raise UsageError(
                    f"{old.site} redirects to {new}, and the user's rule `{rule.pattern}` denies that."
                )
