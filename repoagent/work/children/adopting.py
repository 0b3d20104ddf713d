"""What a child has changed becomes a part of its parent's change: when it ends, or when a killed parent goes on."""

from __future__ import annotations

from collections.abc import Callable

from repoagent.agent import fence
from repoagent.errors import Busy, RepoagentError, UsageError
from repoagent.llm.conversation import read
from repoagent.llm.usage import cost_text
from repoagent.store.atomic import sweep
from repoagent.store.locks import locked
from repoagent.store.masking import mask
from repoagent.work.changes import open_ledger
from repoagent.work.children.order import read_order
from repoagent.work.desk import Desk
from repoagent.work.home import Home, Run, refreshed
from repoagent.work.home.place import names_of_folders
from repoagent.work.home.record import LONGEST, Record

_WAIT = 15.0  # seconds for a child to end whose parent was killed: it looks once a second, and may be writing


def take_over(desk: Desk, home: Home) -> list[str]:
    """Take the changes of the child that lived in `home` over into the run's; their names."""
    for kept in home.folders:  # it may have been killed
        sweep(kept)
    ledger = open_ledger(desk.worktree, home.changes)
    changes = ledger.present()
    if not changes and not ledger.candidates:
        return []
    known = {(change.name, change.after) for change in desk.ledger.changes}  # a kill came in between
    desk.ledger.mixed = {**desk.ledger.mixed, **ledger.mixed}
    desk.ledger.wrote([change for change in changes if (change.name, change.after) not in known])
    desk.ledger.found(ledger.candidates)
    ledger.drop([change.name for change in (*ledger.changes, *ledger.candidates)])
    return [change.name for change in changes]


def known_by(name: str) -> str:
    """What stands with the end of a child in its parent's conversation: by that it is known what was told already."""
    return f"({name})"


ENDED = {
    "done": "finished",
    "answered": "answered",
    "unfinished": "left its edit incomplete",
    "limit": "reached a limit",
    "rejected": "declined",
}
GOOD = ("done", "answered")


def ended(run: Run, text: str, *, ok: bool) -> str:
    """How a child has ended, what it used, and its answer or why it has none: for its parent's conversation."""
    head = f"The child {ENDED.get(run.state, 'failed')} {known_by(run.name)}, {spent(run.record)}:"
    return f"{head}\n{fence(mask(text).strip(), 'answer')}" if ok else f"{head} {mask(text)[:1000]}"


def spent(record: Record) -> str:
    """What a run has used, in a few words: "3 calls, 12,345 tokens, $0.0210"."""
    calls = f"{record.turns} call{'s' * (record.turns != 1)}, {record.tokens:,} tokens"
    return calls if record.cost is None else f"{calls}, {cost_text(record.cost)}"


def adopt(desk: Desk, count: Callable[[Record], None]) -> str:
    """After a kill: take over what children have left, and say so to the model; "" where there is nothing. How a child
    ended is told, and `count` gets the record of what it used, unless the conversation has its result already."""
    said = []
    told = "\n".join(turn.text for turn in desk.state.turns if turn.role == "observation")
    for name in sorted(names_of_folders(desk.layout)):
        home = Home(desk.layout, name)
        sweep(home.folder)  # of one that was killed as it was born
        if not (home.folder / "child.json").is_file() or not _is_ours(desk, home):
            continue
        try:
            with locked(home.lock, timeout=_WAIT, what=f"the run {name}"):
                changed = take_over(desk, home)
        except Busy:
            desk.talk.say(f"warning: the child {name} is still at work: `repoagent runs stop {name}` ends it")
            continue
        run = refreshed(Run(home, Record(), ""))  # its lock is free: it has ended
        if known_by(name) not in told and run.record.begun:
            count(run.record)
            said.append(
                ended(run, _answer(run), ok=True)
                if run.state in GOOD
                else f"A child was ended {known_by(name)}, {spent(run.record)}."
            )
        if changed:
            said.append(
                f"A child that was ended had changed {', '.join(changed)}: a part of your change now."
            )
    return "\n".join(said)


def _answer(run: Run) -> str:
    """The last word of a child that was done."""
    if len(run.record.text) < LONGEST:
        return run.record.text
    conversation = read(run.home.conversation)  # which has all of it
    return conversation.turns[-1].text if conversation and conversation.turns else run.record.text


def _is_ours(desk: Desk, home: Home) -> bool:
    try:
        return read_order(home).parent == desk.home.name
    except UsageError:
        return False
    except RepoagentError as error:
        desk.talk.say(f"warning: {error}")
        return False
