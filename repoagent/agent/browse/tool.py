"""The tool `browse`."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approval import Asked, Gate
from repoagent.agent.browse.address import is_address
from repoagent.agent.browse.fetch import LARGEST, Net, Page, fetch, inside
from repoagent.agent.browse.readable import Wrap, is_html, readable
from repoagent.agent.browse.url import PORTS, Url, read_url
from repoagent.agent.tool import Tool
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.llm.quoting import fence
from repoagent.store.masking import mask

_SAID = 2_000  # characters of the text that comes with a failure


def _as_it_is(argv: Sequence[str]) -> list[str]:
    return list(argv)


def _nothing(_: Mapping[str, object]) -> None:
    pass


def _no_limit() -> float | None:
    return None


@dataclass(frozen=True)
class Window:
    """What pages are fetched with. wrap: the sandbox of the program that reads HTML. audit: is told of each page.
    seconds_left: of the run, None without a limit."""

    gate: Gate
    net: Net = field(default_factory=Net)
    wrap: Wrap = _as_it_is
    audit: Callable[[Mapping[str, object]], None] = _nothing
    seconds_left: Callable[[], float | None] = _no_limit


def browse_tool(window: Window) -> Tool:
    """The tool that fetches pages through `window`."""

    def perform(action: Action) -> Observation:
        try:
            return _perform(window, action)
        except UsageError as error:
            return Observation("browse", f"Nothing was fetched: {error}", ok=False)

    text = (
        '<browse url="https://HOST/PATH"/> fetches a public page, and shows its text (HTML as Markdown). '
        "Nothing can be sent but the address."
    )
    return Tool("browse", text, perform, needs="nothing")


def _perform(window: Window, action: Action) -> Observation:
    if unknown := set(action.args) - {"url"}:
        raise UsageError(f"browse has no argument {min(unknown)}: it has url.")
    url = read_url(action.args.get("url") or action.body)
    by = _ask(window.gate, window.net, url)
    began = time.monotonic()
    left = window.seconds_left()
    net = window.net if left is None else _hurried(window.net, left)
    event = {"kind": "browse", "url": str(url), "by": by}
    try:
        page = fetch(url, net, lambda old, new: _follow(window.gate, net, old, new))
        text = _text(page, window.wrap)
    except UsageError as error:
        window.audit({**event, "failed": str(error)})
        raise
    took = round(time.monotonic() - began, 3)
    window.audit(
        {**event, "at": str(page.url), "status": page.status, "bytes": len(page.data), "seconds": took}
    )
    data = {"url": str(page.url), "status": page.status, "kind": page.kind, "bytes": len(page.data)}
    return Observation("browse", _told(url, page, text), ok=_went_well(page), data=data)


def _ask(gate: Gate, net: Net, url: Url, why: str = "") -> str:
    """By whom it is allowed. Raises UsageError when it is not."""
    if mask(str(url)) != str(url):
        raise UsageError("the address holds a key.")
    digits = url.host.strip("[]")
    if is_address(digits) and not net.may(digits):
        raise UsageError(inside(url, digits))
    notes = [why]
    if url.scheme == "http":
        notes.append("it is not encrypted: others can read it, and change what it says")
    if url.port != PORTS[url.scheme]:
        notes.append(f"port {url.port} is not the usual one")
    verdict = gate.decide(
        Asked("browse", str(url), (f"browse:{url.site}/*",), why="; ".join(filter(None, notes)))
    )
    if not verdict.allowed:
        raise UsageError(verdict.reason)
    return verdict.by


def _follow(gate: Gate, net: Net, old: Url, new: Url) -> None:
    """Raise UsageError for a redirection that may not be followed: to another host only when that is allowed too."""
    if new.host != old.host or new.port not in {old.port, PORTS[new.scheme]}:
        _ask(gate, net, new, f"{old.site} leads there")
        return
    for rule in gate.deny:
        if rule.names("browse", str(new)):
            raise UsageError(
                f"{old.site} leads to {new}, and the rule `{rule.pattern}` of the user denies that."
            )


def _hurried(net: Net, left: float) -> Net:
    return replace(net, seconds=max(0.1, min(net.seconds, left)))


def _went_well(page: Page) -> bool:
    return 200 <= page.status < 300


def _text(page: Page, wrap: Wrap) -> str:
    if _went_well(page):
        return readable(page, wrap)
    if is_html(page):
        return ""
    try:
        return readable(page, wrap)[:_SAID]
    except UsageError:  # a picture, say: the status is what counts
        return ""


def _told(asked: Url, page: Page, text: str) -> str:
    status = f"{page.status} {http.client.responses.get(page.status, '')}".strip()
    said = []
    if page.url != asked:
        said.append(f"It led to {page.url}.")
    if not _went_well(page):
        said.append(f"The answer was {status}.")
    if page.cut:
        said.append(f"Only the first {LARGEST >> 20} MB were taken.")
    if page.broken:
        said.append("It broke off before its end.")
    if text.strip():
        said.append(fence(text.replace("\r\n", "\n"), f'page url="{page.url}"'))
    elif _went_well(page):
        said.append("There is no text on this page.")
    return "\n".join(said)
