"""The text of a checkpoint: what a model writes about the work so far, and what the program knows for certain."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.resources import files

from repoagent.agent.actions import Action
from repoagent.agent.context_window.shorten_text import Quoted, pieces, size, trimmed
from repoagent.agent.parse_reply import Parsed, parse
from repoagent.agent.state import EDIT, QUIET
from repoagent.dataclass import dataclass
from repoagent.llm.attachments import reference
from repoagent.llm.conversation import ATTACHED, Turn
from repoagent.llm.model import fence, printable, without_thought
from repoagent.llm.usage import estimate_tokens

BYTES = 3  # of a token, as `estimate_tokens` counts
CHECKPOINT = "checkpoint"  # the kind of a turn that stands for those before it


def is_checkpoint(turn: Turn) -> bool:
    return turn.role == "observation" and turn.meta.get("extra") == CHECKPOINT


def tokens(turns: Iterable[Turn]) -> int:
    """What `turns` are in a prompt, with what is written around them; rather too many than too few."""
    return sum(map(_tokens, turns))


def _tokens(turn: Turn) -> int:
    overhead = 4 if turn.role == "user" else 28 + len(turn.meta.get("kind", "")) // 3
    attached = reference(turn) if ATTACHED in turn.meta else None
    thought = turn.meta.get("thought", "")  # sent back with the text
    reasoning = int(thought) if thought.isdecimal() and len(thought) < 9 else 0
    return estimate_tokens(turn.text) + overhead + (attached.tokens if attached else 0) + reasoning


def without_attached(turn: Turn) -> Turn:
    """`turn` without its image or PDF, and with a line that says so."""
    attachment = reference(turn)
    if attachment is None:
        return turn
    meta = {key: value for key, value in turn.meta.items() if key != ATTACHED}
    return replace(turn, text=f"({attachment.path}: left out. Read it again where it matters.)", meta=meta)


def borders(turns: Sequence[Turn]) -> list[int]:
    """The indexes where a unit begins: a message of the user, or a reply with its observations."""
    starts = []
    after_person = False
    for number, turn in enumerate(turns):
        if turn.role != "observation" or after_person or number == 0:
            starts.append(number)
        after_person = turn.role == "user"
    return starts


HEADINGS = ("Goal", "Decisions", "Plan", "Changes", "Open", "Tried and failed", "Next step")
_INTRODUCTION = (
    "The conversation has become long: earlier turns of the assistant and their observations are no longer "
    "shown. This checkpoint replaces them; it is a record of the work, not an instruction. The newest "
    "turns follow."
)
_LEFT_OUT = "[… shortened …]"
_COMMANDS = 20
_WORDS, _BYTES_A_WORD = 900, 10
_LINE = 160  # characters
_EXIT = re.compile(r"\bexit(?:ed with)?(?: code| status)?:? (-?\d{1,3})\b")


@dataclass(frozen=True)
class Known:
    """What the program knows of a run without asking: the plan as text, the files that it changed and the commands
    that it ran, each a line, the newest last."""

    plan: str = ""
    changed: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()

    def render(self) -> str:
        blocks = ["## Known for certain"]
        if self.plan.strip():
            blocks.append(f"The plan:\n{self.plan.strip()}")
        if self.changed:
            blocks.append("Files changed:\n" + "\n".join(f"- {_line(line)}" for line in self.changed))
        if self.commands:
            left = len(self.commands) - _COMMANDS
            more = f" (the last {_COMMANDS} of {len(self.commands)})" if left > 0 else ""
            lines = "\n".join(f"- {_line(line)}" for line in self.commands[-_COMMANDS:])
            blocks.append(f"Commands run{more}, with the result of the last run of each:\n{lines}")
        return "\n\n".join(blocks) if len(blocks) > 1 else ""


def question(most: int) -> Turn:
    """What the model is asked for a checkpoint of at most about `most` bytes with: a turn to be put at the end of those
    that are shown, and kept nowhere."""
    text = (files("repoagent.agent") / "prompts" / "checkpoint.md").read_text(encoding="utf-8")
    words = max(100, min(_WORDS, most // _BYTES_A_WORD // 50 * 50))
    return Turn("observation", text.strip().replace("{words}", str(words)), {"kind": CHECKPOINT, "ok": "yes"})


def usable(reply: str) -> str:
    """The checkpoint in a model's reply; "" without the required headings."""
    text = without_thought(reply).strip()
    headings = sum(
        re.search(rf"^#+ *{name}", text, re.MULTILINE | re.IGNORECASE) is not None for name in HEADINGS
    )
    return printable(text) if headings >= 3 else ""


def mechanical(turns: Sequence[Turn], tools: Collection[str], nonce: str = "") -> str:
    """A checkpoint without a model: what the last one said, and of each reply its first line and actions."""
    written = [number for number, turn in enumerate(turns) if turn.meta.get("by") in {"model", "person"}]
    since = turns[written[-1] + 1 :] if written else turns
    lines = [_step(since[start:end], tools, nonce) for start, end in _steps(since)]
    previous = (
        body_of(turns[written[-1]].text).partition("\n## Known for certain")[0].strip() if written else ""
    )
    return "\n\n".join(filter(None, [previous, "## Steps so far\n" + "\n".join(lines) if lines else ""]))


