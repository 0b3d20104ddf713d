"""A program that describes itself, as a tool: the action on its standard input, an observation from what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from repoagent.agent import Action, Observation, Tool, fence
from repoagent.errors import Refused
from repoagent.llm.quoting import printable
from repoagent.store.masking import mask, unmask
from repoagent.work.plugins.descriptions import VERSION, Description
from repoagent.work.programs import Ran, start

Audit = Callable[[Mapping[str, object]], None]


def program_tool(path: Path, description: Description, top: Path, audit: Audit) -> Tool:
    """The tool that `path` is. It runs at `top`, with the person's rights and environment."""
    name = description.name

    def perform(action: Action) -> Observation:
        if problem := _misuse(action, description):
            return Observation(name, problem, ok=False)
        args = {key: unmask(value) for key, value in action.args.items()}
        given = {"version": VERSION, "name": name, "args": args, "body": unmask(action.body), "top": str(top)}
        try:
            ran = start(
                [str(path)],
                top=top,
                stdin=json.dumps(given) + "\n",
                environment={f"ARG_{key.upper().replace('-', '_')}": value for key, value in args.items()},
                timeout=description.timeout,
            )
        except Refused as error:
            return Observation(name, f"{error}.", ok=False)
        audit(
            {
                "kind": "tool",
                "name": name,
                "command": str(path),
                "exit": ran.code,
                "seconds": round(ran.seconds, 3),
            }
        )
        return observed(name, ran)

    return Tool(name, description.prompt, perform)


def observed(name: str, ran: Ran) -> Observation:
    """What a program printed: JSON with `text`, `ok` and `data`, or plain text. A failure tells the errors too."""
    text, ok, data = _answer(ran.output)
    ok = ok and ran.ok
    parts = [fence(mask(printable(text)), f'output tool="{name}"')] if text.strip() else []
    if not ran.ok:
        parts.insert(0, f"{name} {ran.ended or f'failed with exit code {ran.code}'}.")
    if not ok and ran.errors.strip():
        parts.append(fence(mask(printable(ran.errors[-4096:])), f'errors tool="{name}"'))
    return Observation(name, "\n".join(parts) or f"{name} printed nothing.", ok=ok, data=data)


def _answer(output: str) -> tuple[str, bool, dict[str, object]]:
    try:
        record = json.loads(output) if output.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        return output, True, {}
    data = record.get("data")
    return record["text"], record.get("ok", True) is True, data if isinstance(data, dict) else {}


def _misuse(action: Action, description: Description) -> str:
    """What is wrong with the tag, "" for nothing."""
    if description.args is not None and (unknown := sorted(set(action.args) - set(description.args))):
        takes = ", ".join(description.args) or "no arguments"
        return f"{description.name} has no argument {', '.join(unknown)}; it takes {takes}."
    if action.body.strip() and not description.body and not description.text.startswith("<"):
        return f"{description.name} takes no body: {description.prompt}"
    return ""
