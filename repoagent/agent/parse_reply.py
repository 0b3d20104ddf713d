"""Parse a reply into actions. Any text can be parsed; what to run is never guessed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Literal

from repoagent.agent.actions import NAME, Action
from repoagent.agent.reply_lexer import DATA, Piece, foreign, own_closing_tag, pieces
from repoagent.agent.state import EDIT, ENDS, OWN, TAGGED, Tool
from repoagent.dataclass import dataclass


@dataclass(frozen=True)
class Parsed:
    """A parsed reply.

    reply: the part that counts; `dropped` is the rest, which imitates an observation or another speaker.
    thought: the prose (and quoted code), without actions, and without patches if there is a tool to apply them.
    actions: in order, `finish` or `reject` last. All patches together are one `edit`, whose body is the reply
        without its tags.
    problem: why nothing in it may be performed, worded for the model; None if there is no problem.
    commit_message, notes: the content of the last `commit` tag, and of all `note` tags.
    foreign: if the reply requests nothing else, the tool that it calls in the format of another program; see `foreign`.
    """

    reply: str
    thought: str = ""
    actions: tuple[Action, ...] = ()
    problem: str | None = None
    dropped: str = ""
    commit_message: str = ""
    notes: tuple[str, ...] = ()
    foreign: str | None = None

    @property
    def asks(self) -> bool:
        """Whether there is anything to perform; thinking does not count."""
        return any(action.kind != "think" for action in self.actions)


def parse(
    reply: str, tools: Collection[str], *, nonce: str = "", was_cut: bool = False, loose: bool = False
) -> Parsed:
    """Parse `reply`. Raises nothing.

    `tools` are the names of all tools (without `edit`, patches are not actions). `nonce` is that of the conversation: a
    line of prose that contains it can only be an imitation. `was_cut`: a part was dropped before. `loose`: a code fence
    without a file name is a patch, too (`Tool.loose`).
    """
    return _parsed(reply, frozenset(tools), nonce, was_cut, loose)


@lru_cache(maxsize=512)  # all replies of a run are parsed again after each step
def _parsed(reply: str, tools: frozenset[str], nonce: str, was_cut: bool, loose: bool) -> Parsed:
    parts = list(pieces(reply, DATA | tools, nonce, loose=loose))
    dropped = parts.pop().text if parts and parts[-1].kind == "imitation" else ""
    doubtful = _cut_short(parts, dropped)
    if doubtful:  # keep the whole reply, so that it is also doubtful when it is parsed again
        dropped = ""
    tags = [piece.action for piece in parts if piece.action]
    actions = [action for action in tags if action.kind in tools]
    patches = [number for number, piece in enumerate(parts) if piece.kind == "patch"]
    if patches and EDIT in tools:
        body = "".join(piece.text for piece in parts if piece.action is None)
        before = sum(piece.action is not None and piece.action.kind in tools for piece in parts[: patches[0]])
        actions.insert(before, Action(EDIT, {}, body))
    actions.sort(key=lambda action: action.kind in ENDS)
    words = {"prose", "slip", "code"} | ({"patch"} if EDIT not in tools else set())  # no tool applies it
    thought = "".join(piece.text for piece in parts if piece.kind in words)
    problem = own_closing_tag(doubtful) if doubtful else None
    problem = problem or _problem(parts, actions, tools, dropped=was_cut or bool(dropped))
    asks = any(action.kind != "think" for action in actions)
    return Parsed(
        reply[: len(reply) - len(dropped)],
        thought=thought.strip(),
        actions=() if problem else tuple(actions),
        problem=problem,
        dropped=dropped,
        commit_message=next((tag.body.strip() for tag in reversed(tags) if tag.kind == "commit"), ""),
        notes=tuple(" ".join(tag.body.split()) for tag in tags if tag.kind == "note" and tag.body.strip()),
        foreign=None if problem or asks else foreign(parts),
    )


def protocol_text(
    tools: Iterable[Tool], edits: Literal["edits", "changes"] = "edits", *, native: bool = False
) -> str:
    """The part of a prompt that describes the format of replies: the protocol, and the texts of `tools` and of the
    loop's own tools. With "edits", the first that applies ends the run; of "changes" there may be many. `native`:
    leave out the tools that can be called, which are described by schemas (`native_tools.schemas`)."""
    by_name = {tool.name: tool for tool in (*OWN, *tools)}
    edit = by_name.pop(EDIT, None)
    described = [tool for name, tool in by_name.items() if name in TAGGED or not native]
    tags = "\n".join(f"- {tool.text.strip()}" for tool in described if tool.text)
    texts = [_prompt("native" if native else "protocol"), f"Tags:\n{tags}"]
    if edit:
        texts += [_prompt(edits), edit.text.strip()]
    return "\n\n".join(texts) + "\n"


def _prompt(name: str) -> str:
    return (files("repoagent.agent") / "prompts" / f"{name}.md").read_text(encoding="utf-8").strip()


def _problem(
    parts: Sequence[Piece], actions: Sequence[Action], tools: Collection[str], *, dropped: bool
) -> str | None:
    for piece in parts:
        if piece.problem:
            return piece.problem
    kinds = {action.kind for action in actions}
    if kinds >= ENDS or {"reject", EDIT} <= kinds:
        return "it has an action or edit and also rejects the task; send only one of them."
    if actions:
        return None
    if dropped:
        return "there is no action before the part that imitates another speaker."
    if any(piece.kind == "slip" for piece in parts):
        return "an action is inside a line; put it on its own line, or in backticks if you only mention it."
    written = [piece for piece in parts if piece.action is None and piece.text.strip()]
    if len(written) == 1 and written[0].kind == "code":
        name = NAME.match(written[0].text.partition("\n")[2])
        if name and name[1] in tools:
            return "the action is in a code fence; write it without the fence."
    return None if written else "it is empty."


def _cut_short(parts: Sequence[Piece], dropped: str) -> str | None:
    """The name of a tag that is closed more often than opened, so that a body without id may have been cut.

    Closing tags in code and patches count, too, because these may begin inside the body. But a diff may change lines
    with a tag `note` in a file.
    """
    plain = [piece.action for piece in parts if piece.action and piece.mark is None]
    texts = [piece.text for piece in parts if piece.action is None]
    texts += [*(action.body for action in plain), dropped]
    for name in sorted({action.kind for action in plain}):
        opening, closing = f"<{name}(?![\\w-])", f"</{name}(?![\\w-])"
        if name in DATA:
            closing = f"(?m)^(?![ +-]).*{closing}"
        if any(len(re.findall(closing, text)) > len(re.findall(opening, text)) for text in texts):
            return name
    return None
