"""What a check says.

What is derived from git and from the memories: how far it is. Nothing is mined for it.

The machine: a sandbox for commands, locks of the file system, room on the disk, the clock.

The program itself: the git and the Python that it runs on, and what it was installed with.

The repository: its work tree and git directory, `.repoagent/`, the hooks.

The configuration and the models: what is set, whether there is a key, where it would be sent.

All checks, in the order in which one rests on the other.
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
from functools import partial
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from repoagent import __version__
from repoagent.dataclass import dataclass
from repoagent.errors import RepoagentError, UsageError
from repoagent.git.process import git, git_output
from repoagent.git.worktree import NoWorkTree, WorkTree, layout, open_worktree
from repoagent.llm.provider import PROVIDERS, SDKS, SERVERS
from repoagent.storage import jsonl
from repoagent.storage.atomic import read_regular
from repoagent.storage.layout import Layout
from repoagent.storage.locks import held_by

if TYPE_CHECKING:
    pass

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Check:
    """`name` is what was looked at, in a word or two, `found` how it is, `advice` what to do where it is not ok."""

    name: str
    level: Level
    found: str
    advice: str = ""


def ok(name: str, found: str) -> Check:
    return Check(name, "ok", found)


def warning(name: str, found: str, advice: str) -> Check:
    return Check(name, "warning", found, advice)


def error(name: str, found: str, advice: str) -> Check:
    return Check(name, "error", found, advice)


def give(path: Path | str) -> str:
    """What to do about a file or folder that this user may not use."""
    return f"chown it to you, or chmod u+rwX {path}"


def guarded(name: str, look: Callable[[], Iterable[Check]]) -> list[Check]:
    """The checks of `look`; where it can't finish, what it says instead is an error of its own."""
    found: list[Check] = []
    try:
        found.extend(look())
    except RepoagentError as problem:
        found.append(error(name, *halves(str(problem))))
    except OSError as problem:
        where = f" ({problem.filename})" if problem.filename else ""
        denied = isinstance(problem, PermissionError) and where
        advice = give(problem.filename) if denied else "put that right and look again"
        found.append(error(name, f"{problem.strerror or problem}{where}", advice))
    return found


def halves(sentence: str) -> tuple[str, str]:
    """What is wrong and what to do, of a sentence of ours, which says both with a colon or a semicolon between."""
    first = sentence.strip().splitlines()[0]
    for mark in ("; ", ": "):
        wrong, found, todo = first.rpartition(mark)
        if found and not todo[:1].isupper():  # what somebody else said, such as a parser
            return wrong, todo
    return first, "put that right and look again"


def check_history(worktree: WorkTree) -> Iterator[Check]:
    """How far the history index is."""
    from repoagent.history.index.index import open_index
    from repoagent.history.index.schema import NoCommits

    said: list[str] = []
    try:
        with open_index(worktree, warn=said.append) as index:
            state = index.state()
    except NoCommits:
        yield ok("history index", "there is no commit yet")
        return
    yield from (warning("history index", *halves(sentence)) for sentence in said)
    size = f"{state.commits:,} commit{'s' * (state.commits != 1)}, {state.size / 1e6:.1f} MB"
    if state.complete or state.end == "date":
        yield ok("history index", size)
    elif not state.commits:
        yield ok("history index", "not made yet; it is made on use")
    elif state.new:
        yield ok("history index", f"{size}, {state.new:,} new ones are read on use")
    else:
        yield warning("history index", f"{size}, not complete", "repoagent mine goes on")


def check_memory(worktree: WorkTree) -> Iterator[Check]:
    """How much is remembered, and what of it can't be read."""
    from repoagent.memory.identity.hints import open_index

    said: list[str] = []
    where = layout(worktree)
    with open_index(where, said.append) as index:
        count = len(index.paths())
    yield from (warning("memory", *halves(sentence)) for sentence in said)
    broken = list(where.memory.rglob("*.broken-*")) if where.memory.is_dir() else []
    if broken:
        yield warning(
            "memory",
            f"{broken[0]} was set aside as broken ({len(broken)} in all)",
            "mend it by hand, or delete it",
        )
    if not said and not broken:
        yield ok("memory", f"{count:,} file{'s' * (count != 1)}" if count else "nothing is remembered yet")


