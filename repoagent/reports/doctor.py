"""The checks of `repoagent doctor`, which change nothing.

CHECKS lists them: each is a function of the work tree, which is None outside a repository.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from repoagent import __version__
from repoagent.display_text import plural
from repoagent.errors import ModelError, RepoagentError, UsageError
from repoagent.git.process import git, git_output
from repoagent.git.worktree import OLDEST_GIT, NoWorkTree, WorkTree, layout_of, open_worktree
from repoagent.llm.registry import PROVIDERS, ModelStatus, parse_spec

if TYPE_CHECKING:
    from repoagent.config.settings import Settings

Level = Literal["ok", "warning", "error"]

SHARED = {"config.toml", "context.md", ".gitignore", "skills", "agents"}  # entries of .repoagent for a team
EXTRAS = {  # by name: modules; the extra is installed if one of them is
    **{provider.name: provider.requires[:1] for provider in PROVIDERS.values() if provider.requires},
    "languages": ("tree_sitter_ruby", "tree_sitter_language_pack", "tree_sitter_languages"),
    "mcp": ("mcp",),
    "python": ("jupyter_client",),
    "browse": ("trafilatura",),
}


class DoctorCheck(NamedTuple):
    """The `result` of a check, and the remedy (`advice`) for a problem unless the result names it."""

    name: str
    level: Level
    result: str
    advice: str = ""


def problem(name: str, sentence: str, level: Level = "warning") -> DoctorCheck:
    """Make a check from the first line of an error message."""
    return DoctorCheck(name, level, sentence.strip().splitlines()[0])


def run_all_checks(start: Path) -> list[DoctorCheck]:
    """Run all checks in the folder `start`.

    Outside a repository, or in a broken one, only the checks that need no repository run.
    """
    checks = list(run_check("program", check_program))
    has_git = not any(check.name == "git" and check.level == "error" for check in checks)
    worktree = None
    try:
        worktree = open_worktree(start) if has_git else None
    except NoWorkTree:
        result = f"{start} is not in a git repository; skipped the repository checks"
        checks.append(DoctorCheck("repository", "ok", result))
    except UsageError as refusal:
        checks.append(problem("repository", str(refusal), "error"))
    available = {"": True, "git": has_git, "worktree": worktree is not None}
    for name, needs, function in CHECKS:
        for check in run_check(name, function, worktree) if available[needs] else ():
            # one cause may fail several checks
            if check.level == "ok" or all(check.result != earlier.result for earlier in checks):
                checks.append(check)
    return checks


def run_check(
    name: str, function: Callable[..., Iterable[DoctorCheck]], *arguments: object
) -> Iterator[DoctorCheck]:
    """Yield the results of a check. An exception becomes a result with the level "error"."""
    try:
        yield from function(*arguments)
    except RepoagentError as failure:
        yield problem(name, str(failure), "error")
    except OSError as failure:
        path, result = failure.filename, failure.strerror or repr(failure)
        advice = "fix this and run `repoagent doctor` again"
        if path and isinstance(failure, PermissionError):
            advice = _permit(path)
        yield DoctorCheck(name, "error", f"{result}: {path}" if path else result, advice)


def _permit(path: Path | str) -> str:
    return f"chown it to yourself, or run `chmod u+rwX {path}`"


def check_program() -> Iterator[DoctorCheck]:
    yield DoctorCheck("repoagent", "ok", f"{__version__} in {Path(__file__).parents[1]}")
    yield DoctorCheck("python", "ok", f"{platform.python_version()} ({sys.executable})")
    advice = f"install git {OLDEST_GIT} or newer"
    program = shutil.which("git")
    if program is None:
        yield DoctorCheck("git", "error", "not found on PATH", advice)
        return
    output = os.fsdecode(git("/", "version")).strip().removeprefix("git version ")
    version = re.match(r"(\d+)\.(\d+)", output)
    if version is None:
        yield DoctorCheck("git", "warning", f"{program} prints {output!r}", advice)
    elif (int(version[1]), int(version[2])) < tuple(map(int, OLDEST_GIT.split("."))):
        yield DoctorCheck("git", "error", f"{output} ({program})", advice)
    else:
        yield DoctorCheck("git", "ok", f"{output} ({program}); repoagent needs {OLDEST_GIT} or newer")


def check_grammars(_worktree: WorkTree | None) -> Iterator[DoctorCheck]:
    from repoagent.syntax.languages import LANGUAGES, load_grammar

    broken = []
    for name in LANGUAGES:
        try:
            load_grammar(name)
        except (ImportError, AttributeError, OSError, TypeError, ValueError) as failure:
            broken.append(f"{name} ({type(failure).__name__}: {failure})")
    if broken:
        yield DoctorCheck("grammars", "error", f"cannot load {', '.join(broken)}", "reinstall repoagent")
    else:
        yield DoctorCheck("grammars", "ok", f"{len(LANGUAGES)} languages")


def check_extras(_worktree: WorkTree | None) -> Iterator[DoctorCheck]:
    installed: dict[bool, list[str]] = {True: [], False: []}
    for name, modules in EXTRAS.items():
        # find_spec("google.genai") raises an error without its parent package
        has_any = any(find_spec(module.partition(".")[0]) and find_spec(module) for module in modules)
        installed[has_any].append(name)
    missing = f"; not installed: {', '.join(installed[False])}" if installed[False] else ""
    yield DoctorCheck("extras", "ok", (", ".join(installed[True]) or "none") + missing)


def check_worktree(worktree: WorkTree) -> Iterator[DoctorCheck]:
    yield DoctorCheck("repository", "ok", f"{'linked ' * worktree.is_linked}work tree {worktree.top}")
    for folder in dict.fromkeys((worktree.git_dir, worktree.common_dir, worktree.top)):
        if not os.access(folder, os.W_OK | os.X_OK):
            yield DoctorCheck("repository", "error", f"{folder} is not writable", _permit(folder))
    if (worktree.common_dir / "shallow").exists():
        result = "the clone is shallow, so history is incomplete"
        yield DoctorCheck("history", "warning", result, "run `git fetch --unshallow`")


def check_folder(worktree: WorkTree) -> Iterator[DoctorCheck]:
    """Check that `.repoagent/` is usable and private."""
    name, root = ".repoagent", layout_of(worktree).root
    if not os.path.lexists(root):
        yield DoctorCheck(name, "ok", "does not exist yet; the first edit creates it")
        return
    if root.is_symlink() or not root.is_dir():
        yield DoctorCheck(name, "error", f"{root} is not a folder", "remove it or move it away")
        return
    for path in sorted(root.iterdir()):
        if path.is_symlink():
            yield DoctorCheck(name, "error", f"{path} is a symbolic link", "remove it or move it away")
    tracked: list[str] = []
    is_ignored = True
    if (top := worktree.main_top) is not None:  # otherwise the folder is in the git directory
        listing = git_output(top, "ls-files", "-z", "--", root.name, ok=(0, 128)).stdout
        tracked = os.fsdecode(listing).split("\0")[:-1]
        # check-ignore accepts a name that does not exist
        command = ("check-ignore", "-q", f"{root.name}/memory/x")
        is_ignored = git_output(top, *command, ok=(0, 1, 128)).returncode != 1
    # git may track the folder's name itself, from when it was a link or a file
    private = sorted(path for path in tracked if f"{path}/".split("/")[1] not in SHARED)
    if private:
        advice = f"git rm --cached -r {root.name} && repoagent config init"
        yield DoctorCheck(name, "warning", f"git tracks {private[0]}, which should stay private", advice)
    elif not is_ignored:
        advice = f"run `echo '*' > {root}/.gitignore` or `repoagent config init`"
        yield DoctorCheck(name, "warning", f"{root} is not ignored by git", advice)
    else:
        yield DoctorCheck(
            name, "ok", f"{root}, ignored by git{f'; tracked files: {len(tracked)}' * bool(tracked)}"
        )


def check_history(worktree: WorkTree) -> Iterator[DoctorCheck]:
    from repoagent.history.index.index import open_index
    from repoagent.history.index.schema import NoCommits

    problems: list[str] = []
    try:
        with open_index(worktree, warn=problems.append) as index:
            state = index.state()
    except NoCommits:
        yield DoctorCheck("history index", "ok", "no commits yet")
        return
    yield from (problem("history index", sentence) for sentence in problems)
    result = f"{plural(state.commits, 'commit')} indexed"
    if not state.commits:
        yield DoctorCheck("history index", "ok", "does not exist yet; it will be built on first use")
    elif state.end == "mining":
        advice = "run `repoagent mine` to complete it"
        yield DoctorCheck("history index", "warning", f"{result}, older ones are missing", advice)
    elif state.end == "unreadable":
        result += "; git could not read older ones"
        yield DoctorCheck("history index", "warning", result, "run `git fsck`")
    else:
        result += "; the next use adds the new ones" * bool(state.new)
        yield DoctorCheck("history index", "ok", result)


def check_memory(worktree: WorkTree) -> Iterator[DoctorCheck]:
    from repoagent.memory.identity.memory_index import open_index

    problems: list[str] = []
    where = layout_of(worktree)
    with open_index(where, problems.append) as index:
        count = len(index.paths())
    yield from (problem("memory", sentence) for sentence in problems)
    for broken in sorted(where.memory.rglob("*.broken-*"))[:1]:
        problems.append(f"{broken} is damaged")
        yield DoctorCheck("memory", "warning", problems[-1], "repair it and rename it back, or delete it")
    if not problems:
        yield DoctorCheck("memory", "ok", plural(count, "file") if count else "empty")


def _settings(worktree: WorkTree | None) -> Settings:
    from repoagent.config.layers import load_settings

    return load_settings(layout_of(worktree) if worktree else None)


def check_configuration(worktree: WorkTree | None) -> Iterator[DoctorCheck]:
    """Check the configuration for unreadable sources, ignored values, and addresses that are invalid or unencrypted."""
    from repoagent.config.settings import user_file
    from repoagent.llm.providers.endpoints import display_address

    name, settings = "configuration", _settings(worktree)
    yield from (problem(name, sentence) for sentence in settings.warnings)
    file = user_file(os.environ)
    if file.is_file() and file.stat().st_mode & 0o022:
        yield DoctorCheck(name, "warning", f"{file} is writable by others", f"chmod go-w {file}")
    if not settings.warnings:
        yield DoctorCheck(name, "ok", str(file) if file.is_file() else f"defaults (no {file})")
    variables = {name for provider in PROVIDERS.values() for name in provider.address_variables}
    addresses = {name: os.environ[name] for name in sorted(variables) if os.environ.get(name)}
    for provider, row in settings.family("providers").items():
        if row.get("base_url"):
            addresses[f"providers.{provider}.base_url"] = str(row["base_url"])
    for key, address in addresses.items():
        if re.match(r"(?i)http://(?!(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/|$))", address):
            advice = "keys and files are sent there unencrypted: use https"
            yield DoctorCheck("address", "warning", f"{key} is {display_address(address)}", advice)


def check_models(worktree: WorkTree | None) -> Iterator[DoctorCheck]:
    """Check that the key and the library for each role's model and each fallback are present. No model is called."""
    from repoagent.llm.model import display_name
    from repoagent.llm.open_model import choose_model, resolve_spec

    settings = _settings(worktree)
    specs: dict[str, str] = {}
    try:
        specs[choose_model(settings).spec] = "model"
    except ModelError as failure:
        cause = str(failure).partition(". ")[0]
        yield DoctorCheck("model", "warning", cause, "`repoagent edit` needs a model; see `repoagent models`")
    for role in ("summary", "review"):
        if name := settings.text_or_none(f"{role}.model"):
            specs.setdefault(resolve_spec(settings, name), f"{role} model")
    for name in settings.texts("fallback"):
        specs.setdefault(resolve_spec(settings, name), "fallback")
    for spec, role in specs.items():
        parsed = parse_spec(spec)
        try:
            status = parsed.backend.check(settings, parsed.model, online=False)
        except RepoagentError as failure:
            status = ModelStatus(problem=str(failure))
        if status.problem:
            yield problem(role, f"{display_name(spec)}: {status.problem}", "error")
        else:
            yield DoctorCheck(role, "ok", display_name(spec) + (f", key: {status.key}" if status.key else ""))


def check_sandbox(_worktree: WorkTree | None) -> Iterator[DoctorCheck]:
    from repoagent.agent.sandbox.confine import find_sandbox, why_no_sandbox

    sandbox = find_sandbox()
    alone = "" if sandbox is None or sandbox.mounting else ", without namespaces"
    yield DoctorCheck("sandbox", "ok", why_no_sandbox() if sandbox is None else f"{sandbox.name}{alone}")


# name, requirement ("", "git" or "worktree"), function
CHECKS: tuple[tuple[str, str, Callable[..., Iterable[DoctorCheck]]], ...] = (
    ("grammars", "", check_grammars),
    ("extras", "", check_extras),
    ("configuration", "git", check_configuration),
    ("model", "git", check_models),
    ("repository", "worktree", check_worktree),
    (".repoagent", "worktree", check_folder),
    ("history index", "worktree", check_history),
    ("memory", "worktree", check_memory),
    ("sandbox", "", check_sandbox),
)
