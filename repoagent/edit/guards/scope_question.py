"""Files outside the scope that have to change too: which ones to offer, and how to add them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from repoagent.agent.actions import Action, Observation
from repoagent.edit.guards.scope import why_content_is_off_limits
from repoagent.edit.guards.sensitive import concerns
from repoagent.edit.tools import ToolContext, is_ignored_here, read_tool
from repoagent.errors import Refused, RepoagentError
from repoagent.git.files import FileChange, Source, read_source
from repoagent.llm.conversation import Turn
from repoagent.patch.files import bad_path

_PATH = re.compile(r"[^\s`'\"()<>\[\]{},;:*|]+")
MOST = 8  # files


class OutOfScope(Refused):
    """Other files have to change too, and there is no user to ask. The model's answer is kept."""

    def __init__(self, paths: Sequence[str], scope: Sequence[str]) -> None:
        has = "has" if len(paths) == 1 else "have"
        super().__init__(
            f"{', '.join(paths)} {has} to change too, but this edit may change only {', '.join(scope)}: run the same "
            "command with --scope repo (edit.scope) to allow it; the model's answer is kept and reused"
        )


def exists(tool_context: ToolContext, path: str) -> bool:
    """Whether the file exists and the model may know it."""
    return _source(tool_context, path) is not None


def can_be_offered(tool_context: ToolContext, paths: Iterable[str]) -> list[str]:
    """The paths that are text files of the repository, out of scope, and not withheld, ignored, sensitive or
    generated."""
    found = []
    for path in dict.fromkeys(paths):
        source = (
            _source(tool_context, path)
            if path not in tool_context.editable | set(tool_context.request.read)
            else None
        )
        if source is None or source.binary or why_content_is_off_limits(source.data or b""):
            continue
        change = FileChange(path, path, source.data, source.data, source.mode, source.mode)
        if concerns([change], (), tool_context.worktree, tool_context.request.sensitive) or is_ignored_here(
            tool_context, path
        ):
            continue
        found.append(path)
    return found


def files_named_in(tool_context: ToolContext, text: str) -> list[str]:
    """The files that a text names and that can be offered."""
    names = (word.rstrip(".!?").removeprefix("./") for word in _PATH.findall(text))
    return can_be_offered(tool_context, (name for name in names if "." in name or "/" in name))[:MOST]


def allow_files(tool_context: ToolContext, paths: Sequence[str]) -> bool:
    """Ask whether these files may be changed too and add them to the scope on a yes; a no holds for the whole edit.

    Raises OutOfScope where there is no user to ask.
    """
    if tool_context.allow is None or not paths:
        return False
    answer = tool_context.allow(paths)
    if answer is None:
        raise OutOfScope(paths, sorted(tool_context.editable))
    if not answer:
        tool_context.allow = None
        return False
    for path in paths:
        add_to_scope(tool_context, path)
    return True


def add_to_scope(tool_context: ToolContext, path: str) -> None:
    """Let the model change this file; it must quote lines that it has not seen exactly."""
    if path not in tool_context.draft.sources:
        tool_context.draft = tool_context.draft.with_source(read_source(tool_context.worktree, path))
        tool_context.seen.setdefault(path, [])
    tool_context.editable.add(path)


def scope_observation(tool_context: ToolContext, paths: Sequence[str]) -> Observation:
    """Tell the model which files it may change from now on, with their text."""
    texts = [f"You may change {', '.join(paths)} too."]
    texts += [read_tool(tool_context).perform(Action("read", {"path": path})).text for path in paths]
    blobs = {path: tool_context.draft.sources[path].blob for path in paths}
    return Observation("scope", "\n\n".join(texts), ok=False, data={"allowed": blobs})


def allowed_files(turn: Turn) -> dict[str, str]:
    """The files that an observation adds to the scope, with their blobs; none if its record is broken."""
    try:
        blobs = json.loads(turn.meta.get("allowed", "{}"))
    except ValueError:
        return {}
    return blobs if isinstance(blobs, dict) and all(isinstance(blob, str) for blob in blobs.values()) else {}


def with_shown(tool_context: ToolContext, seen: Observation, paths: Sequence[str]) -> Observation:
    """`seen` with the text of the files added to the scope."""
    more = scope_observation(tool_context, paths)
    text = seen.text if seen.ok else f"{seen.text}\n\n{more.text}"
    return replace(seen, text=text, data={**seen.data, **more.data})


def _source(tool_context: ToolContext, path: str) -> Source | None:
    if bad_path(path) is not None or tool_context.why_not(path):
        return None
    try:
        source = read_source(tool_context.worktree, path)
    except RepoagentError:  # a folder, a link, a submodule
        return None
    return None if source.data is None else source
