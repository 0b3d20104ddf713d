"""The commands `run.before_turn`, `run.after_edit`, `run.before_finish`: run them, word for a model what they say."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from repoagent.agent import fence
from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.llm.quoting import printable
from repoagent.store.masking import mask
from repoagent.store.secrets import without_secrets
from repoagent.work.programs import Ran, start
from repoagent.work.texts import cut, one_line

VERSION = 1
TIMEOUT = 300.0  # seconds
SHOWN = 8 * 1024  # characters of the output
PATHS = 1000  # that a command is told of

Event = Literal["before_turn", "after_edit", "before_finish"]


@dataclass(frozen=True)
class Said:
    """What a command said, for the model ("" for nothing), and whether it ended well."""

    ok: bool = True
    text: str = ""


def _nothing(event: Mapping[str, object]) -> None:
    pass


@dataclass(frozen=True)
class Around:
    """The commands of the person's configuration (None: there is none), for the run `run` in the work tree `top`.

    timeout: of each, in seconds. audit: is told of each that was run. confined: what to run instead of a command, and
    its environment, while there are changes that no person has seen; None for the command itself.
    """

    top: Path
    run: str
    turn_command: str | None = None
    edit_command: str | None = None
    finish_command: str | None = None
    timeout: float = TIMEOUT
    audit: Callable[[Mapping[str, object]], None] = _nothing
    confined: Callable[[Sequence[str]], tuple[list[str], Mapping[str, str]] | None] = lambda argv: None

    def before_turn(self, turn: int) -> str:
        """What is to be told before turn number `turn`, "" for nothing."""
        return self._said("before_turn", self.turn_command, {"turn": turn}).text

    def after_edit(self, paths: Sequence[str], turn: int = 0) -> str:
        """What is to be told after an edit of `paths` (from the top), "" for nothing."""
        return self._said("after_edit", self.edit_command, {"turn": turn, "paths": [*paths][:PATHS]}).text

    def before_finish(self, paths: Sequence[str] = (), turn: int = 0) -> Said:
        """Whether the run may count as finished. `paths` is what it has changed."""
        return self._said("before_finish", self.finish_command, {"turn": turn, "paths": [*paths][:PATHS]})

    def _said(self, event: Event, command: str | None, facts: Mapping[str, object]) -> Said:
        if command is None:
            return Said()
        given = {"version": VERSION, "event": event, "run": self.run, "top": str(self.top), **facts}
        argv, env = self.confined(["/bin/sh", "-c", command]) or (command, None)
        try:
            ran = start(
                argv,
                top=self.top,
                base=env,
                stdin=json.dumps(given) + "\n",
                environment=variables(given),
                timeout=self.timeout,
                together=True,
            )
        except Refused as error:
            return Said(False, f"run.{event}: {error}.")
        self.audit(
            {
                "kind": "around",
                "event": event,
                "command": command,
                "exit": ran.code,
                "seconds": round(ran.seconds, 3),
            }
        )
        return Said(ran.ok, told(event, command, ran))


def variables(given: Mapping[str, object]) -> dict[str, str]:
    """What a command finds in its environment, for those who do not read JSON: paths stand a line each."""
    listed = given.get("paths")
    paths = "\n".join(map(str, listed)) if isinstance(listed, list) else ""
    return {
        "AGENT_EVENT": str(given["event"]),
        "AGENT_RUN": str(given["run"]),
        "AGENT_TURN": str(given.get("turn", "")),
        "AGENT_PATHS": paths.replace("\0", "")[: 64 * 1024],
    }


def told(event: Event, command: str, ran: Ran) -> str:
    """What the model is told. A command that ended well and printed nothing is not mentioned."""
    output = mask(printable(excerpt(ran.output)))
    if ran.ok and not output.strip():
        return ""
    how = "" if ran.ok else f", which {ran.ended}" if ran.ended else f", exit code {ran.code}"
    shown = cut(one_line(mask(without_secrets(command))), 200)
    lead = f"The person's command {event} (`{shown}`){how}"
    return f"{lead}:\n{fence(output, 'output')}" if output.strip() else f"{lead}, and printed nothing."


def excerpt(text: str, limit: int = SHOWN) -> str:
    """A text, the middle left out where it is longer than `limit` characters: most of an error is at the end."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit // 4], text[len(text) - (limit - limit // 4) :]
    return f"{head}\n[… {len(text) - limit} characters left out …]\n{tail}"
