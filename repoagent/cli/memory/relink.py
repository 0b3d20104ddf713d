"""`repoagent memory relink`: tie a memory to another file, or back to the one it had."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.memory.common import VERSION, complete, name, opened
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import Exit, NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.cli.memory.common import Here
    from repoagent.memory import Memory
    from repoagent.memory.overview.find import Named

EXAMPLES = """\b
Examples:
  repoagent memory relink src/new.py                    what can be taken back
  repoagent memory relink src/new.py --from src/old.py
  repoagent memory relink a.py --from b.py --swap       each gets the other's
  repoagent memory relink src/new.py --undo             back to where it was

The memory that --from names goes to FILE, and the file that it had until now
is a stranger to it from then on. It is recorded with its reason and can be
taken back. Where FILE has another text, older notes say so from then on."""


@click.command("relink", epilog=EXAMPLES)
@click.argument("file", metavar="FILE", shell_complete=complete)
@click.option(
    "--from", "source", metavar="PATH|ID", shell_complete=complete,
    help="The memory, by the path of its file, or by its name or id.",
)  # fmt: skip
@click.option("--swap", is_flag=True, help="If FILE has a memory, give it to the other file.")
@click.option("--undo", is_flag=True, help="Undo the last relink of FILE.")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be done; do nothing.")
@json_option
@pass_session
def command(session: Session, /, file: str, **options: Any) -> int:
    """Tie a memory to FILE, or take back that it was. Alone, it shows what can be taken back."""
    if options["undo"] and (options["source"] or options["swap"]):
        raise UsageError("--undo takes back the last re-keying: leave --from and --swap out")
    if options["swap"] and not options["source"]:
        raise UsageError("--swap needs --from: say whose memory FILE is to have")
    here = opened(session)
    if options["source"]:
        return _link(here, file, options)
    found = here.named(file)
    return _take_back(here, found, options) if options["undo"] else _show(here, found, options)


def _link(here: Here, file: str, options: dict[str, Any]) -> int:
    from repoagent.memory.overview.find import needed
    from repoagent.repo.worktree import relative

    memory = needed(here.layout, here.worktree, here.named(options["source"]), warn=here.terminal.warn)
    path = relative(here.worktree, file, here.cwd)
    if memory.identity.path_in(str(here.worktree.top)) == path and here.named(file).memory is not None:
        raise NothingDone(f"{path} has that memory already")
    return _relink(here, memory, path, options, swap=options["swap"])


def _take_back(here: Here, found: Named, options: dict[str, Any]) -> int:
    from repoagent.memory.identity.relink import is_swapped, last_step
    from repoagent.memory.overview.find import needed

    memory = needed(here.layout, here.worktree, found, warn=here.terminal.warn)
    step = last_step(memory.identity, here.worktree)
    if step is None:
        raise NothingDone(
            f"there is no re-keying of {found.path} to take back: its memory has been there from the first"
        )
    swap = is_swapped(here.layout, here.worktree, step, warn=here.terminal.warn)
    return _relink(here, memory, step.before, options, swap=swap)


def _relink(here: Here, memory: Memory, path: str, options: dict[str, Any], *, swap: bool) -> int:
    from repoagent.memory.identity.relink import relink

    before = memory.identity.path_in(str(here.worktree.top))
    linked = relink(
        here.layout, here.worktree, memory, path,
        swap=swap, dry_run=options["dry_run"], warn=here.terminal.warn,
    )  # fmt: skip
    reason = linked.reason
    content = {
        "version": VERSION,
        "memory": memory.folder.name,
        "before": before,
        "path": path,
        "reason": reason,
        "swapped": swap,
        "done": not options["dry_run"],
    }
    if options["as_json"]:
        here.terminal.result(json.dumps(content, indent=2) + "\n")
        return Exit.DONE
    would = "would be" if options["dry_run"] else "is"
    here.terminal.result(f"the memory of {name(before)} {would} that of {name(path)} now\n")
    if swap:
        here.terminal.result(f"and the one that {name(path)} had {would} that of {name(before)}\n")
    if reason.startswith("linked by hand to another text"):
        here.terminal.note("the text is another one: notes from before say so from now on", "dim")
    if not options["dry_run"]:
        word = shlex.quote(path) if path.isprintable() else memory.folder.name
        here.terminal.note(f"to take that back: repoagent memory relink --undo {word}", "dim")
    return Exit.DONE


def _show(here: Here, found: Named, options: dict[str, Any]) -> int:
    """Which re-keyings moved the memory, and which one can be taken back."""
    from repoagent.memory.identity.relink import last_step, steps
    from repoagent.memory.overview.find import needed

    memory = needed(here.layout, here.worktree, found, warn=here.terminal.warn)
    known, last = steps(memory.identity), last_step(memory.identity, here.worktree)
    if options["as_json"]:
        content = {
            "version": VERSION,
            "memory": memory.folder.name,
            "path": memory.identity.path_in(str(here.worktree.top)),
            "rekeyings": [vars(one) for one in memory.identity.rekeyings],
            "can_be_taken_back": None if last is None else {"before": last.before, **vars(last.rekeying)},
        }
        here.terminal.result(json.dumps(content, indent=2) + "\n")
        return Exit.DONE
    if not known:
        here.terminal.note(
            f"the memory of {name(found.path)} has been there from the first: nothing to take back"
        )
        return Exit.NOTHING
    for step in known:
        mark = "*" if step == last else " "
        one = step.rekeying
        here.terminal.result(
            f"{mark} {one.time[:16]}  {name(step.before)} to {name(step.after)}: {name(one.reason)}\n"
        )
    if last is not None:
        here.terminal.note(
            f"--undo takes back the one with the mark: to {name(last.before)}; --dry-run says what would be done",
            "dim",
        )
    return Exit.DONE
