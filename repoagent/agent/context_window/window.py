"""Select the turns of a conversation to send to a model, and replace older ones with a checkpoint: the model's summary
of the work so far, and the facts that the program knows.

Without a checkpoint all turns are sent. With a checkpoint, these are sent: the user's messages, the checkpoint, the
turns that it retained, and all later ones. So until the next checkpoint a request only grows at its end, and the
provider can cache its prefix. For the same reason, superseded results are reduced to one line only when a checkpoint is
made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from repoagent.agent.actions import Action
from repoagent.agent.context_window import shorten_text
from repoagent.agent.context_window.shorten_text import Quoted, size, trimmed
from repoagent.agent.parse_reply import parse
from repoagent.agent.state import EDIT, QUIET, State
from repoagent.dataclass import dataclass
from repoagent.errors import LimitReached, ModelError, UsageError
from repoagent.llm.conversation import ATTACHED, Turn
from repoagent.llm.media import reference
from repoagent.llm.model import Request, fence, printable, without_thought
from repoagent.llm.usage import estimate, estimate_tokens

BYTES = 3  # per token, as in `estimate_tokens`
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
_WORDS, _BYTES_A_WORD = 900, 10
_LINE = 160  # characters
_EXIT = re.compile(r"\bexit(?:ed with)?(?: code| status)?:? (-?\d{1,3})\b")
# Shares of the budget, and of what the user's messages leave of it.
WORDS = 0.6  # of the budget: beyond this the user's older messages are cut in the middle
HIGH = 0.75  # of the rest: beyond this a checkpoint is due
RECENT = 0.3  # of the rest: the newest turns, which a checkpoint retains
RECENT_MOST = 0.5  # of the rest: when the newest step alone is larger than RECENT
TEXT = 0.2  # of the rest: the checkpoint itself
LEAST = 2_000  # tokens for the turns: no step fits into less
_WORTH_A_CALL = 6_000  # tokens for the turns: below this a checkpoint is not worth a call
_WORTH_A_NOTE = 400  # characters: a shorter result is not replaced by a note

_CUT = "[… the middle is omitted; the conversation file has all of it …]"
_READ = re.compile(r'file path=("(?:[^"\\]|\\.)*")(?: [\w-]+="[^"]*")*? lines="(\d+)-(\d+)"')
_EDITED = re.compile(r"^\+\+\+ (?:b/)?([^\t\r\n]+)", re.MULTILINE)

Ask = Callable[[tuple[Turn, ...]], tuple[str, Mapping[str, str]]]


def is_checkpoint(turn: Turn) -> bool:
    return turn.role == "observation" and turn.meta.get("extra") == CHECKPOINT


def tokens(turns: Iterable[Turn]) -> int:
    """The estimated number of tokens of `turns` in a prompt, with markup, erring on the high side."""
    total = 0
    for turn in turns:
        total += estimate_tokens(turn.text)
        total += 4 if turn.role == "user" else 28 + len(turn.meta.get("kind", "")) // 3
        attached = reference(turn) if ATTACHED in turn.meta else None
        total += attached.tokens if attached else 0
        thought = turn.meta.get("thought", "")  # sent back with the text
        total += int(thought) if thought.isdecimal() and len(thought) < 9 else 0
    return total


def without_attached(turn: Turn) -> Turn:
    """Replace the image or PDF of a turn with a note."""
    attachment = reference(turn)
    if attachment is None:
        return turn
    meta = {key: value for key, value in turn.meta.items() if key != ATTACHED}
    return replace(turn, text=f"({attachment.path}: left out. Read it again where it matters.)", meta=meta)


def borders(turns: Sequence[Turn]) -> list[int]:
    """The index of the first turn of each unit (a user message, or a reply with its observations)."""
    return [
        number
        for number, turn in enumerate(turns)
        if number == 0 or turn.role != "observation" or turns[number - 1].role == "user"
    ]


@dataclass(frozen=True)
class Known:
    """Facts about a run: the plan as text, and a line for each changed file and each command, newest last."""

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


def usable(reply: str) -> str:
    """The checkpoint in a model's reply; "" if it lacks the required headings."""
    text = without_thought(reply).strip()
    flags = re.MULTILINE | re.IGNORECASE
    headings = [name for name in HEADINGS if re.search(rf"^#+ *{name}", text, flags)]
    return printable(text) if len(headings) >= 3 else ""


