"""How an action is written as a tag, so that nothing in its body can end it.

A tag may carry an id, and is then closed by a tag with the same id: `<run id="x7">…</run id="x7">`. Its
body may hold anything but that. What repoagent quotes has an id where the content holds such a tag: it is
made from the content and not contained in it.
"""

from __future__ import annotations

import re

from repoagent.agent.actions import Action
from repoagent.llm.quoting import absent

NAME = re.compile(r"<([a-z][a-z0-9_-]*)(?![\w-])")
OPEN = re.compile(r"""<([a-z][a-z0-9_-]*)((?:\s+[A-Za-z_][\w-]*\s*=\s*(?:"[^"\n]*"|'[^'\n]*'))*)\s*(/?)>""")
_ARG = re.compile(r"""([A-Za-z_][\w-]*)\s*=\s*(?:"([^"\n]*)"|'([^'\n]*)')""")
_FENCE_LINE = re.compile(r"^[ \t>]*(?:`{3,}|~{3,})", re.MULTILINE)
_ESCAPED = {"&": "&amp;", '"': "&quot;", "\n": "&#10;", "<": "&lt;", ">": "&gt;"}
_PLAIN = {escaped: plain for plain, escaped in _ESCAPED.items()}


def render(action: Action) -> str:
    """The tag that `parse` reads back as `action`; the body of an `edit`. No argument may be named `id`."""
    if action.kind == "edit":
        return action.body
    args = "".join(f' {key}="{_escape(value)}"' for key, value in action.args.items())
    if not action.body:
        return f"<{action.kind}{args}/>"
    mark = f' id="{absent(action.body)}"' if needs_id(action.kind, action.body) else ""
    gap = "\n" if "\n" in action.body else ""
    return f"<{action.kind}{args}{mark}>{gap}{action.body}</{action.kind}{mark}>"


def arguments(text: str) -> dict[str, str] | None:
    """The arguments of a tag, or None when one is given twice."""
    args: dict[str, str] = {}
    for key, double, single in _ARG.findall(text):
        if key in args:
            return None
        args[key] = re.sub("|".join(_PLAIN), lambda match: _PLAIN[match[0]], double or single)
    return args


def closing(name: str, mark: str | None) -> re.Pattern[str]:
    """What closes the tag `name` with the id `mark`."""
    if mark is None:
        return re.compile(rf"</{name}\s*>")
    return re.compile(rf"""</{name}\s+id\s*=\s*["']{re.escape(mark)}["']\s*>""")


def balanced(body: str) -> bool:
    """Whether every code fence and backtick in `body` has its partner, so that its end is not inside code."""
    return len(_FENCE_LINE.findall(body)) % 2 == 0 and body.count("`") % 2 == 0


def needs_id(name: str, body: str) -> bool:
    """Whether `body` might be cut, or read as something else, without an id."""
    return "</" in body or re.search(rf"<{name}(?![\w-])", body) is not None or not balanced(body)


def _escape(value: str) -> str:
    return "".join(_ESCAPED.get(char, char) for char in value)
