"""Actions and observations, and how to write an action as a tag that no text in its body can close.

A tag may have an id, and is then closed by a tag with the same id: `<run id="x7">…</run id="x7">`. Its body may contain
anything else. Text that repoagent quotes gets an id if it needs one, derived from the content and not contained in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from repoagent.dataclass import dataclass
from repoagent.errors import RepoagentError
from repoagent.llm.model import unused_marker


@dataclass(frozen=True)
class Action:
    """An action that a model requests.

    kind: the name of the tool.
    body: the text of the action; for an edit, the reply without its tags.
    """

    kind: str
    args: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


@dataclass(frozen=True)
class Observation:
    """The result of one action.

    ok: if False, later actions of the same reply that need this one (see `Tool.needs`) are skipped.
    final: whether the run ends if the reply requests nothing else.
    data: JSON values for the `--json` output.
    error: the exception to raise if this kind of action fails too often in a row.
    blocks: whether a failure also skips later actions that may write; False for a command that ran and failed.
    once: text that is appended only to the last observation of its kind in a reply.
    shown: the text about a failure for the user, if it differs from `text`, which is for the model; "" for none.
    attached: an image or PDF, as returned by `llm.media.Attachments.keep`.
    """

    kind: str
    text: str
    ok: bool = True
    final: bool = False
    data: Mapping[str, object] = field(default_factory=dict)
    error: RepoagentError | None = field(default=None, compare=False)
    blocks: bool = True
    once: str = ""
    attached: str = ""
    shown: str | None = None


NAME = re.compile(r"<([a-z][a-z0-9_-]*)(?![\w-])")
OPEN = re.compile(r"""<([a-z][a-z0-9_-]*)((?:\s+[A-Za-z_][\w-]*\s*=\s*(?:"[^"\n]*"|'[^'\n]*'))*)\s*(/?)>""")
_ARG = re.compile(r"""([A-Za-z_][\w-]*)\s*=\s*(?:"([^"\n]*)"|'([^'\n]*)')""")
_FENCE_LINE = re.compile(r"^[ \t>]*(?:`{3,}|~{3,})", re.MULTILINE)
_ESCAPED = {"&": "&amp;", '"': "&quot;", "\n": "&#10;", "<": "&lt;", ">": "&gt;"}
_PLAIN = {escaped: plain for plain, escaped in _ESCAPED.items()}


def render_action(action: Action) -> str:
    """The text that `parse_reply` turns back into `action`: a tag or, for an `edit`, just its body. No argument may be
    named `id`."""
    if action.kind == "edit":
        return action.body
    escaped = str.maketrans(_ESCAPED)
    args = "".join(f' {key}="{value.translate(escaped)}"' for key, value in action.args.items())
    if not action.body:
        return f"<{action.kind}{args}/>"
    # whether the body could end early or be misread without an id
    is_unclear = "</" in action.body or re.search(rf"<{action.kind}(?![\w-])", action.body) is not None
    mark = ""
    if is_unclear or not quotes_are_closed(action.body):
        mark = f' id="{unused_marker(action.body)}"'
    gap = "\n" if "\n" in action.body else ""
    return f"<{action.kind}{args}{mark}>{gap}{action.body}</{action.kind}{mark}>"


def parse_arguments(text: str) -> dict[str, str] | None:
    """The arguments of a tag; None if one occurs twice."""
    args: dict[str, str] = {}
    for key, double, single in _ARG.findall(text):
        if key in args:
            return None
        args[key] = re.sub("|".join(_PLAIN), lambda match: _PLAIN[match[0]], double or single)
    return args


def closing_tag_pattern(name: str, mark: str | None) -> re.Pattern[str]:
    """The pattern of the closing tag for `name`, with the id `mark` unless it is None."""
    if mark is None:
        return re.compile(rf"</{name}\s*>")
    return re.compile(rf"""</{name}\s+id\s*=\s*["']{re.escape(mark)}["']\s*>""")


def quotes_are_closed(body: str) -> bool:
    """Whether every code fence and backtick in `body` is closed, so that the end of `body` is not inside code."""
    return len(_FENCE_LINE.findall(body)) % 2 == 0 and body.count("`") % 2 == 0