def mechanical(turns: Sequence[Turn], tools: Collection[str], nonce: str = "") -> str:
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
                target = ", ".join(_paths(action.body))
            else:
                target = " ".join([*action.args.values(), *action.body.split()])[:80]
            status = "failed" if observation.meta.get("ok") == "no" else ""
            if action.kind == "run":
                status = _ended(observation)
            done.append(f"{action.kind} {target}".strip() + (f" ({status})" if status else ""))
        summary = "; ".join(filter(None, [thought.split("\n", 1)[0].strip(), ", ".join(done)]))
        lines.append("- " + _line(summary or "(nothing)"))
    return "\n\n".join(filter(None, [previous, _STEPS + "\n".join(lines) if lines else ""]))


def joined(text: str, known: Known, most: int) -> str:
    """The body of a checkpoint in at most about `most` bytes: `text` and the `known` facts."""
    certain = trimmed(known.render(), most // 3, _LEFT_OUT)
    most -= size(certain) + 2
    if _STEPS in text:  # as many steps as fit, the newest
        before, _, steps = text.partition(_STEPS)
        before = trimmed(before.strip(), most // 2, _LEFT_OUT)
        room = most - size(before) - size(_STEPS) - 60
        lines = steps.split("\n")
        newest: list[str] = []
        while lines and (room := room - size(lines[-1]) - 1) >= 0:
            newest.insert(0, lines.pop())
        note = [f"({len(lines)} earlier steps omitted)"] if lines else []
        text = "\n\n".join(filter(None, [before, _STEPS + "\n".join([*note, *newest])]))
    return "\n\n".join(filter(None, [trimmed(text, most, _LEFT_OUT).strip(), certain.strip()]))


def body_of(text: str) -> str:
    """The body of a checkpoint, taken from the text of its turn; the whole text if someone removed the fence around the
    body."""
    quoted = [
        piece
        for piece in shorten_text.pieces(text)
        if isinstance(piece, Quoted) and piece.label == CHECKPOINT
    ]
    return quoted[-1].content.removesuffix("\n") if quoted else text.removeprefix(_INTRODUCTION).strip()


def known_from(turns: Sequence[Turn], tools: Collection[str], nonce: str = "", *, plan: str = "") -> Known:
    """The changed files and the commands according to the conversation."""
    changed: dict[str, None] = {}
    commands: dict[str, str] = {}
    for _, performed in _steps(turns, tools, nonce):
        for action, observation in performed:
            if action.kind == EDIT and observation.meta.get("ok") != "no":
                changed |= dict.fromkeys(_paths(action.body))
            elif action.kind == "run" and action.body.strip():
                command = " ".join(action.body.split())
                commands.pop(command, None)
                commands[command] = _ended(observation)
    return Known(plan, tuple(changed), tuple(f"{status}: {command}" for command, status in commands.items()))


def _steps(
    turns: Sequence[Turn], tools: Collection[str], nonce: str
) -> Iterator[tuple[str, list[tuple[Action, Turn]]]]:
    """The thought of each reply, and its actions with their observations."""
    starts = borders(turns)
    for start, end in zip(starts, [*starts[1:], len(turns)], strict=True):
        reply = turns[start]
        if reply.role == "assistant":
            parsed = parse(reply.text, tools, nonce=nonce, was_cut="dropped" in reply.meta)
            observations = [turn for turn in turns[start + 1 : end] if "extra" not in turn.meta]
            yield parsed.thought, list(zip(parsed.actions, observations, strict=False))


def _ended(observation: Turn) -> str:
    """How a command ended, according to the unquoted part of its observation."""
    outside = "".join(piece for piece in shorten_text.pieces(observation.text) if isinstance(piece, str))
    if code := _EXIT.search(outside):
        return f"exit {code[1]}"
    return "failed" if observation.meta.get("ok") == "no" else "done"


def _paths(body: str) -> list[str]:
    """The files that a patch names."""
    return list(dict.fromkeys(re.findall(r"^\+\+\+ (?:b/)?([^\t\r\n]+)", body, re.MULTILINE)))


def _line(text: str) -> str:
    text = printable(" ".join(text.split()))
    return text if len(text) <= _LINE else f"{text[:_LINE]} …"


def marked(request: Request) -> Request:
    """`request` with cache marks at the end of its first message (which stays the same until the next checkpoint),
    where the previous request ended, and at its own end. Existing marks are kept."""
    of_user = [number for number, message in enumerate(request.messages) if message.role == "user"]
    messages = list(request.messages)
    for number in {*of_user[:1], *of_user[-2:]}:
        *before, last = messages[number].parts
        messages[number] = replace(messages[number], parts=(*before, replace(last, cache=True)))
    return replace(request, messages=tuple(messages))


def without_superseded(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Replace these with notes: each `read` whose lines were read again or whose file was edited later, results that
    are also saved in a file, and images and PDFs. The newest unit (see `borders`) stays as it is."""
    newest = borders(turns)[-1] if turns else 0
    slim = list(turns)
    later: list[tuple[str, int, int]] = []  # path, first and last line
    edited: set[str] = set()
    result: Turn | None = None  # of the edit in the reply before it
    for number, turn in reversed(list(enumerate(turns))):
        if turn.role == "assistant" and result is not None and result.meta.get("ok") != "no":
            edited |= set(_EDITED.findall(turn.text))
        if turn.role != "observation":
            result = None
            continue
        if turn.meta.get("kind") == "edit":
            result = turn
        if number < newest and ATTACHED in turn.meta:
            slim[number] = without_attached(turn)
            continue
        reads = []
        if turn.meta.get("kind") == "read" and turn.meta.get("ok") != "no":
            quoted = [piece for piece in shorten_text.pieces(turn.text) if isinstance(piece, Quoted)]
            matches = filter(None, (_READ.match(piece.label) for piece in quoted))
            reads = [(shorten_text.unquoted(match[1]), int(match[2]), int(match[3])) for match in matches]
        if number < newest and len(turn.text) > _WORTH_A_NOTE:
            names = "; ".join(f"{path}, lines {first}-{last}" for path, first, last in reads)
            note = ""
            if reads and all(
                any(new == path and start <= first and last <= end for new, start, end in later)
                for path, first, last in reads
            ):
                note = f"({names}: omitted, you read it again later.)"
            elif reads and all(path in edited for path, _, _ in reads):
                note = f"({names}: omitted, the file was edited since. Read it again if it matters.)"
            elif files := shorten_text.spilled_to(turn.text):
                note = f"(Omitted; it is in {', '.join(files)}.)"
            slim[number] = replace(turn, text=note or turn.text)
        later += reads
    return tuple(slim)


def newest(turns: Sequence[Turn]) -> tuple[int, int, int] | None:
    """The checkpoint in effect: its index, the first turn that it retained, and its budget; None if there is none."""
    at = next(
        (n for n in reversed(range(len(turns))) if is_checkpoint(turns[n]) and "keeps" in turns[n].meta), None
    )
    if at is None:
        return None
    meta = turns[at].meta
    opening = next((number for number, turn in enumerate(turns) if turn.role != "user"), 0)
    start = max(opening, at - _whole_number(meta["keeps"]))  # a prompt begins with the user's message
    start = next((border for border in borders(turns[:at]) if border >= start), at)
    return at, start, _whole_number(meta.get("budget", ""))


def _whole_number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def shown_turns(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns to send, in order."""
    mark = newest(turns)
    if mark is None:
        return tuple(turn for turn in turns if not is_checkpoint(turn))
    at, start, budget = mark
    words = _clipped([turn for turn in turns[:at] if turn.role == "user"], budget)
    before = sum(turn.role == "user" for turn in turns[:start])
    later = (turn for turn in turns[at + 1 :] if not is_checkpoint(turn))

    # the retained turns within their share: without superseded results, long ones without their middle
    recent_words = iter(words[before:])
    slim = without_superseded(turns[start:at])
    recent = [next(recent_words) if turn.role == "user" else turn for turn in slim if not is_checkpoint(turn)]
    results = [turn for turn in recent if turn.role != "user"]
    most = int((budget - tokens(words)) * RECENT_MOST) if budget else tokens(recent)
    if tokens(results) > most:
        limit = shorten_text.share([tokens([turn]) for turn in results], most)
        recent = [turn if turn.role == "user" else _within(turn, limit) for turn in recent]
    return (*words[:before], turns[at], *recent, *later)


def _clipped(words: Sequence[Turn], budget: int) -> list[Turn]:
    """The user's turns within their share of `budget`: the newest stays whole if possible, older ones lose their
    middle, and the oldest are dropped if that is not enough."""
    most = int(budget * WORDS) if budget else tokens(words)
    if tokens(words) <= most or not words:
        return list(words)
    *older, last = words
    last = _within(last, most * 3 // 4)
    remaining = most - tokens([last])
    limit = shorten_text.share([tokens([turn]) for turn in older], remaining)
    shown = [_within(turn, max(limit, 40)) for turn in older]
    while shown and tokens(shown) > remaining:
        shown.pop(0)
    return [*[replace(turn, text="[left out]") for turn in older[: len(older) - len(shown)]], *shown, last]


def _first_retained(turns: Sequence[Turn], budget: int, part: float) -> int:
    """The index of the first turn that a new checkpoint retains: the newest unit, and as many before it as fit in
    `part` of what the user's messages leave of `budget`, but nothing that the last checkpoint replaced."""
    mark = newest(turns)
    least = mark[1] if mark else 0
    words = _clipped([turn for turn in turns if turn.role == "user"], budget)
    remaining = int((budget - tokens(words)) * part)
    slim = list(turns[:least]) + list(without_superseded(turns[least:]))
    start = end = len(turns)
    for border in reversed([border for border in borders(turns) if border >= least]):
        unit = [turn for turn in slim[border:end] if turn.role != "user" and not is_checkpoint(turn)]
        remaining -= tokens(unit)
        if remaining < 0 and any(turn.role != "user" for turn in turns[start:]):
            break
        start = end = border
    return start


def _within(turn: Turn, most: int) -> Turn:
    """Shorten `turn` to at most `most` tokens."""
    if tokens([turn]) > most:
        turn = without_attached(turn)
    overhead = tokens([turn]) - -(-size(turn.text) // BYTES)
    room = max(0, most - overhead) * BYTES
    return replace(turn, text=trimmed(turn.text, room, _CUT))


@dataclass(frozen=True)
class Window:
    """Selects the part of a long conversation to send.

    budget: tokens for the turns (see `room`). tools: the names of all tools, to parse the replies. file: a copy of the
    checkpoint for the user; None for no copy.
    """

    budget: int
    tools: Sequence[str] = ()
    file: Path | None = None

    def turns(self, state: State) -> tuple[Turn, ...]:
        """The turns to send: until the next checkpoint, those of the last call and any new ones."""
        return shown_turns(state.turns)

    def is_due(self, state: State) -> bool:
        """Whether a checkpoint must be made before the next call."""
        mark = newest(state.turns)
        if mark and all(map(is_checkpoint, state.turns[mark[0] :])):  # a new one would be the same
            return False
        words, rest = self._sizes(state)
        return words > self.budget * WORDS or rest > (self.budget - words) * HIGH

    def ready(
        self,
        state: State,
        ask: Ask | None = None,
        known: Callable[[State], Known] | None = None,
        *,
        force: bool = False,
    ) -> State:
        """The state for the next call: with a new checkpoint if one is due or `force` is set.

        `ask` sends turns and returns the reply and its metadata (model, tokens). Without `ask`, if it raises
        LimitReached or ModelError, or if the reply is not a checkpoint, the program makes the checkpoint from the
        `known` facts and the first lines of the replies. Raises what writing the file raises.
        """
        mark = newest(state.turns)
        replies = any(turn.role == "assistant" for turn in state.turns[mark[0] if mark else 0 :])
        if not (force and replies) and not self.is_due(state):
            return state
        words, rest = self._sizes(state)
        part = min(RECENT, rest / max(1, self.budget - words) / 3)  # at most a third of the present turns
        start = _first_retained(state.turns, self.budget, part)
        facts = known(state) if known else known_from(state.turns, self.tools, state.nonce)
        text, meta = "", dict[str, str]()
        prompt = self._prompt(state, start) if ask and self.budget >= _WORTH_A_CALL else ()
        if ask and prompt:
            try:
                reply, answered = ask(prompt)
            except (LimitReached, ModelError):  # the next call of the run reports it
                pass
            else:
                text, meta = usable(reply), dict(answered)  # even an unusable reply has a cost
        meta["by"] = "model" if text else "program"
        text = text or mechanical(state.turns, self.tools, state.nonce)
        body = joined(text or "Nothing has been done yet.", facts, self._most(state))
        turn = _turn(body, {**meta, "keeps": str(len(state.turns) - start), "budget": str(self.budget)})
        state = state.with_turn(turn)
        if self.file is not None:
            from repoagent.storage.atomic import write_whole

            write_whole(self.file, f"{body}\n".encode("utf-8", "replace"))
        return state

    def _sizes(self, state: State) -> tuple[int, int]:
        """The tokens of the user's turns and of the others that are sent."""
        turns = shown_turns(state.turns)
        words = tokens(turn for turn in turns if turn.role == "user")
        return words, tokens(turns) - words

    def _prompt(self, state: State, start: int) -> tuple[Turn, ...]:
        """The turns of a request for a checkpoint. If they do not fit, leave out the newest of those that are retained
        anyway; () if that is not enough."""
        text = (files("repoagent.agent") / "prompts" / "checkpoint.md").read_text(encoding="utf-8").strip()
        words = max(100, min(_WORDS, self._most(state) * 2 // 3 // _BYTES_A_WORD // 50 * 50))
        text = text.replace("{words}", str(words))
        question = Turn("observation", text, {"kind": CHECKPOINT, "ok": "yes"})  # not saved
        mark = newest(state.turns)
        least = max(start, mark[0] + 1 if mark else 0)
        ends = [border for border in reversed(borders(state.turns)) if border >= least]
        for end in [len(state.turns), *ends]:
            turns = (*shown_turns(state.turns[:end]), question)
            if tokens(turns) <= self.budget and len(turns) > 1:
                return turns
        return ()

    def _most(self, state: State) -> int:
        """The bytes for the body of a checkpoint."""
        words = _clipped([turn for turn in state.turns if turn.role == "user"], self.budget)
        most = int((self.budget - tokens(words)) * TEXT) - tokens([_turn("", {})])
        return max(0, most - 20) * BYTES


def room(context_tokens: int, reply_tokens: int, fixed: Request) -> int:
    """The tokens left for turns in a context window of `context_tokens` after subtracting the reply and `fixed` (the
    request without turns). Raises UsageError if they are too few to work with."""
    available = context_tokens - reply_tokens - estimate(fixed).input
    if available < LEAST:
        raise UsageError(
            f"the prompt leaves about {max(0, available):,} of {context_tokens:,} tokens for the work; name "
            "fewer files, or use a model with a larger context window"
        )
    return available


def _turn(body: str, meta: Mapping[str, str]) -> Turn:
    fixed = {"kind": CHECKPOINT, "ok": "yes", "extra": CHECKPOINT}
    return Turn("observation", f"{_INTRODUCTION}\n\n{fence(body, CHECKPOINT)}", {**fixed, **meta})
