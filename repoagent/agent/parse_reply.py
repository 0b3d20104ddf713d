"""Parse a reply into actions. Every text has a reading; what to run is never guessed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Literal

from repoagent.agent.actions import NAME, Action
from repoagent.agent.reply_pieces import DATA, Call, Piece, foreign, own_closing_tag, pieces
from repoagent.agent.state import EDIT, ENDS, OWN, TAGGED, Tool
from repoagent.dataclass import dataclass


@dataclass(frozen=True)
class Parsed:
    """One reply, read.

    reply: the part that counts; `dropped` is what followed and imitated an observation or another speaker.
    thought: the prose (and quoted code), without actions, and without patches where there is something to apply them.
    actions: in order, `finish` or `reject` last. All patches together are one `edit`, whose body is the reply
        without its tags.
    problem: why nothing of it may be performed, worded for the model; None when all is well.
    commit_message, notes: what the tags `commit` (the last one) and `note` hold.
    foreign: the tool call in a form of another program that it is, where it asks for nothing else.
    """

    reply: str
    thought: str = ""
    actions: tuple[Action, ...] = ()
    problem: str | None = None
    dropped: str = ""
    commit_message: str = ""
    notes: tuple[str, ...] = ()
    foreign: Call | None = None

    @property
    def asks(self) -> bool:
        """Whether there is anything to perform; to think aloud asks for nothing."""
        return any(action.kind != "think" for action in self.actions)


def parse(
    reply: str, tools: Collection[str], *, nonce: str = "", was_cut: bool = False, loose: bool = False
) -> Parsed:
    """Read `reply`. Raises nothing, whatever it is.

    `tools` are the names of the tools there are (without `edit`, patches are no action). `nonce` is that of
    the conversation: a line of prose that has it can only be an imitation. `was_cut`: a part was dropped
    before. `loose`: a code fence that names no file is a patch too (`Tool.loose`).
    """
    return _parsed(reply, frozenset(tools), nonce, was_cut, loose)


@lru_cache(maxsize=512)  # the replies of a run are looked at after each step; that is a pure function of them
def _parsed(reply: str, tools: frozenset[str], nonce: str, was_cut: bool, loose: bool) -> Parsed:
    parts = list(pieces(reply, DATA | tools, nonce, loose=loose))
    dropped = parts.pop().text if parts and parts[-1].kind == "imitation" else ""
    doubtful = _cut_short(parts, dropped)
    if doubtful:  # what is kept is to be as doubtful when it is read again
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
        foreign=None if problem or asks else foreign(thought),
    )


def protocol_text(
    tools: Iterable[Tool], edits: Literal["edits", "changes"] = "edits", *, native: bool = False
) -> str:
    """The part of a prompt that says how to answer: the protocol, and what each of `tools` says of itself
    (those of the loop need not be given). Of "edits" the first that applies is the end; "changes" may be many.
    `native`: what can be called is told by schemas (`native.schemas`), and left out here."""
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

    Code and patches are no excuse: what looks like one may have begun inside the body. But a diff may well
    change the lines of a file that has a tag `note`.
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
