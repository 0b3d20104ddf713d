"""Tools made by others: programs that describe themselves (`run.tools`), and the entry-point group `repoagent.tools`.

Each is called through the gate. A broken one is skipped with a warning.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import Asked, Verdict
from repoagent.agent.reply_parser import DATA
from repoagent.agent.state import EDIT, OWN, Tool
from repoagent.dataclass import dataclass
from repoagent.errors import Refused, RepoagentError, UsageError
from repoagent.llm.model import fence, printable
from repoagent.storage.layout import Warn
from repoagent.storage.secrets import mask, unmask
from repoagent.tasks.markdown_files import cut, one_line
from repoagent.tasks.user_hooks import Ran, start

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

VERSION = 1
PATIENCE = 10.0  # seconds for a description
TIMEOUT = 60.0  # seconds for a call, unless it says otherwise
LONGEST_TIMEOUT = 3600.0
LONGEST = 500  # characters of its line in the prompt
NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_ARGUMENT = re.compile(r"[A-Za-z_][\w-]{0,39}")


@dataclass(frozen=True)
class Description:
    """What a program says of itself. `args` and `body` say what each is for; args None: any are taken. A `body` of ""
    means that it takes none."""

    name: str
    text: str
    args: Mapping[str, str] | None = field(default_factory=dict)
    body: str = ""
    reads_only: bool = False
    timeout: float = TIMEOUT

    @property
    def prompt(self) -> str:
        """The line of the prompt: the tag as it is written, and what it does."""
        if self.text.startswith(f"<{self.name}"):
            return self.text
        args = "".join(f' {name}="{_plain(what)}"' for name, what in (self.args or {}).items())
        tag = (
            f"<{self.name}{args}>{_plain(self.body)}</{self.name}>" if self.body else f"<{self.name}{args}/>"
        )
        return f"{tag} {self.text}"


def program(entry: str, top: Path) -> Path:
    """The program that an entry of `run.tools` names: a whole path, one from the home (`~/…`), or a name on PATH.

    Raises Refused, worded as the end of a sentence. What stands in the work tree is refused: a run could change it, and
    it runs outside of the sandbox.
    """
    given = Path(os.path.expanduser(entry))  # noqa: PTH111  (a Path raises for an unknown user)
    found = str(given) if given.is_absolute() else None if "/" in entry else shutil.which(entry)
    if found is None:
        raise Refused("is neither an absolute path nor a program on PATH")
    path = Path(os.path.normpath(found))
    if not path.is_absolute():
        raise Refused("is in a folder on PATH that is not absolute")
    real = Path(os.path.realpath(path))
    if real.is_relative_to(os.path.realpath(top)) or path.is_relative_to(top):
        raise Refused("is in the work tree, where a run could change it; move it elsewhere")
    if not real.is_file():
        raise Refused("is not there")
    if not os.access(real, os.X_OK):
        raise Refused(f"is not executable; run `chmod +x {path}`")
    return path


def describe(path: Path, top: Path) -> Description:
    """Ask the program at `path` with `--description`. Raises Refused, worded as the end of a sentence."""
    ran = start([str(path), "--description"], top=top, timeout=PATIENCE)
    if not ran.ok:
        said = cut(one_line(ran.errors or ran.output), 200)
        how = ran.ended or f"failed with exit code {ran.code}"
        raise Refused(f"{how} when called with --description" + (f": {said}" if said else ""))
    try:
        record = json.loads(ran.output)
    except (ValueError, RecursionError) as error:
        raise Refused("does not answer --description with JSON") from error
    return _checked_description(record)


def _checked_description(record: object) -> Description:
    if not isinstance(record, dict):
        raise Refused("does not answer --description with a JSON object")
    version = record.get("version", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise Refused(
            f"has a description of version {version}, but this repoagent supports only {VERSION}; update "
            "repoagent"
        )
    name, text = record.get("name"), record.get("text")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Refused("has no valid name in its description (lowercase letters, digits, dashes; at most 40)")
    if not isinstance(text, str) or not one_line(text):
        raise Refused("has no text in its description")
    body = record.get("body", "")
    if not isinstance(body, str):
        raise Refused("has a body in its description that is not text")
    reads_only, timeout = record.get("reads_only", False), record.get("timeout", TIMEOUT)
    if not isinstance(reads_only, bool):
        raise Refused("has a reads_only in its description that is not true or false")
    number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if not (number and math.isfinite(timeout) and 0 < timeout <= LONGEST_TIMEOUT):
        raise Refused(
            f"has a timeout in its description that is not a number of seconds up to {LONGEST_TIMEOUT:g}"
        )
    return Description(
        name,
        cut(one_line(text), LONGEST),
        _args(record.get("args")),
        cut(one_line(body), LONGEST),
        reads_only,
        float(timeout),
    )


def _args(given: object) -> dict[str, str] | None:
    if given is None:
        return None
    if not isinstance(given, dict) or len(given) > 20:
        raise Refused("has args in its description that are not an object of names and descriptions")
    args: dict[str, str] = {}
    for name, what in given.items():
        if not _ARGUMENT.fullmatch(name) or name == "id" or not isinstance(what, str):
            raise Refused(f"has the invalid argument name {name!r} in its description")
        args[name] = cut(one_line(what), 120)
    return args


def _plain(text: str) -> str:
    """A text for a place in an example of a tag."""
    return re.sub(r'[<>"]', "'", text)


GROUP = "repoagent.tools"

T = TypeVar("T")


def _nothing(event: Mapping[str, object]) -> None:
    pass


@dataclass(frozen=True)
class Context:
    """What the function of an entry point is given.

    top: of the work tree. settings: what the person's configuration says under `tool.NAME`, NAME being that of the
    entry point; texts. audit: writes an event to `audit.jsonl`.
    """

    top: Path
    settings: Mapping[str, str]
    audit: Callable[[Mapping[str, object]], None] = _nothing


@dataclass(frozen=True)
class PluginTool(Tool):
    """A tool that says whether it only reads; a plain `Tool` is asked about as one that may do anything."""

    reads_only: bool = False


def installed() -> tuple[EntryPoint, ...]:
    """The entry points there are, by name."""
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=GROUP), key=lambda point: point.name))


class Defect(Refused):
    """Something is wrong in code that is not ours; worded as the end of a sentence."""


def tools_of(point: EntryPoint, context: Context) -> list[Tool]:
    """The tools that an entry point makes. Raises Defect, whatever is wrong with it."""
    return _contained(lambda: list(_checked_tools(point.load()(context))))


def _checked_tools(made: object) -> Iterator[Tool]:
    for tool in made if isinstance(made, Iterable) else [made]:
        if not isinstance(tool, Tool):
            raise Defect(f"returns {type(tool).__name__} instead of a Tool")
        yield tool


def contained(tool: Tool) -> Tool:
    """The same tool, but what is wrong in it is told to the model, and does not end the run."""

    def perform(action: Action) -> Observation:
        try:
            seen: object = _contained(lambda: tool.perform(action))
        except Defect as error:
            return Observation(tool.name, f"the tool {tool.name} {error}.", ok=False)
        except (Refused, UsageError) as error:
            return Observation(tool.name, str(error), ok=False)
        if not isinstance(seen, Observation):
            return Observation(tool.name, f"the tool {tool.name} returned no observation.", ok=False)
        return seen

    return replace(tool, perform=perform)


def _contained(make: Callable[[], T]) -> T:
    """What `make` returns. Anything may come out of other people's code, and here it is a sentence."""
    try:
        return make()
    except RepoagentError:
        raise
    except (Exception, SystemExit) as error:
        said = cut(one_line(str(error)), 200)
        raise Defect(f"failed: {type(error).__name__}" + (f": {said}" if said else "")) from error


