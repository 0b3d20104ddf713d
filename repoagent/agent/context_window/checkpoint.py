"""The checkpoint of a long conversation: a summary of the work so far, and the facts that the program knows. The model
writes the summary; if it fails to, the program makes one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from repoagent.agent.actions import Action
from repoagent.agent.context_window import shorten_text
from repoagent.agent.context_window.shorten_text import Quoted, byte_length, shorten
from repoagent.agent.parse_reply import parse_reply
from repoagent.agent.state import EDIT, QUIET, succeeded
from repoagent.dataclass import dataclass
from repoagent.llm.conversation import Turn
from repoagent.llm.model import fence, printable, without_thought

CHECKPOINT = "checkpoint"  # the kind of a turn that replaces earlier ones
HEADINGS = ("Goal", "Decisions", "Plan", "Changes", "Open", "Tried and failed", "Next step")
_INTRODUCTION = (
    "The conversation has become long: earlier turns of the assistant and their observations are no longer "
    "shown. This checkpoint replaces them; it is a record of the work, not an instruction. The newest "
    "turns follow."
)
_CERTAIN, _STEPS = "## Known for certain", "## Steps so far\n"
_LEFT_OUT = "[… shortened …]"
_COMMANDS = 20
_LINE = 160  # characters
_EXIT = re.compile(r"\bexit(?:ed with)?(?: code| status)?:? (-?\d{1,3})\b")


def is_checkpoint(turn: Turn) -> bool:
    return turn.role == "observation" and turn.meta.get("extra") == CHECKPOINT


def checkpoint_turn(body: str, meta: Mapping[str, str]) -> Turn:
    fixed = {"kind": CHECKPOINT, "ok": "yes", "extra": CHECKPOINT}
    return Turn("observation", f"{_INTRODUCTION}\n\n{fence(body, CHECKPOINT)}", {**fixed, **meta})


def unit_starts(turns: Sequence[Turn]) -> list[int]:
    """The index of the first turn of each unit (a user message, or a reply with its observations)."""
    return [
        number
        for number, turn in enumerate(turns)
        if number == 0 or turn.role != "observation" or turns[number - 1].role == "user"
    ]


@dataclass(frozen=True)
class CheckpointFacts:
    """The facts that a checkpoint states with certainty.

    plan: the plan as text.
    changed: a line for each changed file, newest last.
    commands: a line for each command, newest last.
    """

    plan: str = ""
    changed: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()

    def render(self) -> str:
        changed = "\n".join(f"- {_line(line)}" for line in self.changed)
        commands = "\n".join(f"- {_line(line)}" for line in self.commands[-_COMMANDS:])
        note = f" (the last {_COMMANDS} of {len(self.commands)})" if len(self.commands) > _COMMANDS else ""
        sections = {
            "The plan": self.plan.strip(),
            "Files changed": changed,
            f"Commands run{note}, with the result of the last run of each": commands,
        }
        blocks = [f"{title}:\n{text}" for title, text in sections.items() if text]
        return "\n\n".join([_CERTAIN, *blocks]) if blocks else ""


def read_checkpoint(reply: str) -> str:
    """The checkpoint in a model's reply; "" if it lacks the required headings."""
    text = without_thought(reply).strip()
    flags = re.MULTILINE | re.IGNORECASE
    headings = [name for name in HEADINGS if re.search(rf"^#+ *{name}", text, flags)]
    return printable(text) if len(headings) >= 3 else ""


def checkpoint_without_model(turns: Sequence[Turn], tools: Collection[str], nonce: str = "") -> str:
    """A checkpoint made without a model: the text of the last checkpoint, and the first line and actions of each
    reply."""
    written = [number for number, turn in enumerate(turns) if turn.meta.get("by") in {"model", "person"}]
    previous = ""
    if written:
        previous = body_of(turns[written[-1]].text).partition(f"\n{_CERTAIN}")[0].strip()
    lines = []
    for thought, performed in _steps(turns[written[-1] + 1 :] if written else turns, tools, nonce):
        done = []
        for action, observation in performed:
            if action.kind in QUIET:
                continue
            if action.kind == EDIT:
                target = ", ".join(patched_paths(action.body))
            else:
                target = " ".join([*action.args.values(), *action.body.split()])[:80]
            status = "failed" if not succeeded(observation) else ""
            if action.kind == "run":
                status = _ended(observation)
            done.append(f"{action.kind} {target}".strip() + (f" ({status})" if status else ""))
        summary = "; ".join(filter(None, [thought.split("\n", 1)[0].strip(), ", ".join(done)]))
        lines.append("- " + _line(summary or "(nothing)"))
    return "\n\n".join(filter(None, [previous, _STEPS + "\n".join(lines) if lines else ""]))


def compose_body(text: str, known: CheckpointFacts, most: int) -> str:
    """The body of a checkpoint in at most about `most` bytes: `text` and the `known` facts."""
    certain = shorten(known.render(), most // 3, _LEFT_OUT)
    written = shorten(text, most - byte_length(certain) - 2, _LEFT_OUT)
    return "\n\n".join(filter(None, [written.strip(), certain.strip()]))


def body_of(text: str) -> str:
    """Extract the body of a checkpoint from the text of its turn."""
    quoted = [
        piece
        for piece in shorten_text.split_quoted(text)
        if isinstance(piece, Quoted) and piece.label == CHECKPOINT
    ]
    return quoted[-1].content.removesuffix("\n") if quoted else text


def facts_from_turns(turns: Sequence[Turn], tools: Collection[str], nonce: str = "") -> CheckpointFacts:
    """The changed files and the commands according to the conversation."""
    changed: dict[str, None] = {}
    commands: dict[str, str] = {}
    for _, performed in _steps(turns, tools, nonce):
        for action, observation in performed:
            if action.kind == EDIT and succeeded(observation):
                changed |= dict.fromkeys(patched_paths(action.body))
            elif action.kind == "run" and action.body.strip():
                command = " ".join(action.body.split())
                commands.pop(command, None)
                commands[command] = _ended(observation)
    ended = tuple(f"{status}: {command}" for command, status in commands.items())
    return CheckpointFacts("", tuple(changed), ended)


def _steps(
    turns: Sequence[Turn], tools: Collection[str], nonce: str
) -> Iterator[tuple[str, list[tuple[Action, Turn]]]]:
    """The thought of each reply, and its actions with their observations."""
    starts = unit_starts(turns)
    for start, end in zip(starts, [*starts[1:], len(turns)], strict=True):
        reply = turns[start]
        if reply.role == "assistant":
            parsed = parse_reply(reply.text, tools, nonce=nonce, was_cut="dropped" in reply.meta)
            observations = [turn for turn in turns[start + 1 : end] if "extra" not in turn.meta]
            yield parsed.thought, list(zip(parsed.actions, observations, strict=False))


def _ended(observation: Turn) -> str:
    """How a command ended, according to the unquoted part of its observation."""
    outside = "".join(
        piece for piece in shorten_text.split_quoted(observation.text) if isinstance(piece, str)
    )
    if code := _EXIT.search(outside):
        return f"exit {code[1]}"
    return "done" if succeeded(observation) else "failed"


def patched_paths(body: str) -> list[str]:
    """The files that a patch names."""
    return list(dict.fromkeys(re.findall(r"^\+\+\+ (?:b/)?([^\t\r\n]+)", body, re.MULTILINE)))


def _line(text: str) -> str:
    text = printable(" ".join(text.split()))
    return text if len(text) <= _LINE else f"{text[:_LINE]} …"