def joined(text: str, known: Known, most: int) -> str:
    """The body of a checkpoint in at most about `most` bytes: `text`, and what is `known`."""
    certain = trimmed(known.render(), most // 3, _LEFT_OUT)
    if "## Steps so far\n" in text:
        text = _newest_steps(text, most - size(certain) - 2)
    text = trimmed(text, most - size(certain) - 2, _LEFT_OUT)
    return "\n\n".join(filter(None, [text.strip(), certain.strip()]))


def checkpoint_text(body: str) -> str:
    """The text of the turn that `body` is sent as."""
    return f"{_INTRODUCTION}\n\n{fence(body, CHECKPOINT)}"


def body_of(text: str) -> str:
    """The body in the result of `checkpoint_text`; all of a text that the user has changed."""
    quoted = [piece for piece in pieces(text) if isinstance(piece, Quoted) and piece.label == CHECKPOINT]
    return quoted[-1].content.removesuffix("\n") if quoted else text.removeprefix(_INTRODUCTION).strip()


def known_from(turns: Sequence[Turn], tools: Collection[str], nonce: str = "", *, plan: str = "") -> Known:
    """What the conversation itself says of files and commands, for who has no better source."""
    changed: dict[str, None] = {}
    commands: dict[str, str] = {}
    for start, end in _steps(turns):
        for action, seen in _done(turns[start:end], tools, nonce):
            if action.kind == EDIT and seen.meta.get("ok") != "no":
                changed |= dict.fromkeys(_paths(action.body))
            elif action.kind == "run" and action.body.strip():
                command = " ".join(action.body.split())
                commands.pop(command, None)
                commands[command] = _ended(seen)
    return Known(plan, tuple(changed), tuple(f"{how}: {command}" for command, how in commands.items()))


def _steps(turns: Sequence[Turn]) -> Iterator[tuple[int, int]]:
    """Where each reply and its observations begin and end."""
    starts = borders(turns)
    for start, end in zip(starts, [*starts[1:], len(turns)], strict=True):
        if turns[start].role == "assistant":
            yield start, end


def _done(step: Sequence[Turn], tools: Collection[str], nonce: str) -> list[tuple[Action, Turn]]:
    performed = [turn for turn in step[1:] if "extra" not in turn.meta]
    return list(zip(_read(step[0], tools, nonce).actions, performed, strict=False))


def _read(reply: Turn, tools: Collection[str], nonce: str) -> Parsed:
    return parse(reply.text, tools, nonce=nonce, was_cut="dropped" in reply.meta)


def _step(step: Sequence[Turn], tools: Collection[str], nonce: str) -> str:
    thought = _read(step[0], tools, nonce).thought.split("\n", 1)[0]
    done = []
    for action, seen in _done(step, tools, nonce):
        if action.kind in QUIET:
            continue
        about = ", ".join(_paths(action.body)) if action.kind == EDIT else _about(action)
        how = _ended(seen) if action.kind == "run" else "failed" if seen.meta.get("ok") == "no" else ""
        done.append(f"{action.kind} {about}".strip() + (f" ({how})" if how else ""))
    return "- " + _line("; ".join(filter(None, [thought.strip(), ", ".join(done)])) or "(nothing)")


def _about(action: Action) -> str:
    return " ".join([*action.args.values(), *action.body.split()])[:80]


def _ended(seen: Turn) -> str:
    """How a command ended, as its observation says outside of what it quotes."""
    unquoted = "".join(piece for piece in pieces(seen.text) if isinstance(piece, str))
    if code := _EXIT.search(unquoted):
        return f"exit {code[1]}"
    return "failed" if seen.meta.get("ok") == "no" else "done"


def _paths(body: str) -> list[str]:
    """The files that a patch names."""
    return list(dict.fromkeys(re.findall(r"^\+\+\+ (?:b/)?([^\t\r\n]+)", body, re.MULTILINE)))


def _newest_steps(text: str, most: int) -> str:
    """`text` with as many of its steps as fit, the newest."""
    before, heading, steps = text.partition("## Steps so far\n")
    before = trimmed(before.strip(), most // 2, _LEFT_OUT)
    lines = steps.split("\n")
    left = most - size(before) - size(heading) - 60
    newest: list[str] = []
    while lines and (left := left - size(lines[-1]) - 1) >= 0:
        newest.insert(0, lines.pop())
    note = [f"({len(lines)} earlier steps omitted)"] if lines else []
    return "\n\n".join(filter(None, [before, heading + "\n".join([*note, *newest])]))


def _line(text: str) -> str:
    text = printable(" ".join(text.split()))
    return text if len(text) <= _LINE else f"{text[:_LINE]} …"
