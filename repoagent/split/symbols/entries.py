"""What an entry of a list, or a document of several in a file, is called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from repoagent.split.symbols.names import clean

if TYPE_CHECKING:
    import tree_sitter

# The keys that call an entry by its name, the best one first.
_TITLES = (b"name", b"id", b"key", b"title", b"alert", b"record", b"job_name", b"slug", b"path", b"label")
_WORDS = b"|".join(_TITLES)
_JSON_TITLE = re.compile(rb'"(' + _WORDS + rb')"\s*:\s*("(?:[^"\\\n]|\\.)*"|\d+)')
_YAML_TITLE = re.compile(
    rb"[\"']?(" + _WORDS + rb")[\"']?[ \t]*:[ \t]+(\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'{}\[\]|>&*,#][^\n,}]*)"
)
_JSON_PAIR = re.compile(rb'[{\s]*("(?:[^"\\\n]|\\.)*"\s*:\s*(?:"(?:[^"\\\n]|\\.){0,80}"?|[^\s{\[,}"]+))')
_REACH = 400  # bytes from the begin of an entry in which its name is looked for
_WITHIN = 6  # lines of a YAML entry
_KIND = re.compile(rb"^kind:[ \t]*([\w.-]+)", re.MULTILINE)
_META = re.compile(rb"^metadata:[ \t]*\r?\n((?:[ \t]+[^\n]*\n?)+)", re.MULTILINE)
_META_NAME = re.compile(rb"^[ \t]+name:[ \t]*[\"']?([^\s\"'#]+)", re.MULTILINE)
_TOP_NAME = re.compile(rb"^(?:name|id|key|title):[ \t]+[\"']?([^\n\"'#]+)", re.MULTILINE)


def entry_title(node: tree_sitter.Node, text: bytes, language: str) -> str:
    """The name of a list entry that is a mapping, "" if it has none: `{"name": "x", …}`, `- id: x`. It stands before
    anything nested; read from the text: of ten thousand entries, the tree is too slow to ask."""
    start = node.start_byte
    flow = text[start : start + 1] == b"{"
    if language == "json" or flow:
        return _flow_title(text, start, node.end_byte, _JSON_TITLE if language == "json" else _YAML_TITLE)
    return yaml_title(text[start : min(node.end_byte, start + _REACH)], node.start_point[1])


def _flow_title(text: bytes, start: int, end: int, pattern: re.Pattern[bytes]) -> str:
    if text[start : start + 1] != b"{":
        return ""
    stop = min(end, start + _REACH)
    nested = text.find(b"{", start + 1, stop)
    return _best({m[1]: m[2] for m in pattern.finditer(text, start, nested if nested > 0 else stop)})


def flow_title(text: bytes, start: int, end: int) -> str:
    """The name in an object whose keys need no quotes: `{id: "x", …}`."""
    return _flow_title(text, start, end, _YAML_TITLE)


def yaml_title(written: bytes, column: int) -> str:
    """The name in the first lines of a YAML list entry, `written` from its dash, which stands in `column`."""
    dash = written[: len(written) - len(written.lstrip(b"- \t"))]
    if written[len(dash) : len(dash) + 1] == b"{":
        return _flow_title(written, len(dash), len(written), _YAML_TITLE)
    if b"\n" in dash:
        dash = dash[dash.rfind(b"\n") + 1 :]
        column = 0
    found: dict[bytes, bytes] = {}
    inside = column + len(dash)
    for number, line in enumerate(written.split(b"\n")[:_WITHIN]):
        bare = line.lstrip(b"- \t") if number == 0 else line.lstrip(b" ")
        if number and len(line) - len(bare) != inside:
            continue
        if match := _YAML_TITLE.match(bare):
            found.setdefault(match[1], match[2])
    return _best(found)


def _best(found: dict[bytes, bytes]) -> str:
    for name in _TITLES:
        value = found.get(name, b"").strip()
        if value[:1] in (b'"', b"'") and value[-1:] == value[:1]:
            value = value[1:-1]
        else:
            value = value.split(b" #", 1)[0].rstrip()
        if value:
            return clean(value, 80)
    return ""


def first_pair(node: tree_sitter.Node, text: bytes, name: str, titled: bool) -> str:
    """How a list entry begins: its line in YAML; its name in JSON, with what it holds first where that is a place."""
    start = node.start_byte
    if text[start : start + 1] == b"{":
        pair = None if titled else _JSON_PAIR.match(text, start + 1, min(node.end_byte, start + _REACH))
        return f"{name} {clean(pair[1], 80)}" if pair else name
    stop = text.find(b"\n", start, start + _REACH)
    return clean(text[start : min(node.end_byte, start + _REACH if stop < 0 else stop)], 120).rstrip("{[, ")


def document_title(text: bytes, place: int) -> str:
    """What one of several YAML documents is called: `Deployment/web` after its kind and the name in its metadata, else
    by its name, else by its place."""
    kind, meta = _KIND.search(text), _META.search(text)
    named = _META_NAME.search(meta[1]) if meta else None
    if kind and named:
        return f"{clean(kind[1], 60)}/{clean(named[1], 80)}"
    top = _TOP_NAME.search(text)
    return clean(top[1], 80) if top else f"[{place}]"