_LITTLE, _TOO_LITTLE = 1 << 30, 50 << 20  # bytes
_LANDLOCK_CREATE_RULESET = 444  # the number of the system call, on every architecture
_DAY = 86_400


def check_sandbox() -> Iterator[Check]:
    """What there is to run a command in; it is only reported."""
    there = []
    if sys.platform == "darwin" and shutil.which("sandbox-exec"):
        there.append("sandbox-exec")
    if bwrap := shutil.which("bwrap"):
        there.append("bubblewrap" if _runs(bwrap) else "bubblewrap (may make no namespaces here)")
    if version := landlock():
        there.append(f"Landlock {version}")
    yield ok("sandbox", ", ".join(there) or f"none on this {platform.system()}")


def landlock() -> int:
    """The version of Landlock that the kernel has, 0 for none."""
    if sys.platform != "linux":
        return 0
    system_call = ctypes.CDLL(None).syscall
    system_call.restype = ctypes.c_long
    return max(0, int(system_call(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def check_locks(worktree: WorkTree) -> Iterator[Check]:
    """Whether the file system of the git directory has locks, and who holds one of ours."""
    from repoagent.storage.locks import held_by, trouble_with_locks

    where = layout(worktree)
    if trouble := trouble_with_locks(where.private if where.private.is_dir() else where.git_dir):
        yield warning("locks", *halves(trouble))
    held = []
    places = sorted(where.locks.iterdir()) if where.locks.is_dir() else []
    for path in (*places, where.memory_lock):
        if path.is_file() and (who := held_by(path)):
            held.append(f"{path.name} by {who}")
    if held:
        yield ok("locks", f"held: {'; '.join(held)}")
    elif not trouble:
        yield ok("locks", "they work, and none is held")


def check_disk(worktree: WorkTree | None) -> Iterator[Check]:
    """Room where files are written."""
    place = worktree.git_dir if worktree else Path.cwd()
    free = shutil.disk_usage(place).free
    said = f"{free / 1e9:.1f} GB free at {place}"
    if free < _TOO_LITTLE:
        yield error("disk", said, "make room: an edit is written whole or not at all")
    elif free < _LITTLE:
        yield warning("disk", said, "make room soon")
    else:
        yield ok("disk", said)


def check_clock(worktree: WorkTree | None) -> Iterator[Check]:
    """Whether the clock can be right: times of files, of turns and of commits are compared."""
    now = time.time()
    said = time.strftime("%Y-%m-%d %H:%M:%S %z")
    last = _last_commit(worktree) if worktree else None
    source = Path(__file__).stat().st_mtime
    if now + _DAY < source:
        yield error("clock", f"{said}, before repoagent was installed", "set the clock")
    elif last is not None and last > now + _DAY:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(last))
        yield warning("clock", f"{said}, and the last commit is of {when}", "set the clock, if it is wrong")
    else:
        yield ok("clock", said)


def _last_commit(worktree: WorkTree) -> int | None:
    from repoagent.git.process import git_output

    done = git_output(worktree.top, "log", "-1", "--format=%ct", "HEAD", "--", ok=(0, 128))
    text = os.fsdecode(done.stdout).strip()
    return int(text) if text.isdecimal() else None


def _runs(bwrap: str) -> bool:
    """Whether it may make the namespaces that it needs."""
    command = [bwrap, "--ro-bind", "/", "/", "--unshare-net", "true"]
    try:
        return subprocess.run(command, capture_output=True, timeout=5, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


OLDEST_PYTHON = (3, 10)
# what an extra adds: the modules that tell that it is installed
EXTRAS = {
    **{
        provider.extra: provider.requires[:1] for provider in (SERVERS, *PROVIDERS.values()) if provider.extra
    },
    "languages": ("tree_sitter_ruby", "tree_sitter_language_pack", "tree_sitter_languages"),
    "mcp": ("mcp",),
    "python": ("jupyter_client",),
    "browse": ("trafilatura",),
}


def check_program() -> Iterator[Check]:
    """repoagent, Python, git."""
    yield ok("repoagent", f"{__version__} in {os.path.dirname(os.path.dirname(__file__))}")  # noqa: PTH120
    python = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info < OLDEST_PYTHON:
        yield error("python", python, "install repoagent with Python 3.10 or newer")
    else:
        yield ok("python", python)
    if slow := without_bytecode():
        yield ok("start", slow)
    yield check_git()


def without_bytecode() -> str:
    """What to do where each start compiles the SDK of a provider again, as in images that set
    PYTHONDONTWRITEBYTECODE; "" where none does."""
    for sdk in SDKS:
        spec = find_spec(sdk)
        if spec and spec.origin and not os.path.exists(cache_from_source(spec.origin)):  # noqa: PTH110
            packages = os.path.dirname(os.path.dirname(spec.origin))  # noqa: PTH120
            command = f"PYTHONDONTWRITEBYTECODE= {sys.executable} -m compileall -q {packages}"
            return (
                f"each start compiles the package {sdk} for about 2 s; run `{command}` once to save that time"
            )
    return ""


def check_git() -> Check:
    """Whether git is there and new enough; `OLDEST_GIT` is the one place that says what that is."""
    from shutil import which

    from repoagent.git.process import git
    from repoagent.git.worktree import OLDEST_GIT

    place = which("git")
    if place is None:
        return error("git", "not found on PATH", f"install git {OLDEST_GIT} or newer")
    said = os.fsdecode(git("/", "version")).strip().removeprefix("git version ")
    version = re.match(r"(\d+)\.(\d+)", said)
    oldest = tuple(map(int, OLDEST_GIT.split(".")))
    if version is None:
        return warning("git", f"{place} says {said!r}", f"repoagent needs git {OLDEST_GIT} or newer")
    if (int(version[1]), int(version[2])) < oldest:
        return error("git", f"{said} ({place})", f"install git {OLDEST_GIT} or newer")
    return ok("git", f"{said} ({place}); {OLDEST_GIT} is the oldest that works")


def check_grammars() -> Iterator[Check]:
    """Whether the grammars that were installed can be loaded."""
    from repoagent.syntax.languages import LANGUAGES, grammar

    broken = []
    for name in LANGUAGES:
        try:
            grammar(name)
        except (ImportError, AttributeError, OSError, TypeError, ValueError) as problem:
            broken.append(f"{name} ({type(problem).__name__}: {problem})")
    if broken:
        yield error("grammars", f"can't be loaded: {', '.join(broken)}", "install repoagent anew")
    else:
        yield ok("grammars", f"{len(LANGUAGES)} languages")


def check_extras() -> Iterator[Check]:
    """Which extras are installed. None has to be; a model that needs one says so."""
    there = [name for name, modules in EXTRAS.items() if any(map(is_installed, modules))]
    missing = [name for name in EXTRAS if name not in there]
    rest = f"; not installed: {', '.join(missing)}" if missing else ""
    yield ok("extras", f"{', '.join(there) or 'none'}{rest}")


def is_installed(module: str) -> bool:
    """Whether a module could be imported, without doing so."""
    try:
        return find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # the package above it is missing, or half loaded
        return False


SHARED = {"config.toml", "context.md", ".gitignore", "skills", "agents"}  # in .repoagent, for a team
_OLD_LOCK = 600.0  # seconds: no git command holds the index as long as that, but a forgotten editor may


def check_worktree(worktree: WorkTree) -> Iterator[Check]:
    """The work tree, and whether git can write."""
    kind = "linked work tree" if worktree.is_linked else "work tree"
    yield ok("repository", f"{kind} {worktree.top}")
    for folder in dict.fromkeys((worktree.git_dir, worktree.common_dir)):
        if not os.access(folder, os.W_OK | os.X_OK):
            yield error("git directory", f"{folder} can't be written", give(folder))
        elif folder.stat().st_mode & stat.S_IWOTH:
            yield warning("git directory", f"{folder} can be written by everybody", f"chmod o-w {folder}")
        else:
            yield ok("git directory", str(folder))
    if not os.access(worktree.top, os.W_OK | os.X_OK):
        yield error("work tree", f"{worktree.top} can't be written", give(worktree.top))
    lock = worktree.git_dir / "index.lock"
    if lock.exists() and (age := time.time() - lock.stat().st_mtime) > _OLD_LOCK:
        yield warning(
            "index.lock",
            f"{lock} is {age / 60:.0f} minutes old",
            "if no git is running here, remove it; one of ours is settled by the next command",
        )
    if (worktree.common_dir / "shallow").exists():
        yield warning(
            "history",
            "the clone is shallow, so its history is cut off",
            "git fetch --unshallow gets the rest",
        )


def check_folder(worktree: WorkTree) -> Iterator[Check]:
    """`.repoagent/`: whose it is, who may write it, what git sees of it."""
    root = layout(worktree).root
    try:
        status = root.lstat()
    except FileNotFoundError:
        yield ok(".repoagent", "not there yet; the first edit makes it")
        return
    if not stat.S_ISDIR(status.st_mode):
        yield error(".repoagent", f"{root} is no folder", "remove it or move it away")
        return
    if status.st_uid != os.geteuid() and not os.access(root, os.W_OK):
        yield error(".repoagent", f"{root} belongs to another user", give(root))
        return
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        yield error(".repoagent", f"{root} can't be read and written", give(root))
        return
    wrong = list(_wrong_modes(root))
    yield from wrong
    tracked = set(os.fsdecode(git(worktree.top, "ls-files", "-z", "--", str(root))).split("\0")[:-1])
    inside = len(root.relative_to(worktree.top).parts) if root.is_relative_to(worktree.top) else 0
    private = sorted(path for path in tracked if path.split("/")[inside] not in SHARED)
    if private:
        more = f" and {len(private) - 1} more" if len(private) > 1 else ""
        yield warning(
            ".repoagent",
            f"{private[0]}{more}: tracked by git, and holds what was said to a model",
            f"git rm --cached -r {root.name} && repoagent config init",
        )
        return
    # check-ignore is asked about a name that need not be there
    seen = git_output(worktree.top, "check-ignore", "-q", f"{root.name}/memory/x", ok=(0, 1, 128)).returncode
    if seen == 1 and root.parent == worktree.top:
        yield warning(
            ".repoagent",
            f"{root} is not ignored by git",
            f"echo '*' > {root}/.gitignore, or run repoagent config init",
        )
    elif not wrong:
        shared = (
            f"; shared: {', '.join(sorted({path.split('/')[inside] for path in tracked}))}" if tracked else ""
        )
        yield ok(".repoagent", f"{root}, ignored by git{shared}")


def check_leftovers(worktree: WorkTree) -> Iterator[Check]:
    """What a killed run has left; the next command settles it."""
    from repoagent.storage.layout import has_leftovers

    where = layout(worktree)
    if where.journal.is_dir() and any(where.journal.iterdir()):
        yield warning(
            "interrupted",
            "an edit is at work, or was interrupted",
            "the next repoagent undo or edit settles it",
        )
    elif where.pending.is_dir() and any(where.pending.iterdir()) and has_leftovers(where):
        yield warning(
            "interrupted", "something is still to be remembered", "the next repoagent edit settles it"
        )
    if killed := _killed_runs(where):
        more = f" and {len(killed) - 1} more" if len(killed) > 1 else ""
        yield warning(
            "interrupted",
            f"the run {killed[0]}{more} ended without a word: it was killed, or began on another machine",
            f"repoagent run --resume {killed[0]} goes on, repoagent runs delete {killed[0]} removes it",
        )
    reports = where.private / "reports"
    count = len(list(reports.iterdir())) if reports.is_dir() else 0
    if count:
        yield warning(
            "reports", f"{count} of errors in repoagent, in {reports}", "read them, send one in, delete them"
        )


def _killed_runs(where: Layout) -> list[str]:
    """The names of runs that have no end and that nobody is at, the newest first."""
    found = []
    for file in sorted(where.runs.glob("*/run.json"), reverse=True) if not where.runs.is_symlink() else []:
        said = jsonl.parse(read_regular(file) or b"") or {}
        if not said.get("ended") and said.get("version") == 1 and held_by(file.with_name("lock")) is None:
            found.append(file.parent.name)
    return found


def check_hooks(worktree: WorkTree) -> Iterator[Check]:
    """Which hooks run at a commit, and whether repoagent is one of them."""
    place = os.fsdecode(git(worktree.top, "rev-parse", "--git-path", "hooks")).rstrip("\n")
    folder = Path(worktree.top, place)
    active, ours = [], []
    for name in ("pre-commit", "commit-msg", "pre-push", "prepare-commit-msg", "post-commit"):
        path = folder / name
        if not path.is_file():
            continue
        if not os.access(path, os.X_OK):
            yield warning("hooks", f"{path} is not executable, so git passes it over", f"chmod +x {path}")
            continue
        active.append(name)
        if b"repoagent" in path.read_bytes()[:65536]:
            ours.append(name)
    config = worktree.top / ".pre-commit-config.yaml"
    if config.is_file() and b"repoagent" in config.read_bytes():
        ours.append(".pre-commit-config.yaml")
    said = ", ".join(active) or "none"
    yield ok("hooks", f"{said}; repoagent in {', '.join(ours)}" if ours else f"{said}; none of repoagent")


def _wrong_modes(root: Path) -> Iterator[Check]:
    """Of the folder and what is directly in it."""
    for path in (root, *sorted(root.iterdir())):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            yield error(".repoagent", f"{path} is a symbolic link", "remove it or move it away")
        elif mode & stat.S_IWOTH:
            yield warning(".repoagent", f"{path} can be written by everybody", f"chmod o-w {path}")
        elif not os.access(path, os.R_OK | os.W_OK):
            yield error(".repoagent", f"{path} can't be read and written", give(path))


_LOCAL = {"localhost", "127.0.0.1", "::1", "[::1]"}


def check_configuration(layout: Layout | None) -> Iterator[Check]:
    """Whether every layer can be read, and what is ignored in them."""
    from repoagent.config.layers import load
    from repoagent.config.settings import user_file

    settings = load(layout)
    for sentence in settings.warnings:
        yield warning("configuration", *halves(sentence))
    mine = user_file(os.environ)
    where = str(mine) if mine.is_file() else f"defaults (no {mine})"
    if mine.is_file() and mine.stat().st_mode & 0o022:
        yield warning("configuration", f"{mine} can be written by others", f"chmod go-w {mine}")
    if not settings.warnings:
        yield ok("configuration", where)


def check_models(layout: Layout | None) -> Iterator[Check]:
    """The models of each role and the fall-backs: is there a key, is the library installed. Nobody is asked."""
    from repoagent.config.layers import load
    from repoagent.errors import ModelError
    from repoagent.llm.model import display_name
    from repoagent.llm.provider import Diagnosis, parse_spec
    from repoagent.llm.registry import choose_model, resolve

    settings = load(layout)
    specs: dict[str, str] = {}
    try:
        first = choose_model(settings)
        specs[first.spec] = "model"
    except ModelError as problem:
        yield warning(
            "model", str(problem).partition(". ")[0], "`repoagent edit` needs one: see `repoagent models`"
        )
    for role, key in (("summary", "summary.model"), ("review", "review.model")):
        if _is_option(key) and (name := settings.text_or_none(key)):
            specs.setdefault(resolve(settings, name), f"{role} model")
    for name in settings.texts("fallback"):
        specs.setdefault(resolve(settings, name), "fallback")
    for spec, role in specs.items():
        parsed = parse_spec(spec)
        try:
            diagnosis = parsed.backend.diagnose(settings, parsed.model)
        except RepoagentError as problem:
            diagnosis = Diagnosis(*halves(str(problem)))
        if diagnosis.advice:
            yield error(role, f"{display_name(spec)}: {diagnosis.found}", diagnosis.advice)
        else:
            yield ok(role, ", ".join(filter(None, (display_name(spec), diagnosis.found))))


def check_addresses(layout: Layout | None) -> Iterator[Check]:
    """Where keys and prompts are sent to when it is not the provider's own address."""
    from repoagent.config.layers import load
    from repoagent.llm.providers.endpoints import display_address

    variables = {name for provider in PROVIDERS.values() for name in provider.address_variables}
    addresses = {name: os.environ[name] for name in sorted(variables) if os.environ.get(name)}
    for name, row in load(layout).family("providers").items():
        if row.get("base_url"):
            addresses[f"providers.{name}.base_url"] = str(row["base_url"])
    for name, address in addresses.items():
        try:
            parts = urlsplit(address)
            host = parts.hostname or ""
        except ValueError:
            yield error("address", f"{name} is no address", "say it as https://host/path")
            continue
        if parts.scheme not in ("http", "https") or not host:
            yield error("address", f"{name} is no address", "say it as https://host/path")
        elif parts.scheme == "http" and host not in _LOCAL:
            yield warning(
                "address",
                f"{name} is {display_address(address)}",
                "keys and files go there unencrypted: use https",
            )
        else:
            yield ok("address", f"{name} is {display_address(address)}")


def check_online(layout: Layout | None) -> Iterator[Check]:
    """Whether the configured models can be reached; nothing is paid for."""
    from repoagent.config.layers import load
    from repoagent.llm.availability import configured_models

    asked: dict[str, str] = {}
    for row in configured_models(load(layout)):
        if row.spec and row.status.tried and row.name in ("edit", "summary", "fallback"):
            asked.setdefault(row.spec, row.status.problem)
    for spec, problem in asked.items():
        from repoagent.llm.model import display_name

        if problem:
            yield error("online", f"{display_name(spec)}: {problem}", "see `repoagent models`")
        else:
            yield ok("online", f"{display_name(spec)} can be reached")
    if not asked:
        yield ok("online", "no configured model is reached over the network")


def _is_option(key: str) -> bool:
    from repoagent.config.options import find

    return find(key) is not None


def examine(start: Path, *, online: bool = False) -> list[Check]:
    """Look at everything that can be looked at from the folder `start`; with `online` the models are asked, too.

    Nothing is changed. Outside of a repository, or in a broken one, the rest is looked at all the same.
    """
    found = guarded("program", check_program)
    if any(check.name == "git" and check.level == "error" for check in found):
        worktree = None  # each check that runs git would say the same
    else:
        worktree, outside = _open(start)
        found += [outside] if outside else []
    where = layout(worktree) if worktree else None
    rest: list[tuple[str, Callable[[], Iterable[Check]]]] = [
        ("grammars", check_grammars),
        ("extras", check_extras),
    ]
    if not any(check.name == "git" and check.level == "error" for check in found):
        rest += [
            ("configuration", partial(check_configuration, where)),
            ("model", partial(check_models, where)),
            ("address", partial(check_addresses, where)),
        ]
        rest += [("online", partial(check_online, where))] if online else []
    if worktree:
        rest += [
            ("repository", partial(check_worktree, worktree)),
            (".repoagent", partial(check_folder, worktree)),
            ("interrupted", partial(check_leftovers, worktree)),
            ("hooks", partial(check_hooks, worktree)),
            ("history index", partial(check_history, worktree)),
            ("memory", partial(check_memory, worktree)),
            ("locks", partial(check_locks, worktree)),
        ]
    rest += [
        ("sandbox", check_sandbox),
        ("disk", partial(check_disk, worktree)),
        ("clock", partial(check_clock, worktree)),
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
