"""The text of a page: of HTML what a person would read, of other text all of it, of anything else nothing."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from importlib.resources import files

from repoagent.agent.browse.fetch import LARGEST, Page
from repoagent.errors import UsageError

SECONDS = 30.0  # on the clock, to find the text of a page
_HTML = {"text/html", "application/xhtml+xml"}
_TEXT = re.compile(
    r"text/.+|application/(.+\+)?(json|xml|yaml|toml)|application/(x-)?(javascript|ecmascript|sh|yaml|toml|ndjson|sql)"
    r"|application/(json5|jsonlines|ld-json|graphql|x-sh|x-tex|x-python)|message/.+|.+\+xml"
)
# Characters are read in these alone: some of Python's other codecs take ages on a long text, or are none.
_CODECS = re.compile(
    r"utf-?8|utf-?16(-?[bl]e)?|utf-?32(-?[bl]e)?|(us-)?ascii|iso-?8859-?\d+|latin-?\d+|windows-?\d{3,4}|cp\d{3,4}"
    r"|koi8-?[rtu]|gb2312|gbk|gb18030|big5(-?hkscs)?|euc-?(jp|kr)|shift[-_]?jis|iso-2022-(jp|kr)|mac-?[a-z]+|tis-?620"
)
_META = re.compile(rb"<meta[^<>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_-]{1,30})", re.IGNORECASE)
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}

Wrap = Callable[[Sequence[str]], list[str]]


def is_html(page: Page) -> bool:
    """Whether it is HTML; of a page that does not say, by how it begins."""
    start = page.data[:1024].lstrip().lower()
    return page.kind in _HTML or (not page.kind and start.startswith((b"<!doctype html", b"<html")))


def readable(page: Page, wrap: Wrap) -> str:
    """The text of `page`; `wrap` puts the program that reads HTML into a sandbox. UsageError: it has none."""
    if is_html(page):
        return _of_html(decoded(page), str(page.url), wrap)
    if page.kind and not _TEXT.fullmatch(page.kind):
        raise UsageError(f"{page.url} is {_shown(page.kind)}: only pages and text are fetched.")
    text = decoded(page)
    if "\0" in text[:8192]:
        raise UsageError(f"{page.url} is binary: only pages and text are fetched.")
    return text


def decoded(page: Page) -> str:
    """The characters of `page`, as its first bytes, its header or its own words tell; else as UTF-8."""
    data = page.data
    for mark, codec in _MARKS.items():
        if data.startswith(mark):
            return data.decode(codec, "replace")
    names = [page.charset]
    if is_html(page) and (match := _META.search(data[:4096])):
        names.append(match[1].decode("ascii"))
    for name in names:
        if _CODECS.fullmatch(name.lower()):
            try:
                return data.decode(name, "replace")
            except LookupError:  # a name of the right form that Python does not know
                continue
    return data.decode("utf-8", "replace")


def _of_html(html: str, url: str, wrap: Wrap) -> str:
    text = (files("repoagent.agent.browse") / "extract.py").read_text(encoding="utf-8")
    with tempfile.TemporaryFile() as page, tempfile.TemporaryFile() as errors:
        page.write(html.encode("utf-8", "replace"))
        page.seek(0)
        process = subprocess.Popen(
            wrap([sys.executable, "-I", "-c", text, url]),
            stdin=page,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            start_new_session=True,
        )
        late = threading.Timer(SECONDS, process.kill)
        late.start()
        try:
            with process:
                found = process.stdout.read(2 * LARGEST) if process.stdout else b""
                if process.stdout and process.stdout.read(1):  # no page has so much to say
                    process.kill()
        finally:
            late.cancel()
            process.kill()
        if process.returncode == 0:
            return found.decode("utf-8", "replace")
        errors.seek(0)
        if b"ImportError" in (said := errors.read(1 << 16)) or b"ModuleNotFoundError" in said:
            raise UsageError("pages in HTML can't be read: install repoagent with its extra `browse` anew.")
    raise UsageError(f"the text of {url} could not be found: it takes too long, or is no HTML.")


def _shown(kind: str) -> str:
    return kind if re.fullmatch(r"[\w.+-]{1,40}/[\w.+-]{1,80}", kind) else "of a kind that is none"
