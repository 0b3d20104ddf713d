"""Which file a copy is about: one line between the first line of a conversation file and its first turn.

    about: "src/app.py"

The format knows no such line: what stands before the first turn is text, and every reader of conversations passes it.
"""

from __future__ import annotations

import json
import re

from repoagent.llm.conversation import starts

_REACH = 4_000  # characters in which the line begins: it stands behind the first one
_LINE = re.compile(r'(?m)^about: (".*")[ \t]*\r?\n(?:\r?\n)?')


def head_of(text: str) -> str:
    """What stands before the first turn. Raises as `llm.conversation.loads`."""
    return text[: next(iter(starts(text)), len(text))]


def about_of(text: str) -> str:
    """The path of the file that the conversation in `text` is about; "" where it does not say. Raises as
    `llm.conversation.loads`."""
    if '\nabout: "' not in text[:_REACH]:  # most have none, and finding the first turn takes a while
        return ""
    line = _LINE.search(head_of(text))
    try:
        return str(json.loads(line[1])) if line else ""
    except ValueError:
        return ""


def with_about(text: str, path: str) -> str:
    """`text` with the line that says so, in place of the one it had."""
    head = head_of(text)
    title, _, rest = head.partition("\n")
    kept = _LINE.sub("", rest, count=1).lstrip("\n")
    return f"{title}\n\nabout: {json.dumps(path, ensure_ascii=False)}\n\n{kept}{text[len(head) :]}"