Audit = Callable[[Mapping[str, object]], None]


def program_tool(path: Path, description: Description, top: Path, audit: Audit) -> Tool:
    """The tool that `path` is. It runs at `top`, with the person's rights and environment."""
    name = description.name

    def perform(action: Action) -> Observation:
        if problem := _misuse(action, description):
            return Observation(name, problem, ok=False)
        args = {key: unmask(value) for key, value in action.args.items()}
        given = {"version": VERSION, "name": name, "args": args, "body": unmask(action.body), "top": str(top)}
        try:
            ran = start(
                [str(path)],
                top=top,
                stdin=json.dumps(given) + "\n",
                environment={f"ARG_{key.upper().replace('-', '_')}": value for key, value in args.items()},
                timeout=description.timeout,
            )
        except Refused as error:
            return Observation(name, f"{error}.", ok=False)
        audit(
            {
                "kind": "tool",
                "name": name,
                "command": str(path),
                "exit": ran.code,
                "seconds": round(ran.seconds, 3),
            }
        )
        return observed(name, ran)

    return Tool(name, description.prompt, perform)


def observed(name: str, ran: Ran) -> Observation:
    """What a program printed: JSON with `text`, `ok` and `data`, or plain text. A failure tells the errors too."""
    text, ok, data = _answer(ran.output)
    ok = ok and ran.ok
    parts = [fence(mask(printable(text)), f'output tool="{name}"')] if text.strip() else []
    if not ran.ok:
        parts.insert(0, f"{name} {ran.ended or f'failed with exit code {ran.code}'}.")
    if not ok and ran.errors.strip():
        parts.append(fence(mask(printable(ran.errors[-4096:])), f'errors tool="{name}"'))
    return Observation(name, "\n".join(parts) or f"{name} printed nothing.", ok=ok, data=data)


