"""Kinds that a person or a repository describes: a Markdown file each, with a front matter.

A repository's kind is somebody else's text, and it becomes what a child is told to be. So it gets what the built-in
`explore` gets at most, and no model: there is nothing to trust and no switch for it. Who wants it to do more copies
the file to their own folder, and has then read it.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from repoagent.agent.approval import MODES, Mode
from repoagent.errors import Refused
from repoagent.store import Layout
from repoagent.store.report import Warn
from repoagent.work.kinds.kind import BUILT_IN, EXPLORE, Budget, Kind
from repoagent.work.kinds.narrow import narrower
from repoagent.work.texts import Place, Value, front_matter, names_in, one_line, read_text
from repoagent.work.texts.places import WhyNot

FOLDER = "agents"
LARGEST = 32 * 1024  # bytes of a file
_NAME = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")


def find_kinds(
    layout: Layout, user_folder: Path, warn: Warn, *, why_not: WhyNot | None = None
) -> dict[str, Kind]:
    """The kinds there are, by name: those that are built in, those of the person (`agents/*.md` in `user_folder`, the
    one of `config.user_file`), those of the repository (`.repoagent/agents/*.md`).

    Of two with one name the first counts. `warn` is told, a sentence for each that is left out, and for what of a
    repository's does not count.
    """
    base = layout.root.parent
    kinds = dict(BUILT_IN)
    for place in (Place(user_folder / FOLDER), Place(layout.root / FOLDER, base, base, why_not)):
        try:
            names = [name for name in names_in(place, warn) if name.endswith(".md") and name != "README.md"]
        except Refused as error:
            warn(f"{place.shown(place.folder)} {error}: no kinds of agents are taken from there")
            continue
        for name in names:
            path = place.folder / name
            try:
                kind, ignored = _read(place, path)
            except Refused as error:
                warn(f"the agent {place.shown(path)} {error}: it is left out")
                continue
            if first := kinds.get(kind.name):
                whose = {"built-in": "the one that is built in", "user": "yours"}.get(
                    first.source, "the first"
                )
                warn(f"the agent {place.shown(path)} has the name {kind.name}, as {whose}: it is left out")
                continue
            if ignored:
                warn(
                    f"the agent {place.shown(path)} comes with the repository and can't have {', '.join(ignored)} "
                    f"(to allow it, copy the file to {user_folder / FOLDER})"
                )
            kinds[kind.name] = kind
    return kinds


def _read(place: Place, path: Path) -> tuple[Kind, list[str]]:
    """The kind, and what of it does not count. Raises Refused, worded as the end of a sentence."""
    text = read_text(place, path, LARGEST)
    if text is None:
        raise Refused("is not there")
    fields, body = front_matter(text)
    fields = {key.replace("-", "_"): value for key, value in fields.items()}
    name = _one(fields, "name") or path.stem
    if not _NAME.fullmatch(name):
        raise Refused(f"has the name {name!r}, which has to be small letters, digits and dashes")
    if not (description := _one(fields, "description")):
        raise Refused("has no description in its front matter")
    if not body.strip():
        raise Refused("has no instructions below its front matter")
    mode = _mode(_one(fields, "mode"))
    tools = _tools(fields.get("tools"))
    limits = Budget(
        turns=_whole(fields, "max_turns"),
        tokens=_whole(fields, "max_tokens"),
        cost=_number(fields, "max_cost"),
        seconds=_number(fields, "max_time"),
    )
    model = _one(fields, "model") or None
    if place.own:
        return Kind(name, description, body.strip(), tools, model, limits, mode, "user"), []
    ignored = [f"the tool {tool}" for tool in sorted((tools or frozenset()) - EXPLORE)]
    ignored += ["a model of its own"] if model else []
    ignored += [f"the mode {mode}"] if mode not in (None, "read-only") else []
    kept = EXPLORE if tools is None else tools & EXPLORE
    kind = Kind(
        name, description, body.strip(), kept, None, limits, narrower("read-only", mode), "repository"
    )
    return kind, ignored


def _one(fields: dict[str, Value], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise Refused(f"has a {key} that is no text")
    return one_line(value)


def _mode(said: str) -> Mode | None:
    if not said:
        return None
    for mode in MODES:
        if said == mode:
            return mode
    raise Refused(f"has the mode {said}: choose one of {', '.join(MODES)}")


def _tools(value: Value | None) -> frozenset[str] | None:
    """A list, or words with commas or blanks between them. None for what is not said: all."""
    if value is None:
        return None
    names = re.split(r"[\s,]+", value) if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Refused("has tools that are no list of names")
    return frozenset(name for name in map(str, names) if name)


def _number(fields: dict[str, Value], key: str) -> float | None:
    said = _one(fields, key)
    if not said:
        return None
    try:
        value = float(said)
    except ValueError:
        value = -1.0
    if not (value >= 0 and math.isfinite(value)):
        raise Refused(f"has the {key} {said!r}, which is no number")
    return value


def _whole(fields: dict[str, Value], key: str) -> int | None:
    said = _one(fields, key)
    if said and not re.fullmatch(r"[0-9]{1,15}", said):
        raise Refused(f"has the {key} {said!r}, which is no whole number")
    return int(said) if said else None
