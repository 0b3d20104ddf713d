"""Text that goes into a prompt as data, and what a reply holds beside its answer."""

from __future__ import annotations

import re
from hashlib import sha256

_THOUGHT = re.compile(r"\s*<think>.*?</think>", re.DOTALL)


def fence(content: str, label: str = "content") -> str:
    """Quote `content` for a prompt under `label`, a tag's name and arguments (`file path="a.py"`).

    The closing line can't occur in the content: where that holds such a tag, both tags have an id. The same content is
    always quoted the same way, for caching.
    """
    label = re.sub(r"[\x00-\x1f\x7f<>]", "?", label).strip() or "content"
    name = label.split()[0]
    mark = f' id="{absent(content)}"' if holds_tag(name, content) else ""
    end = "" if content.endswith("\n") or not content else "\n"
    return f"<{label}{mark}>\n{content}{end}</{name}{mark}>"


def unfenced(text: str, name: str = "output") -> str:
    """`text` without the lines that begin and end what `fence` has quoted in it."""
    return re.sub(rf"^</?{re.escape(name)}(?: [^>\n]*)?>\n?", "", text, flags=re.MULTILINE)


def holds_tag(name: str, content: str) -> bool:
    """Whether something in `content` might pass for the beginning or the end of a tag `name`."""
    return re.search(rf"<\s*/?\s*{re.escape(name)}", content, re.IGNORECASE) is not None


def absent(content: str) -> str:
    """A short hash of `content` that does not occur in it."""
    digest = sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
    size = 6
    while digest[:size] in content and size < len(digest):
        size += 2
    return digest[:size]


def printable(text: str) -> str:
    """`text` with U+FFFD for each control character but newlines and tabs."""
    return "".join(c if c in "\n\t" or c.isprintable() else "�" for c in text)


def without_thought(reply: str) -> str:
    """A reply without the thinking that some models write out before their answer."""
    return _THOUGHT.sub("", reply, count=1)
