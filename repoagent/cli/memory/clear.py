"""`repoagent memory clear`: take away what is known about files, or bring it back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.memory.common import VERSION, amount, complete, count, name, opened
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import Exit, NothingDone, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from repoagent.cli.memory.common import Here
    from repoagent.memory import Memory
    from repoagent.memory.care.clear import Part

EXAMPLES = """\b
Examples:
  repoagent memory clear src/app.py
  repoagent memory clear src/app.py --conversation --yes
  repoagent memory clear --undo src/app.py

Nothing is deleted: it goes to the archive/ folder of the memory, where no
prompt and no search finds it, and --undo brings the last of it back. To be rid
of it for good, delete that folder. Which file the memory belongs to is kept."""


@click.command("clear", epilog=EXAMPLES)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, shell_complete=complete)
@click.option("--notes", "parts", flag_value="notes", multiple=True, help="Clear the notes.")
@click.option(
    "--conversation", "parts", flag_value="conversation", multiple=True, help="Clear the conversation."
)
@click.option("--edits", "parts", flag_value="edits", multiple=True, help="Clear the list of edits.")
@click.option("--all", "everything", is_flag=True, help="Clear all of these (the default).")
@click.option("--undo", is_flag=True, help="Restore what was cleared last.")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be cleared; do nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@pass_session
def command(session: Session, /, files: tuple[str, ...], **options: Any) -> int:
    """Take away what is known about FILES, and put it into the archive."""
    from repoagent.memory.care.clear import PARTS
    from repoagent.memory.overview.find import needed

    parts: list[Part] = [part for part in PARTS if part in options["parts"]]
    if options["undo"] and (parts or options["everything"]):
        raise UsageError(
            "--undo brings back what was cleared last, whatever it was: leave the other options out"
        )
    here = opened(session)
    chosen: dict[Path, Memory] = {}
    for file in files:
        found = here.named(file, rekey=not options["dry_run"])
        memory = needed(here.layout, here.worktree, found, warn=here.terminal.warn)
        chosen[memory.folder] = memory
    memories = list(chosen.values())
    if options["undo"]:
        return _undo(here, memories, options)
    return _clear(here, memories, parts if parts and not options["everything"] else list(PARTS), options)


def _clear(here: Here, memories: list[Memory], parts: list[Part], options: dict[str, Any]) -> int:
    from repoagent.memory.care.clear import clear, held

    there = {memory.folder: held(memory, parts) for memory in memories}
    full = [memory for memory in memories if there[memory.folder]]
    if not full:
        raise NothingDone("there is nothing to clear")
    for memory in full:
        what = ", ".join(f"{part} ({amount(size)})" for part, size in there[memory.folder].items())
        if not options["as_json"]:
            here.terminal.note(f"{name(memory.identity.path)}: {what}")
    if options["dry_run"]:
        _tell(here, [(memory, None, there[memory.folder]) for memory in full], options)
        return Exit.DONE
    _agree(here, f"Clear that of {count(len(full), 'file')}", options)
    done = []
    for memory in full:
        put = clear(memory, parts)
        if put is not None:
            done.append((memory, put.folder, put.parts))
            if not options["as_json"]:
                here.terminal.note(f"it is in {here.shown(put.folder)} now", "dim")
    _tell(here, done, options)
    if done and not options["as_json"]:
        here.terminal.note(f"to have it back: repoagent memory clear --undo {_words(full)}", "dim")
    return Exit.DONE if done else Exit.NOTHING


def _undo(here: Here, memories: list[Memory], options: dict[str, Any]) -> int:
    from repoagent.memory.care.clear import bring_back, put_away

    last = [(memory, puts[-1]) for memory in memories if (puts := put_away(memory))]
    if not last:
        raise NothingDone("nothing that was cleared is in the archive")
    for memory, put in last:
        if not options["dry_run"]:
            bring_back(memory, put)
        if not options["as_json"]:
            verb = "would be" if options["dry_run"] else "is"
            here.terminal.note(f"{name(memory.identity.path)}: {verb} brought back: {', '.join(put.parts)}")
    _tell(here, [(memory, put.folder, put.parts) for memory, put in last], options)
    return Exit.DONE


def _agree(here: Here, question: str, options: dict[str, Any]) -> None:
    if options["yes"]:
        return
    if not here.terminal.can_ask or options["as_json"]:
        raise UsageError("there is nobody to ask: say --yes to clear it, or --dry-run to see what would go")
    if here.terminal.ask(question, {"y": "put it into the archive", "n": "leave all as it is"}) == "n":
        raise NothingDone("nothing was cleared")


def _tell(here: Here, done: list[Any], options: dict[str, Any]) -> None:
    if not options["as_json"]:
        return
    files = [
        {
            "path": memory.identity.path,
            "memory": memory.folder.name,
            "parts": dict(parts),
            "archive": None if place is None else str(place),
        }
        for memory, place, parts in done
    ]
    kind = "undo" if options["undo"] else "clear"
    content = {"version": VERSION, "did": None if options["dry_run"] else kind, "files": files}
    here.terminal.result(json.dumps(content, indent=2) + "\n")


def _words(memories: list[Memory]) -> str:
    import shlex

    paths = [memory.identity.path for memory in memories]
    return " ".join(
        shlex.quote(path) if path.isprintable() else memory.folder.name
        for path, memory in zip(paths, memories, strict=True)
    )
