"""The system prompt of a run, and the facts about the repository and the environment of its commands."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from repoagent.agent.approvals.policy import Gate
from repoagent.agent.parse_reply import protocol_text
from repoagent.agent.sandbox.launch.syscalls import within
from repoagent.agent.sandbox.mount_plan import writable_roots
from repoagent.agent.state import EDIT, Tool
from repoagent.config.settings import user_file
from repoagent.edit.prompt.blocks import facts_block, quoted
from repoagent.edit.prompt.instruction_files import USER_FILE, collect, context_parts
from repoagent.errors import RepoagentError
from repoagent.git.facts import Facts
from repoagent.git.files import is_ignored
from repoagent.llm.model import Part
from repoagent.storage.atomic import read_regular
from repoagent.storage.secrets import mask
from repoagent.tasks.changes.snapshot import named
from repoagent.tasks.run_context import RunContext
from repoagent.tasks.sandbox import Confinement


def system_parts(context: RunContext, tools: Sequence[Tool], further: Sequence[Part]) -> tuple[Part, ...]:
    """The constant parts of a request: the instructions, the context files, and `further` blocks (skills, agent
    types)."""
    texts = [prompt_text("run")]
    if context.request.plan_only:
        texts.append(prompt_text("plan"))
    elif all(tool.name != EDIT for tool in tools):
        texts.append(prompt_text("look"))
    texts.append(protocol_text(tools, "changes", native=context.model_setup.native))
    collected = collect(
        context.worktree.top,
        context.layout.root,
        context.settings.texts("context"),
        (),
        context.tool_context.why_not,
        user=user_file(os.environ).with_name(USER_FILE),
        budget=context.settings.whole("context_limit"),
    )
    for warning in collected.warnings:
        context.ui.say(f"warning: {warning}")
    parts = [Part("\n".join([*texts, ""]), "protocol", cache=True), *context_parts(collected), *further]
    parts = [replace(part, text=mask(part.text)) for part in parts if part.text]
    return (*parts[:-1], replace(parts[-1], cache=True))


def repository_text(facts: Facts, changed: Sequence[str], *, linked: bool, inside: str = "") -> str:
    """Facts about the repository for the start of a run, and for its next prompts if they have changed."""
    lines = [facts_block(facts)]
    if changed:
        listed = ", ".join(map(named, changed[:20])) + (
            f" and {len(changed) - 20} more" if len(changed) > 20 else ""
        )
        lines.append(f"the user's uncommitted work: {listed}")
    if inside:
        lines.append(
            f"the user is in the folder {quoted(inside)}; all paths here are relative to the top of the "
            "repository"
        )
    if linked:
        lines.append(
            "This is a linked work tree, created for you: it does not contain files that git ignores "
            "(environments, builds)."
        )
    return "The repository now:\n" + "\n".join(lines)


def prompt_text(name: str) -> str:
    return (files("repoagent.tasks") / "prompts" / f"{name}.md").read_text(encoding="utf-8")


ENVIRONMENT = "environment"  # the kind of its turn
LISTED = 600  # characters of the listing of the top folder
MOST = 2  # commands that run tests
_LARGEST = 1 << 20  # bytes of a file in _TESTS
_OURS = frozenset({".git", ".repoagent"})
_INSTALLED = frozenset({"node_modules"})
_MAKE = r"^(test|tests|check)[ \t]*:(?!=)"
# how to recognize the project's test command: a file, a pattern in it, and the command
_TESTS = (
    ("GNUmakefile", _MAKE, "make {}"),
    ("makefile", _MAKE, "make {}"),
    ("Makefile", _MAKE, "make {}"),
    ("package.json", r'"test"\s*:\s*"(?!"|.*no test specified)', "npm test"),
    ("pytest.ini", r"", "pytest"),
    ("pyproject.toml", r"^\[tool\.pytest[.\]]", "pytest"),
    ("tox.ini", r"^\[pytest\]", "pytest"),
    ("setup.cfg", r"^\[tool:pytest\]", "pytest"),
    ("Cargo.toml", r"", "cargo test"),
    ("go.mod", r"", "go test ./..."),
)


def environment_text(context: RunContext, confinement: Confinement) -> str:
    """The environment of this run: system, limits of commands, mode, check, tests and the top folder."""
    tools = {tool.name for tool in context.tools}
    lines = [f"work tree: {named(str(context.worktree.top))}; system: {_system()}"]
    if "run" in tools:
        lines += [f"commands: {sentence}" for sentence in confined_text(confinement, context.gate.why_none)]
    if asks := _asks(context.gate, runs="run" in tools, edits=EDIT in tools):
        lines.append(asks)
    if context.request.check and EDIT in tools:
        lines.append(f"check: the run is done only when `{context.request.check}` passes")
    names = tuple(_top(context))
    if "run" in tools and (tests := _tests(context.worktree.top, names)):
        lines.append(
            "tests: " + ", ".join(f"`{command}` ({file})" for command, file in [*tests.items()][:MOST])
        )
    lines.append(f"top folder: {_listing(names)}")
    return "This run:\n" + "\n".join(lines)


def confined_text(confinement: Confinement, why_none: str = "") -> Iterator[str]:
    """Yield a sentence for each limit of commands."""
    policy = confinement.policy
    if confinement.sandbox is None:
        yield f"not confined, with the user's rights: {why_none or 'there is no sandbox.'}"
        return
    home = os.path.realpath(Path.home())
    home_text = "" if any(within(home, root) for root in writable_roots(policy)) else ", HOME too,"
    *folders, last = confinement.writable()
    writable = f"{', '.join(folders)} and {last}" if folders else f"{last} only"
    network = "network" if policy.network else "no network (so no `pip install`)"
    yield (
        f"in a sandbox: {network}; they can write {writable}; all else{home_text} is read-only, "
        "including `.git`; files with secrets are hidden or empty"
    )
    yield from confinement.sandbox.narrows(policy)


def _asks(gate: Gate, *, runs: bool, edits: bool) -> str:
    """When the user is asked, or what is refused without asking."""
    mode = gate.mode
    if mode == "read-only":
        return "mode read-only: only commands that are known to only read are run" if runs else ""
    if mode == "auto":
        return (
            "mode auto: commands are refused, because no sandbox is available"
            if runs and not gate.sandbox
            else ""
        )
    actions = ["each edit"] if edits and mode == "ask" else []
    actions += ["each command that does more than read"] if runs else []
    rules = " except what their rules allow" if gate.allow else ""
    return f"mode {mode}: the user is asked about {' and '.join(actions)}{rules}" if actions else ""


def _system() -> str:
    """The name of the system, and the version of Python if the name of its program contains it."""
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = platform.system()
    python = re.search(r"python(3\.\d+)$", os.path.realpath(shutil.which("python3") or ""))
    return f"{name} ({os.uname().machine})" + (f", Python {python[1]}" if python else "")


def _top(context: RunContext) -> Iterator[str]:
    """The names in the top folder, folders with a slash; without hidden files, caches, and ignored files except
    environments and installed packages."""
    top = context.worktree.top
    with os.scandir(top) as entries:
        is_folder = {
            entry.name: entry.is_dir(follow_symlinks=False) for entry in entries if entry.name not in _OURS
        }
    ignored = is_ignored(context.worktree, list(is_folder))
    for name in sorted(is_folder, key=lambda name: (name.startswith("."), name)):
        label = f"{name}/" if is_folder[name] else name
        if context.tool_context.why_not(label) is not None or _is_file(top / name / "CACHEDIR.TAG"):
            continue
        if name not in ignored or name in _INSTALLED or _is_file(top / name / "pyvenv.cfg"):
            yield label


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113  (false for unreadable paths)


def _listing(names: Sequence[str]) -> str:
    listed: list[str] = []
    remaining = LISTED
    for name in map(named, names):
        remaining -= len(name) + 1
        if remaining < 0:
            break
        listed.append(name)
    omitted = len(names) - len(listed)
    return " ".join([*listed, *([f"and {omitted} more"] if omitted else [])]) or "empty"


def _tests(top: Path, names: Collection[str]) -> dict[str, str]:
    """The commands that run the project's tests, each with the file that defines it. Quotes nothing from the files."""
    pytest = next((f"{env}bin/pytest" for env in (".venv/", "venv/") if env in names), "")
    commands: dict[str, str] = {}
    for name, pattern, command in _TESTS:
        try:
            data = read_regular(top / name, most=_LARGEST) if name in names else None
        except RepoagentError:  # a link, or too large
            continue
        match = re.search(pattern, (data or b"").decode("utf-8", "replace"), re.MULTILINE)
        if data is not None and match:
            has_own = command == "pytest" and pytest and os.access(top / pytest, os.X_OK)
            commands.setdefault(pytest if has_own else command.format(*match.groups()), name)
    return commands
