"""`repoagent memory compact`: put old exchanges away, so that a line of each stays."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.memory.common import VERSION, amount, complete, count, name, opened
from repoagent.cli.program.model_options import max_cost_option, model_option, record_option
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import Exit, NothingDone, Refused, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.memory.common import Here
    from repoagent.edit.means import Means
    from repoagent.memory import Memory
    from repoagent.memory.turns.compact import Ask, Compacted

FEW = 3  # calls of a model that are made without a question
EXAMPLES = """\b
Examples:
  repoagent memory compact src/app.py
  repoagent memory compact --all --dry-run
  repoagent memory compact src/app.py --model anthropic/claude-haiku-4-5

The oldest exchanges go to the memory's archive/ folder, byte for byte, and each
leaves a line among the notes; the last two stay. With a model (--model, or the
option summary.model) what is worth keeping of them is noted too. It is done by
itself above `memory.limit` bytes.

4 and 5 are about the model, as for an edit."""


@click.command("compact", epilog=EXAMPLES)
@click.argument("files", metavar="FILE...", nargs=-1, shell_complete=complete)
@click.option("--all", "everything", is_flag=True, help="Compact every conversation with old exchanges.")
@click.option("--plain", is_flag=True, help="Use no model, even if one is configured for summaries.")
@model_option
@max_cost_option
@record_option
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be archived; do nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before many model calls.")
@json_option
@pass_session
def command(session: Session, /, files: tuple[str, ...], **options: Any) -> int:
    """Put the old exchanges about FILES away; all of them stay on disk."""
    if bool(files) == options["everything"]:
        raise UsageError(
            "name the files to compact, or say --all, not both"
            if files
            else "name the files to compact, or say --all"
        )
    if options["plain"] and options["model"]:
        raise UsageError("--plain asks no model: leave --model out")
    flags = {"model": options["model"], "max_cost": options["max_cost"]}
    here = opened(session, flags)
    model = options["model"] or here.settings.text_or_none("summary.model")
    if not options["model"] and model and not options["plain"]:
        here = opened(session, {**flags, "model": model})
    todo = _todo(here, files, rekey=not options["dry_run"])
    if not todo:
        raise NothingDone("there is nothing to compact: the last two exchanges of a file always stay")
    if options["dry_run"]:
        _show(here, [(memory, None, number) for memory, number in todo], None, options)
        return Exit.DONE
    ready = _ready(here, len(todo), options) if model and not options["plain"] else None
    done: list[Any] = []
    failed: Refused | None = None
    for memory, number in todo:
        try:
            found = _compact(here, memory, ready)
        except Refused as error:  # one that can't be read does not keep the others from it
            if len(todo) == 1:
                raise
            here.terminal.warn(str(error))
            failed = error
            continue
        except RepoagentError:  # a limit was reached, say: what is done is done
            if done and not options["as_json"]:
                _show(here, done, None, options)
            raise
        if found is not None:
            done.append((memory, found, number))
    if failed is not None and not done:
        raise failed
    _show(here, done, ready, options)
    return Exit.DONE if done else Exit.NOTHING


def _todo(here: Here, files: tuple[str, ...], *, rekey: bool) -> list[tuple[Memory, int]]:
    """The memories with old exchanges, and how many these are."""
    from repoagent.memory import memories
    from repoagent.memory.overview.find import needed
    from repoagent.memory.turns.compact import old_exchanges

    if files:
        named = [
            needed(here.layout, here.worktree, here.named(file, rekey=rekey), warn=here.terminal.warn)
            for file in files
        ]
        chosen = list({memory.folder: memory for memory in named}.values())
        return [(memory, number) for memory in chosen if (number := old_exchanges(memory))]
    old = []
    for memory in memories(here.layout, warn=here.terminal.warn):
        try:
            number = old_exchanges(memory)
        except Refused as error:
            here.terminal.warn(str(error))
        else:
            old += [(memory, number)] if number else []
    return old


def _ready(here: Here, calls: int, options: dict[str, Any]) -> Means:
    from repoagent.cli.screen.paying import agree, ready_for
    from repoagent.llm.naming import shown

    waiting = here.terminal.working("asking the model")
    ready = ready_for(here.settings, here.terminal, waiting, record=options["record"])
    sentence = f"{shown(ready.model.spec)} would be asked what to keep, in {count(calls, 'call')}"
    agree(here.terminal, sentence, few=options["yes"] or calls <= FEW, less="name fewer files")
    return ready


def _compact(here: Here, memory: Memory, ready: Means | None) -> Compacted | None:
    from repoagent.llm.naming import public
    from repoagent.memory.turns import compact

    if ready is None:
        return compact(memory, warn=here.terminal.warn)
    with here.terminal.working(f"asking what to keep of {memory.identity.path}"):
        return compact(
            memory, _ask(here, memory, ready), source=public(ready.model.spec), warn=here.terminal.warn
        )


def _ask(here: Here, memory: Memory, ready: Means) -> Ask:
    from repoagent.llm import Message, Part, Request
    from repoagent.llm.call import complete as call

    book = ready.meter.book
    if book is not None:
        ready.meter.book = book.about("memory compact", str(here.worktree.top), (memory.identity.path,))

    def ask(question: str) -> str:
        key = json.dumps({"compact": sha256(question.encode("utf-8", "surrogatepass")).hexdigest()})
        request = Request((), (Message("user", (Part(question, "text"),)),), ready.max_output_tokens, key)
        return call(ready.model, request, ready.meter).text

    return ask


def _show(here: Here, done: list[Any], ready: Means | None, options: dict[str, Any]) -> None:
    from repoagent.cli.screen.paying import as_object, report

    terminal = here.terminal
    if options["as_json"]:
        files = [
            {
                "path": memory.identity.path,
                "memory": memory.folder.name,
                "exchanges": number if found is None else found.exchanges,
                "bytes": None if found is None else found.bytes,
                "archive": None if found is None else str(found.archive),
                "notes": [] if found is None else [vars(note) for note in found.notes],
            }
            for memory, found, number in done
        ]
        asked = None if ready is None else as_object(ready)
        terminal.result(json.dumps({"version": VERSION, "files": files, "asked": asked}, indent=2) + "\n")
        return
    for memory, found, number in done:
        if found is None:
            terminal.result(f"{name(memory.identity.path)}: {count(number, 'exchange')} would be put away\n")
            continue
        terminal.result(
            f"{name(memory.identity.path)}: {count(found.exchanges, 'exchange')} ({amount(found.bytes)}) put away in "
            f"{name(here.shown(found.archive))}, {count(len(found.notes), 'note')} of them kept\n"
        )
    if ready is not None:
        report(terminal, ready)
