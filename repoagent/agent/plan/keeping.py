"""The plan's file: read whole, changed under a lock, and never over what a person has saved meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from repoagent.agent.actions import Action, Observation
from repoagent.agent.plan.action import TEXT, answer, is_done, performed, short
from repoagent.agent.plan.changes import numbered
from repoagent.agent.plan.document import EMPTY, Plan
from repoagent.agent.plan.lines import Task
from repoagent.agent.tool import Needs, Tool
from repoagent.errors import Busy, Refused, RepoagentError
from repoagent.llm.quoting import fence

MOST = 1 << 20  # bytes: what is larger is no plan
_TRIES = 50
_BOM = b"\xef\xbb\xbf"


def read_plan(file: Path) -> Plan:
    """The plan in `file`; one without tasks when there is no file.

    Raises Refused when it is no regular file, not UTF-8, or larger than 1 MiB.
    """
    return _decoded(file, _bytes(file))


def open_tasks(file: Path) -> tuple[Task, ...]:
    """What of the plan is neither done nor dropped. Raises as `read_plan`."""
    return read_plan(file).open


def task_tool(file: Path) -> Tool:
    """The tool `task`: adds to the plan in `file` and changes it, and answers with the plan as it stands."""

    def perform(action: Action) -> Observation:
        said: list[str] = []

        def change(plan: Plan) -> Plan:
            made, sentence = performed(plan, action)
            said.append(sentence)
            return made

        try:
            plan = update_plan(file, change)
        except RepoagentError as error:
            return Observation("task", str(error), ok=False, blocks=False)
        tasks = [{"id": task.id, "title": task.title, "state": task.state} for task in plan.tasks]
        return Observation(
            "task",
            said[-1] or answer(plan),
            data={"tasks": tasks},
            once=fence(short(plan), "plan") if said[-1] and plan.tasks else "",
        )

    def needs(action: Action) -> Needs:
        if not action.args and not action.body.strip():
            return "nothing"
        return "all" if is_done(action) else "writes"

    return Tool("task", TEXT, perform, needs=needs)


def update_plan(file: Path, change: Callable[[Plan], Plan] = numbered) -> Plan:
    """Put the plan in `file` through `change` and keep what comes of it; return that. Every task in it has its id.

    What a person saves meanwhile is not overwritten: `change` is made of the fresh text then. Raises as `read_plan`
    does and as `change` does (nothing is written then), Busy when the file is locked or being written all the time.
    """
    from repoagent.store import locked

    with locked(file.with_name(f"{file.name}.lock"), what="the plan"):
        late: bytes | None = None
        for _ in range(_TRIES):
            before = _bytes(file)
            plan = _decoded(file, before if late is None else late)
            made = numbered(change(plan))
            if made == plan and late is None:
                return made
            replaced, late = _replaced(file, before, made)
            if replaced and late is None:
                return made
    raise Busy(f"{file} is being saved all the time by another program: try again")


def _replaced(file: Path, before: bytes | None, plan: Plan) -> tuple[bool, bytes | None]:
    """Write the plan, unless the file does not hold the bytes `before` any more; and what a person had written into the
    old file just before it was replaced, None for nothing."""
    from repoagent.store import write_whole
    from repoagent.store.folders import folder

    data = (_BOM if before and before.startswith(_BOM) else b"") + plan.text.encode()
    # durable before the last look, so that little time passes after it
    fresh = file.with_name(f"{file.name}.new")
    write_whole(fresh, data, settled=False)
    with folder(file.parent) as parent, _second_name(parent, file, before) as old:
        if _bytes(file) != before:
            os.unlink(fresh.name, dir_fd=parent)
            return False, None
        os.replace(fresh.name, file.name, src_dir_fd=parent, dst_dir_fd=parent)
        late = _bytes(old) if old else before
    return True, None if late == before else late


@contextmanager
def _second_name(parent: int, file: Path, before: bytes | None) -> Iterator[Path | None]:
    """Another name for the file as it is now, to read it by when it was replaced; None where there can be none."""
    old = file.with_name(f"{file.name}.old")
    made = False
    if before is not None:
        with suppress(FileNotFoundError):
            os.unlink(old.name, dir_fd=parent)
        with suppress(OSError):  # a file system without links: who writes in this very moment is not noticed
            os.link(file.name, old.name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
            made = True
    try:
        yield old if made else None
    finally:
        if made:
            os.unlink(old.name, dir_fd=parent)


def _bytes(file: Path) -> bytes | None:
    from repoagent.store import read_regular

    data = read_regular(file)
    if data is not None and len(data) > MOST:
        raise Refused(f"{file} has {len(data):,} bytes and is no plan: shorten it, or move it away")
    return data


def _decoded(file: Path, data: bytes | None) -> Plan:
    if data is None:
        return Plan(EMPTY)
    try:
        return Plan(data.removeprefix(_BOM).decode())
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Refused(f"{file} is not UTF-8 (line {line}): save it as UTF-8, or move it away") from error
