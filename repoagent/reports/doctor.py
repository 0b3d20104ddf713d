"""The checks of `repoagent doctor`: program, repository, configuration, models, machine. They change nothing.

CHECKS is the table of all checks: functions of the work tree (None outside one) that yield `Check` values.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from repoagent import __version__
from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, RepoagentError, UsageError
from repoagent.git.process import git, git_output
from repoagent.git.worktree import OLDEST_GIT, NoWorkTree, WorkTree, layout, open_worktree
from repoagent.llm.registry import PROVIDERS, SDKS
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular
from repoagent.storage.layout import has_leftovers
from repoagent.storage.locks import lock_holder, trouble_with_locks

if TYPE_CHECKING:
    from repoagent.config.settings import Settings

Level = Literal["ok", "warning", "error"]

SHARED = {"config.toml", "context.md", ".gitignore", "skills", "agents"}  # entries of .repoagent for a team
OLDEST_PYTHON = (3, 10)
EXTRAS = {  # by name: modules; the extra is installed if one of them is
    **{provider.name: provider.requires[:1] for provider in PROVIDERS.values() if provider.requires},
    "languages": ("tree_sitter_ruby", "tree_sitter_language_pack", "tree_sitter_languages"),
    "mcp": ("mcp",),
    "python": ("jupyter_client",),
    "browse": ("trafilatura",),
}
_RETRY = "fix this and run `repoagent doctor` again"
_OLD_LOCK = 600.0  # seconds: no git command locks the index that long, but a forgotten editor may
_LOW_SPACE, _NO_SPACE = 1 << 30, 50 << 20  # bytes
_LANDLOCK_CREATE_RULESET = 444  # the number of the system call, on every architecture
_DAY = 86_400
_LOCAL = {"localhost", "127.0.0.1", "::1", "[::1]"}


@dataclass(frozen=True)
class Check:
    """The `result` of the check `name`, and its remedy (`advice`) unless the level is ok."""

    name: str
    level: Level
    result: str
    advice: str = ""


def ok(name: str, result: str) -> Check:
    return Check(name, "ok", result)


def warning(name: str, result: str, advice: str) -> Check:
    return Check(name, "warning", result, advice)


def error(name: str, result: str, advice: str) -> Check:
    return Check(name, "error", result, advice)


def grade(name: str, result: str, *problems: tuple[bool, Level, str]) -> Check:
    """The check with the level and advice of the first problem that is true, otherwise ok."""
    for is_problem, level, advice in problems:
        if is_problem:
            return Check(name, level, result, advice)
    return ok(name, result)


def problem(name: str, sentence: str, level: Level = "warning") -> Check:
    """The check for an error message of repoagent."""
    return Check(name, level, *halves(sentence))


def halves(sentence: str) -> tuple[str, str]:
    """The cause and the remedy in an error message of repoagent, separated by a semicolon or a colon."""
    first = sentence.strip().splitlines()[0]
    for mark in ("; ", ": "):
        cause, separator, remedy = first.rpartition(mark)
        if separator and not remedy[:1].isupper():  # a capital starts the message of a parser
            return cause, remedy
    return first, _RETRY


def examine(start: Path, *, online: bool = False) -> list[Check]:
    """Run all checks in the folder `start`; with `online` also try to reach the models. Outside a repository, or in a
    broken one, checks that need no repository still run."""
    checks = run_check("program", check_program)
    has_git = not any(check.name == "git" and check.level == "error" for check in checks)
    worktree = None
    if has_git:
        try:
            worktree = open_worktree(start)
        except NoWorkTree:
            checks.append(_outside(start))
        except UsageError as refusal:
            checks.append(problem("repository", str(refusal), "error"))
    available = {"": True, "git": has_git, "online": has_git and online, "worktree": worktree is not None}
    results = {check.result for check in checks}
    for name, needs, function in CHECKS:
        for check in run_check(name, function, worktree) if available[needs] else ():
            if check.level == "ok" or check.result not in results:  # one cause may fail several checks
                checks.append(check)
            results.add(check.result)
    return checks


def run_check(name: str, function: Callable[..., Iterable[Check]], *arguments: object) -> list[Check]:
    """The results of a check; an exception becomes an error."""
    checks: list[Check] = []
    try:
        checks.extend(function(*arguments))
    except RepoagentError as failure:
        checks.append(problem(name, str(failure), "error"))
    except OSError as failure:
        where = f" ({failure.filename})" if failure.filename else ""
        advice = _permit(failure.filename) if isinstance(failure, PermissionError) and where else _RETRY
        checks.append(error(name, f"{failure.strerror or failure}{where}", advice))
    return checks


def _permit(path: Path | str) -> str:
    return f"chown it to you, or chmod u+rwX {path}"


def _outside(start: Path) -> Check:
    """The check outside a repository: ok, or an error if there is a `.git` that git does not recognize."""
    for folder in (start, *start.parents):
        git_dir = folder / ".git"
        if git_dir.is_file() or any(
            (git_dir / name).exists() for name in ("HEAD", "config", "objects", "refs")
        ):
            advice = "its HEAD, objects or refs are missing or damaged: repair it, or clone again"
            return error("repository", f"{git_dir} exists, but git does not recognize it", advice)
    return ok("repository", f"{start} is not in a repository; its checks are skipped")


def check_program() -> Iterator[Check]:
    """repoagent, Python, start-up, git."""
    yield ok("repoagent", f"{__version__} in {Path(__file__).parents[1]}")
    too_old = sys.version_info < OLDEST_PYTHON
    python = f"{platform.python_version()} ({sys.executable})"
    yield grade("python", python, (too_old, "error", "install repoagent with Python 3.10 or newer"))
    if slow := without_bytecode():
        yield ok("start", slow)
    program = shutil.which("git")
    if program is None:
        yield error("git", "not found on PATH", f"install git {OLDEST_GIT} or newer")
        return
    output = os.fsdecode(git("/", "version")).strip().removeprefix("git version ")
    version = re.match(r"(\d+)\.(\d+)", output)
    if version is None:
        yield warning("git", f"{program} prints {output!r}", f"repoagent needs git {OLDEST_GIT} or newer")
    elif (int(version[1]), int(version[2])) < tuple(map(int, OLDEST_GIT.split("."))):
        yield error("git", f"{output} ({program})", f"install git {OLDEST_GIT} or newer")
    else:
        yield ok("git", f"{output} ({program}); needs {OLDEST_GIT} or newer")


def without_bytecode() -> str:
    """The remedy if each start compiles the SDK of a provider, as in images that set PYTHONDONTWRITEBYTECODE;
    otherwise ""."""
    for sdk in SDKS:
        spec = find_spec(sdk)
        if spec and spec.origin and not Path(cache_from_source(spec.origin)).exists():
            packages = Path(spec.origin).parents[1]
            command = f"PYTHONDONTWRITEBYTECODE= {sys.executable} -m compileall -q {packages}"
            return (
                f"each start compiles the package {sdk} for about 2 s; run `{command}` once to save that time"
            )
    return ""


def check_grammars(_worktree: WorkTree | None) -> Iterator[Check]:
    """Whether the installed grammars load."""
    from repoagent.syntax.languages import LANGUAGES, grammar

    broken = []
    for name in LANGUAGES:
        try:
            grammar(name)
        except (ImportError, AttributeError, OSError, TypeError, ValueError) as failure:
            broken.append(f"{name} ({type(failure).__name__}: {failure})")
    if broken:
        yield error("grammars", f"cannot load {', '.join(broken)}", "reinstall repoagent")
    else:
        yield ok("grammars", f"{len(LANGUAGES)} languages")


def check_extras(_worktree: WorkTree | None) -> Iterator[Check]:
    """Which extras are installed. A command that needs a missing extra reports it itself."""

    def is_installed(module: str) -> bool:
        try:
            return find_spec(module) is not None
        except (ModuleNotFoundError, ValueError):  # its parent package is missing or partly loaded
            return False

    installed = [name for name, modules in EXTRAS.items() if any(map(is_installed, modules))]
    missing = ", ".join(name for name in EXTRAS if name not in installed)
    yield ok("extras", (", ".join(installed) or "none") + (f"; not installed: {missing}" if missing else ""))


def check_worktree(worktree: WorkTree) -> Iterator[Check]:
    """The work tree, and whether git can write."""
    kind = "linked work tree" if worktree.is_linked else "work tree"
    yield ok("repository", f"{kind} {worktree.top}")
    for folder in dict.fromkeys((worktree.git_dir, worktree.common_dir)):
        if not os.access(folder, os.W_OK | os.X_OK):
            yield error("git directory", f"{folder} is not writable", _permit(folder))
        elif folder.stat().st_mode & stat.S_IWOTH:
            yield warning("git directory", f"{folder} is writable by everybody", f"chmod o-w {folder}")
        else:
            yield ok("git directory", str(folder))
    if not os.access(worktree.top, os.W_OK | os.X_OK):
        yield error("work tree", f"{worktree.top} is not writable", _permit(worktree.top))
    lock = worktree.git_dir / "index.lock"
    if lock.exists() and (age := time.time() - lock.stat().st_mtime) > _OLD_LOCK:
        advice = "if no git is running here, remove it; the next repoagent command removes one of ours"
        yield warning("index.lock", f"{lock} is {age / 60:.0f} minutes old", advice)
    if (worktree.common_dir / "shallow").exists():
        result = "the clone is shallow, so history is incomplete"
        yield warning("history", result, "run git fetch --unshallow")


def check_folder(worktree: WorkTree) -> Iterator[Check]:
    """`.repoagent/`: owner, permissions, and the files in it that git tracks."""
    root = layout(worktree).root
    try:
        status = root.lstat()
    except FileNotFoundError:
        yield ok(".repoagent", "does not exist yet; the first edit creates it")
        return
    if not stat.S_ISDIR(status.st_mode):
        yield error(".repoagent", f"{root} is not a folder", "remove it or move it away")
        return
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        is_owner = status.st_uid == os.geteuid()
        problem = "is not readable and writable" if is_owner else "belongs to another user"
        yield error(".repoagent", f"{root} {problem}", _permit(root))
        return
    fine = True
    for path in (root, *sorted(root.iterdir())):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            yield error(".repoagent", f"{path} is a symbolic link", "remove it or move it away")
        elif mode & stat.S_IWOTH:
            yield warning(".repoagent", f"{path} is writable by everybody", f"chmod o-w {path}")
        elif not os.access(path, os.R_OK | os.W_OK):
            yield error(".repoagent", f"{path} is not readable and writable", _permit(path))
        else:
            continue
        fine = False
    tracked = set(os.fsdecode(git(worktree.top, "ls-files", "-z", "--", str(root))).split("\0")[:-1])
    depth = len(root.relative_to(worktree.top).parts) if root.is_relative_to(worktree.top) else 0
    private = sorted(path for path in tracked if path.split("/")[depth] not in SHARED)
    if private:
        others = f" and {len(private) - 1} more" if len(private) > 1 else ""
        advice = f"git rm --cached -r {root.name} && repoagent config init"
        yield warning(".repoagent", f"git tracks {private[0]}{others}, which is private", advice)
        return
    # check-ignore accepts a name that does not exist
    status_code = git_output(
        worktree.top, "check-ignore", "-q", f"{root.name}/memory/x", ok=(0, 1, 128)
    ).returncode
    if status_code == 1 and root.parent == worktree.top:
        advice = f"echo '*' > {root}/.gitignore, or run repoagent config init"
        yield warning(".repoagent", f"{root} is not ignored by git", advice)
    elif fine:
        names = ", ".join(sorted({path.split("/")[depth] for path in tracked}))
        yield ok(".repoagent", f"{root}, ignored by git{f'; shared: {names}' if names else ''}")


def check_interrupted(worktree: WorkTree) -> Iterator[Check]:
    """Unfinished work of killed commands, and reports of internal errors."""
    where = layout(worktree)
    if where.journal.is_dir() and any(where.journal.iterdir()):
        advice = "the next repoagent undo or edit recovers it"
        yield warning("interrupted", "an edit is in progress, or was interrupted", advice)
    elif where.pending.is_dir() and any(where.pending.iterdir()) and has_leftovers(where):
        yield warning("interrupted", "some edits are not in memory yet", "the next repoagent edit adds them")
    killed = []
    for file in sorted(where.runs.glob("*/run.json"), reverse=True) if not where.runs.is_symlink() else []:
        record = json_files.parse(read_regular(file) or b"") or {}
        unfinished = record.get("version") == 1 and not record.get("ended")
        if unfinished and lock_holder(file.with_name("lock")) is None:
            killed.append(file.parent.name)
    if killed:
        others = f" and {len(killed) - 1} more" if len(killed) > 1 else ""
        yield warning(
            "interrupted",
            f"the run {killed[0]}{others} has no end: it was killed, or runs on another machine",
            f"resume it with repoagent run --resume {killed[0]}, or use repoagent runs delete {killed[0]}",
        )
    reports = where.private / "reports"
    if count := len(list(reports.iterdir())) if reports.is_dir() else 0:
        yield warning("reports", f"{count} of internal errors, in {reports}", "send one in, or delete them")


def check_hooks(worktree: WorkTree) -> Iterator[Check]:
    """Which hooks git runs, and which of them run repoagent."""
    path = os.fsdecode(git(worktree.top, "rev-parse", "--git-path", "hooks")).rstrip("\n")
    folder = Path(worktree.top, path)
    active, ours = [], []
    for name in ("pre-commit", "commit-msg", "pre-push", "prepare-commit-msg", "post-commit"):
        hook = folder / name
        if not hook.is_file():
            continue
        if not os.access(hook, os.X_OK):
            yield warning("hooks", f"{hook} is not executable, so git skips it", f"chmod +x {hook}")
            continue
        active.append(name)
        if b"repoagent" in hook.read_bytes()[:65536]:
            ours.append(name)
    config = worktree.top / ".pre-commit-config.yaml"
    if config.is_file() and b"repoagent" in config.read_bytes():
        ours.append(config.name)
    users = f"repoagent in {', '.join(ours)}" if ours else "none runs repoagent"
    yield ok("hooks", f"{', '.join(active) or 'none'}; {users}" if active or ours else "none")


def check_history(worktree: WorkTree) -> Iterator[Check]:
    """The state of the history index; does not update it."""
    from repoagent.history.index.index import open_index
    from repoagent.history.index.schema import NoCommits

    problems: list[str] = []
    try:
        with open_index(worktree, warn=problems.append) as index:
            state = index.state()
    except NoCommits:
        yield ok("history index", "no commits yet")
        return
    yield from (problem("history index", sentence) for sentence in problems)
    size = f"{state.commits:,} commit{'s' * (state.commits != 1)}, {state.size / 1e6:.1f} MB"
    if state.complete or state.end == "date":
        yield ok("history index", size)
    elif not state.commits:
        yield ok("history index", "does not exist yet; it is built on use")
    elif state.new:
        yield ok("history index", f"{size}; {state.new:,} new commits are read on use")
    else:
        yield warning("history index", f"{size}, incomplete", "complete it with repoagent mine")


def check_memory(worktree: WorkTree) -> Iterator[Check]:
    """How many files have a memory, and which parts of it are unreadable."""
    from repoagent.memory.identity.hints import open_index

    problems: list[str] = []
    where = layout(worktree)
    with open_index(where, problems.append) as index:
        count = len(index.paths())
    yield from (problem("memory", sentence) for sentence in problems)
    broken = list(where.memory.rglob("*.broken-*")) if where.memory.is_dir() else []
    if broken:
        result = f"{broken[0]} was renamed because it is broken ({len(broken)} such files)"
        yield warning("memory", result, "repair or delete it")
    if not problems and not broken:
        yield ok("memory", f"{count:,} file{'s' * (count != 1)}" if count else "empty")


def _settings(worktree: WorkTree | None) -> Settings:
    from repoagent.config.layers import load

    return load(layout(worktree) if worktree else None)


def check_configuration(worktree: WorkTree | None) -> Iterator[Check]:
    """Whether every layer is readable, and which values in it are ignored."""
    from repoagent.config.settings import user_file

    settings = _settings(worktree)
    yield from (problem("configuration", sentence) for sentence in settings.warnings)
    file = user_file(os.environ)
    if file.is_file() and file.stat().st_mode & 0o022:
        yield warning("configuration", f"{file} is writable by others", f"chmod go-w {file}")
    if not settings.warnings:
        yield ok("configuration", str(file) if file.is_file() else f"defaults (no {file})")


def check_models(worktree: WorkTree | None) -> Iterator[Check]:
    """The key and the library for the models of each role and the fallbacks. No model is called."""
    from repoagent.llm.model import display_name
    from repoagent.llm.open_model import choose_model, resolve
    from repoagent.llm.registry import Status, parse_spec

    settings = _settings(worktree)
    specs: dict[str, str] = {}
    try:
        specs[choose_model(settings).spec] = "model"
    except ModelError as failure:
        cause = str(failure).partition(". ")[0]
        yield warning("model", cause, "`repoagent edit` needs one: see `repoagent models`")
    for role in ("summary", "review"):
        if name := settings.text_or_none(f"{role}.model"):
            specs.setdefault(resolve(settings, name), f"{role} model")
    for name in settings.texts("fallback"):
        specs.setdefault(resolve(settings, name), "fallback")
    for spec, role in specs.items():
        parsed = parse_spec(spec)
        try:
            status = parsed.backend.check(settings, parsed.model, online=False)
        except RepoagentError as failure:
            status = Status(problem=str(failure))
        if status.problem:
            result, advice = halves(status.problem)
            yield error(role, f"{display_name(spec)}: {result}", advice)
        else:
            yield ok(role, display_name(spec) + (f", key: {status.key}" if status.key else ""))


def check_addresses(worktree: WorkTree | None) -> Iterator[Check]:
    """Addresses that replace those of the providers; keys and prompts are sent there."""
    from repoagent.llm.providers.endpoints import display_address

    variables = {name for provider in PROVIDERS.values() for name in provider.address_variables}
    addresses = {name: os.environ[name] for name in sorted(variables) if os.environ.get(name)}
    for name, row in _settings(worktree).family("providers").items():
        if row.get("base_url"):
            addresses[f"providers.{name}.base_url"] = str(row["base_url"])
    for name, address in addresses.items():
        try:
            parts = urlsplit(address)
            valid = parts.scheme in ("http", "https") and parts.hostname
        except ValueError:
            valid = None
        if not valid:
            yield error("address", f"{name} is not a URL", "write it as https://host/path")
            continue
        result = f"{name} is {display_address(address)}"
        insecure = parts.scheme == "http" and parts.hostname not in _LOCAL
        advice = "keys and files are sent there unencrypted: use https"
        yield grade("address", result, (insecure, "warning", advice))


def check_online(worktree: WorkTree | None) -> Iterator[Check]:
    """Whether the configured models can be reached; free of charge."""
    from repoagent.llm.model import display_name
    from repoagent.llm.open_model import configured_models

    problems: dict[str, str] = {}
    for row in configured_models(_settings(worktree)):
        if row.spec and row.status.tried and row.name in ("edit", "summary", "fallback"):
            problems.setdefault(row.spec, row.status.problem)
    for spec, cause in problems.items():
        if cause:
            yield error("online", f"{display_name(spec)}: {cause}", "see `repoagent models`")
        else:
            yield ok("online", f"{display_name(spec)} can be reached")
    if not problems:
        yield ok("online", "no configured model needs the network")


def check_locks(worktree: WorkTree) -> Iterator[Check]:
    """Whether the file system of the git directory supports locks, and who holds a lock of repoagent."""
    where = layout(worktree)
    if trouble := trouble_with_locks(where.private if where.private.is_dir() else where.git_dir):
        yield problem("locks", trouble)
    files = sorted(where.locks.iterdir()) if where.locks.is_dir() else []
    holders = [
        f"{path.name} by {holder}"
        for path in (*files, where.memory_lock)
        if path.is_file() and (holder := lock_holder(path))
    ]
    if holders or not trouble:
        yield ok("locks", f"held: {'; '.join(holders)}" if holders else "supported, none is held")


def check_sandbox(_worktree: WorkTree | None) -> Iterator[Check]:
    """Which sandboxes for commands are available; it is not an error if there is none."""
    available = []
    if sys.platform == "darwin" and shutil.which("sandbox-exec"):
        available.append("sandbox-exec")
    if bwrap := shutil.which("bwrap"):
        command = [bwrap, "--ro-bind", "/", "/", "--unshare-net", "true"]
        try:
            works = subprocess.run(command, capture_output=True, timeout=5, check=False).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            works = False
        available.append("bubblewrap" if works else "bubblewrap (cannot create namespaces here)")
    if sys.platform == "linux":
        system_call = ctypes.CDLL(None).syscall
        system_call.restype = ctypes.c_long
        flags = (ctypes.c_size_t(0), ctypes.c_uint32(1))
        if (version := int(system_call(_LANDLOCK_CREATE_RULESET, None, *flags))) > 0:
            available.append(f"Landlock {version}")
    yield ok("sandbox", ", ".join(available) or f"none on this {platform.system()}")


def check_disk(worktree: WorkTree | None) -> Iterator[Check]:
    """The free space for files."""
    folder = worktree.git_dir if worktree else Path.cwd()
    free = shutil.disk_usage(folder).free
    yield grade(
        "disk",
        f"{free / 1e9:.1f} GB free at {folder}",
        (free < _NO_SPACE, "error", "free some space"),
        (free < _LOW_SPACE, "warning", "free some space soon"),
    )


def check_clock(worktree: WorkTree | None) -> Iterator[Check]:
    """Whether the clock can be correct: times of files, turns and commits are compared."""
    current = time.time()
    result = time.strftime("%Y-%m-%d %H:%M:%S %z")
    last = b""
    if worktree:
        last = git_output(worktree.top, "log", "-1", "--format=%ct", "HEAD", "--", ok=(0, 128)).stdout.strip()
    if current + _DAY < Path(__file__).stat().st_mtime:
        yield error("clock", f"{result}, before repoagent was installed", "set the clock")
    elif last.isdigit() and int(last) > current + _DAY:
        date = time.strftime("%Y-%m-%d %H:%M", time.localtime(int(last)))
        yield warning("clock", f"{result}, before the last commit ({date})", "set the clock, if it is wrong")
    else:
        yield ok("clock", result)


# name, requirement ("", "git", "worktree" or "online"), function
CHECKS: tuple[tuple[str, str, Callable[..., Iterable[Check]]], ...] = (
    ("grammars", "", check_grammars),
    ("extras", "", check_extras),
    ("configuration", "git", check_configuration),
    ("model", "git", check_models),
    ("address", "git", check_addresses),
    ("online", "online", check_online),
    ("repository", "worktree", check_worktree),
    (".repoagent", "worktree", check_folder),
    ("interrupted", "worktree", check_interrupted),
    ("hooks", "worktree", check_hooks),
    ("history index", "worktree", check_history),
    ("memory", "worktree", check_memory),
    ("locks", "worktree", check_locks),
    ("sandbox", "", check_sandbox),
    ("disk", "", check_disk),
    ("clock", "", check_clock),
)
