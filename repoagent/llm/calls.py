"""A call of a native tool, as the text of a reply has it: a tag on a line of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from repoagent.llm.model import Schema
from repoagent.llm.seam import open_fence


def written(text: str, tools: Sequence[Schema], name: str, arguments: object) -> tuple[str, str]:
    """The tag of a call, and what it adds to the `text` of the reply before it: a code fence that is open is closed, or
    the tag would be quoted in it. A call of a tool that was not offered is written as one, so it can be corrected."""
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is not None and isinstance(arguments, Mapping):
        tag = tool.tag(arguments)
    else:
        called: dict[str, Any] = {"name": name, "arguments": arguments}
        tag = f"<tool_call>{json.dumps(called, ensure_ascii=False)}</tool_call>"
    before = "" if not text or text.endswith("\n") else "\n"
    if opened := open_fence(text):
        before += opened[: len(opened) - len(opened.lstrip(opened[0]))] + "\n"
    return tag, f"{before}{tag}\n"