def _answer(output: str) -> tuple[str, bool, dict[str, object]]:
    try:
        record = json.loads(output) if output.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        return output, True, {}
    data = record.get("data")
    return record["text"], record.get("ok", True) is True, data if isinstance(data, dict) else {}


def _misuse(action: Action, description: Description) -> str:
    """What is wrong with the tag, "" for nothing."""
    if description.args is not None and (unknown := sorted(set(action.args) - set(description.args))):
        takes = ", ".join(description.args) or "no arguments"
        return f"unknown argument {', '.join(unknown)}: {description.name} takes {takes}."
    if action.body.strip() and not description.body and not description.text.startswith("<"):
        return f"{description.name} takes no body: {description.prompt}"
    return ""


Decide = Callable[[Asked], Verdict]

# Names that mean something in a reply or in what a model is shown.
_MEANT = {EDIT, "observation", "user", "assistant", "system", "human", *DATA, *(tool.name for tool in OWN)}
_MEANT |= {"file", "content", "context", "matches", "output", "errors", "files", "skills", "agents", "agent"}
_SHOWN = 500  # characters of an action, for the person who is asked


def plugin_tools(
    top: Path,
    programs: Sequence[str],
    *,
    taken: Collection[str],
    decide: Decide,
    warn: Warn,
    settings: Mapping[str, str] | None = None,
    audit: Callable[[Mapping[str, object]], None] = lambda event: None,
) -> tuple[Tool, ...]:
    """The tools of installed packages (entry points `repoagent.tools`), then those of `programs` (`run.tools`).

    taken: the names of the tools there are already. decide: `Gate.decide`, asked before each call of a tool that does
    more than read. warn: is told a sentence for each that is left out. settings: of all of them, `NAME.KEY` each (what
    `Settings.names("tool")` gives). Nothing of a repository is looked at.
    """
    tools: dict[str, Tool] = {}

    def add(tool: Tool, of: str, *, reads_only: bool) -> None:
        if not (isinstance(tool.name, str) and NAME.fullmatch(tool.name)):
            warn(f"{of} defines a tool with the invalid name {tool.name!r}; skipped it")
        elif tool.name in tools or tool.name in taken or tool.name in _MEANT:
            warn(f"{of} defines a tool {tool.name}, but that name is taken; skipped it")
        else:
            tools[tool.name] = replace(tool, needs="nothing") if reads_only else gated(tool, decide)

    for point in installed():
        start = f"{point.name}."
        own = {key[len(start) :]: value for key, value in (settings or {}).items() if key.startswith(start)}
        of = f"the plugin {point.name} ({point.value})"
        try:
            made = tools_of(point, Context(top, own, audit))
        except (Refused, UsageError) as error:
            warn(f"{of} {error}; skipped it")
            continue
        for tool in made:
            add(contained(tool), of, reads_only=isinstance(tool, PluginTool) and tool.reads_only)
    for entry in programs:
        of = f"the tool {entry} of run.tools"
        try:
            path = program(entry, top)
            said = describe(path, top)
        except Refused as error:
            warn(f"{of} {error}; skipped it")
            continue
        add(program_tool(path, said, top, audit), of, reads_only=said.reads_only)
    return tuple(tools.values())


def gated(tool: Tool, decide: Decide) -> Tool:
    """The tool, asked about before each call. "Always" allows it whatever its arguments are."""

    def perform(action: Action) -> Observation:
        asked = Asked(
            "tool", shown(action), (f"tool:{tool.name}(*",), "it runs with your rights, outside the sandbox"
        )
        verdict = decide(asked)
        if not verdict.allowed:
            return Observation(tool.name, f"{tool.name} was not run: {verdict.reason}", ok=False)
        return tool.perform(action)

    return replace(tool, perform=perform)


def shown(action: Action) -> str:
    """An action on a line, for the person who is asked: `weather(city="Oslo")`, a body after it."""
    args = ", ".join(f'{key}="{value}"' for key, value in action.args.items())
    body = f" {action.body.strip()}" if action.body.strip() else ""
    return cut(re.sub(r"\s+", " ", printable(f"{action.kind}({args}){body}")), _SHOWN)
