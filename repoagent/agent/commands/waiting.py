"""Commands in the background: wait for one, show what it printed since, end it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from repoagent.agent.actions import Action, Observation
from repoagent.agent.commands import ports
from repoagent.agent.commands.running import Command
from repoagent.agent.commands.screen import drawn
from repoagent.agent.commands.shop import Shop
from repoagent.agent.commands.shown import show
from repoagent.agent.tool import Tool
from repoagent.errors import UsageError
from repoagent.llm.quoting import fence

SECONDS = 30.0  # that are waited by itself
LONGEST = 600.0
_LINE = 500  # characters of a line in which a pattern is looked for
_PATTERN = 200
_POLL = 0.05
# A pattern with these can take for ever on one line.
_COSTLY = re.compile(r"\)[*+{]|\\[1-9]|\(\?[<!=P]")


def wait_tool(shop: Shop) -> Tool:
    def perform(action: Action) -> Observation:
        try:
            return _wait(shop, action.args)
        except UsageError as error:
            return Observation("wait", str(error), ok=False)

    text = (
        '<wait command="b1" seconds="30"/> waits for a background command: until it ends, prints a line for="REGEX" '
        'or listens at port="8000".'
    )
    return Tool("wait", text, perform, needs="nothing")


def kill_tool(shop: Shop) -> Tool:
    def perform(action: Action) -> Observation:
        try:
            name, command = _named(shop, action)
        except UsageError as error:
            return Observation("kill", str(error), ok=False, blocks=False)
        if not command.has_ended():
            command.end("ended by you")
        return Observation("kill", *_state(shop, name, command))

    return Tool("kill", '<kill command="b1"/> ends a background command.', perform)


def _wait(shop: Shop, args: Mapping[str, str]) -> Observation:
    if unknown := set(args) - {"command", "for", "port", "seconds"}:
        raise UsageError(f"wait has no argument {min(unknown)}: it has command, for, port and seconds.")
    name, command = _named(shop, Action("wait", args))
    seconds = _number(args.get("seconds", ""), "seconds", LONGEST) or SECONDS
    left = shop.seconds_left()
    seconds = seconds if left is None else max(0.1, min(seconds, left))
    port = int(_number(args.get("port", ""), "port", 65535) or 0)
    wanted = args.get("for", "")
    seen = _line_watch(command.file, wanted) if wanted else None
    deadline = time.monotonic() + seconds
    while True:
        ended = command.has_ended()
        if (seen and seen()) or (port and not ended and ports.listens(command.process.pid, port)):
            return Observation("wait", *_state(shop, name, command, met=True))
        if ended:
            return Observation("wait", *_state(shop, name, command, missed=bool(wanted or port)))
        if time.monotonic() >= deadline:
            missed = bool(wanted or port)
            return Observation("wait", *_state(shop, name, command, missed=missed, waited=seconds))
        command.wait(min(_POLL * (4 if port else 1), max(0.0, deadline - time.monotonic())))


def _state(
    shop: Shop, name: str, command: Command, *, met: bool = False, missed: bool = False, waited: float = 0.0
) -> tuple[str, bool, bool, dict[str, object]]:
    """What an observation says of a background command: what it printed since, and how it stands."""
    shown = show(command.file, shop.shown_as(command.file), shop.budget, command.shown)
    command.shown = shown.until
    ended = command.has_ended()
    changed = ""
    head = f"{name} has ended: {command.how()}" if ended else f"{name} runs"
    if met:
        head = f"It is there. {head}"
    elif missed:
        head = f"It did not come{f' within {waited:g} s' if waited else ''}. {head}"
    if ended and name not in shop.told:
        shop.told.add(name)
        shop.audit({**command.record(), "background": name})
        changed = shop.look_before(command.job)()
    output = fence(shown.text, "output") if shown.text else "Nothing new was printed."
    good = met or (not missed and (not ended or command.exit == 0 or command.stopped == "ended by you"))
    data: dict[str, object] = {
        "background": name,
        "state": "ended" if ended else "runs",
        "exit": command.exit,
        "output": shop.shown_as(command.file),
    }
    return "\n".join(filter(None, [head, output, changed, shop.explain(shown.text)])), good, False, data


def _named(shop: Shop, action: Action) -> tuple[str, Command]:
    """The background command that is meant; the only one that runs, when none is named. Raises UsageError."""
    name = (action.args.get("command", "") or action.body).strip()
    running = [name for name, command in shop.background.items() if not command.has_ended()]
    if not name and len(running) == 1:
        name = running[0]
    if name in shop.background:
        return name, shop.background[name]
    if name and re.fullmatch(r"b\d+", name) and (file := shop.earlier(name)):
        raise UsageError(
            f"{name} ended with the run that started it; what it printed is in {shop.shown_as(file)}."
        )
    there = f"these run: {', '.join(running)}" if running else "none runs"
    if name:
        raise UsageError(f"there is no background command {name}: {there}.")
    raise UsageError(f'say which command is meant, with command="b1": {there}.')


def _number(text: str, name: str, most: float) -> float:
    """A number above 0; 0 when it is not given. Raises UsageError."""
    text = text.strip()
    if not text:
        return 0.0
    if not re.fullmatch(r"\d{1,6}(\.\d+)?", text) or not 0 < float(text) <= most:
        raise UsageError(f'{name}="{text}": it is a number above 0, at most {most:g}.')
    return float(text)


def _line_watch(file: Path, wanted: str) -> Callable[[], bool]:
    """Whether a line that was printed since the start holds `wanted`, as text or as a pattern; looks at what is new.

    Raises UsageError for a pattern that can't be read, or could take for ever.
    """
    if len(wanted) > _PATTERN or _COSTLY.search(wanted) or len(re.findall(r"(?<!\\)[*+{]", wanted)) > 3:
        raise UsageError('for="..." is a simple pattern: a word or two that the line holds.')
    try:
        pattern = re.compile(wanted)
    except re.error as error:
        raise UsageError(f'for="{wanted}" is no regular expression: {error}') from error
    at = 0

    def seen() -> bool:
        nonlocal at
        with file.open("rb") as stream:
            stream.seek(at)
            while data := stream.read(1 << 20):
                text = data.decode("utf-8", "replace")
                for line in text.split("\n"):
                    shown = drawn(line)[:_LINE]
                    if wanted in shown or pattern.search(shown):
                        return True
                whole = data.rfind(b"\n") + 1
                at += whole or (len(data) if len(data) == 1 << 20 else 0)
                if len(data) < 1 << 20:
                    break
                stream.seek(at)
        return False

    return seen
