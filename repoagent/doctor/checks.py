"""All checks, in the order in which one rests on the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from repoagent.doctor import indexes, machine, models, program, repository
from repoagent.doctor.check import Check, error, guarded, halves, ok
from repoagent.errors import UsageError
from repoagent.repo.worktree import NoWorkTree, WorkTree, layout, open_worktree


def examine(start: Path, *, online: bool = False) -> list[Check]:
    """Look at everything that can be looked at from the folder `start`; with `online` the models are asked, too.

    Nothing is changed. Outside of a repository, or in a broken one, the rest is looked at all the same.
    """
    found = guarded("program", program.check_program)
    if any(check.name == "git" and check.level == "error" for check in found):
        worktree = None  # each check that runs git would say the same
    else:
        worktree, outside = _open(start)
        found += [outside] if outside else []
    where = layout(worktree) if worktree else None
    rest: list[tuple[str, Callable[[], Iterable[Check]]]] = [
        ("grammars", program.check_grammars),
        ("extras", program.check_extras),
    ]
    if not any(check.name == "git" and check.level == "error" for check in found):
        rest += [
            ("configuration", partial(models.check_configuration, where)),
            ("model", partial(models.check_models, where)),
            ("address", partial(models.check_addresses, where)),
        ]
        rest += [("online", partial(models.check_online, where))] if online else []
    if worktree:
        rest += [
            ("repository", partial(repository.check_worktree, worktree)),
            (".repoagent", partial(repository.check_folder, worktree)),
            ("interrupted", partial(repository.check_leftovers, worktree)),
            ("hooks", partial(repository.check_hooks, worktree)),
            ("history index", partial(indexes.check_history, worktree)),
            ("memory", partial(indexes.check_memory, worktree)),
            ("locks", partial(machine.check_locks, worktree)),
        ]
    rest += [
        ("sandbox", machine.check_sandbox),
        ("disk", partial(machine.check_disk, worktree)),
        ("clock", partial(machine.check_clock, worktree)),
    ]
    said = {check.found for check in found}
    for name, look in rest:
        for check in guarded(name, look):
            if check.level == "ok" or check.found not in said:  # one cause stops several checks
                found.append(check)
            said.add(check.found)
    return found


def _open(start: Path) -> tuple[WorkTree | None, Check | None]:
    """The work tree, or why there is none: being outside of one is no error."""
    try:
        return open_worktree(start), None
    except NoWorkTree:
        if broken := _broken(start):
            advice = "its HEAD, objects or refs are missing or damaged: mend it, or take a fresh clone"
            return None, error("repository", f"{broken} is there, but git takes it for no repository", advice)
        return None, ok("repository", f"{start} is in none; the checks of a repository are left out")
    except UsageError as problem:
        return None, error("repository", *halves(str(problem)))


def _broken(start: Path) -> Path | None:
    """What looks like a repository's git directory, here or above, where git has found none."""
    for folder in (start, *start.parents):
        place = folder / ".git"
        if place.is_file() or any((place / name).exists() for name in ("HEAD", "config", "objects", "refs")):
            return place
    return None
