"""What of the work tree git runs or obeys, by this repository's own settings: no command in a sandbox may write it.

Our own git works outside of every sandbox, after each command and at the commit: it would run what a command has left
there for it. What an edit does to such files is asked about, see `edit.sensitive`.

In what the commands of a run are confined: what they may write, what they do not see.

Why a command failed, where that is its environment and its output does not say so.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from pathlib import Path
from typing import Protocol

from repoagent.agent.approvals.policy import May
from repoagent.agent.sandbox.backends import Landlock, Sandbox, find, likely, tried
from repoagent.agent.sandbox.bubblewrap import unconfined, writable_roots
from repoagent.agent.sandbox.policy import Policy, default_hidden, scrubbed
from repoagent.config.settings import Settings, user_file
from repoagent.dataclass import dataclass
from repoagent.edit.guards.scope import KEY_SUFFIXES
from repoagent.edit.guards.scope import gate as off_limits
from repoagent.edit.guards.sensitive import (
    BY_HOOKS,
    LEFTHOOK,
    LIST,
    ON_OPENING,
    RUN_BY_GIT,
    listed,
    obeyed_by_git,
)
from repoagent.git.process import git
from repoagent.git.worktree import WorkTree, layout
from repoagent.storage.folders import open_folder
from repoagent.storage.layout import Layout
from repoagent.tasks.changes.detect import named
from repoagent.tasks.changes.submodules import checked_out, git_of
from repoagent.tasks.context import RunRequest
from repoagent.tasks.hidden_files import Withheld

_GITLINK = b"160000 "
MOST = 100  # names of one folder

# Where no command in a sandbox may make what acts on opening. Folders, for a folder stands in for each meanwhile.
PLACES = (
    ".envrc", ".vscode", ".idea", ".zed", ".devcontainer",
    ".claude", ".codex", ".cursor", ".gemini", ".kiro", ".windsurf",
)  # fmt: skip

Signature = tuple[int, int, int]


def kept_for_git(worktree: WorkTree) -> tuple[Path, ...]:
    """Absolute paths, there or not. Two calls of git, and one for each submodule: git is asked in it what changed."""
    kept = [worktree.top / path for path in _names(worktree)]
    for path in checked_out(worktree):
        top = worktree.top / path
        kept += [top / name for name in _obeyed(WorkTree(top, top / ".git", top / ".git"), git_of(top))]
    return tuple(dict.fromkeys(kept))


def acting_on_opening(worktree: WorkTree) -> tuple[Path, ...]:
    """What an editor, a shell or a coding agent obeys when a folder is opened, and the .git of other repositories: what
    there is of it at the top and in folders with tracked files; PLACES also where they are not there."""
    top = worktree.top
    paths = os.fsdecode(git(top, "ls-files", "-z", "--cached")).split("\0")
    found = dict.fromkeys(
        [*PLACES, *(entry.name for entry in os.scandir(top) if _ACTING.fullmatch(entry.name))]
    )
    below = dict.fromkeys(match[0] for path in paths if (match := _ACTING.match(path)))
    below.update(dict.fromkeys(path for path, _ in _repositories(top, _all_above(paths))))
    nearest = sorted((path for path in below if path not in found), key=lambda path: (path.count("/"), path))
    return tuple(top / path for path in (*found, *nearest[:MOST]))


def _acting() -> re.Pattern[str]:
    """From the beginning of a path to the end of the first name in it that acts on opening."""
    patterns = {pattern.rstrip("/") for why, patterns in LIST if why in ON_OPENING for pattern in patterns}
    either = "|".join(re.escape(pattern).replace(r"\*", "[^/]*") for pattern in sorted(patterns))
    return re.compile(rf"(?:[^/]*/)*?(?:{either})(?=/|\Z)")


def _names(worktree: WorkTree) -> Iterator[str]:
    yield from _obeyed(worktree)
    for why, patterns in LIST:
        if why == BY_HOOKS:
            there = [name.rstrip("/") for name in patterns if os.path.lexists(worktree.top / name)]
            yield from LEFTHOOK if set(LEFTHOOK).intersection(there) else ()
            yield from there
    yield from (f"{path}/.git" for path in _submodules(worktree))


def _obeyed(worktree: WorkTree, options: Sequence[str] = ()) -> Iterator[str]:
    folder, obeyed = obeyed_by_git(worktree, options)
    if folder is not None:
        yield folder
    for path, why in obeyed.items():
        # a word of a command line that is no path there is most likely no path at all
        if not why.startswith(RUN_BY_GIT) or "/" in path or os.path.lexists(worktree.top / path):
            yield path


def _submodules(worktree: WorkTree) -> Iterator[str]:
    """Where git would find another repository, and run what that one's settings say: it need not be there yet."""
    for entry in git(worktree.top, "ls-files", "-z", "--stage").split(b"\0"):
        if entry.startswith(_GITLINK):
            yield os.fsdecode(entry.partition(b"\t")[2])


_ACTING = _acting()


class LookAtUsual(Protocol):
    def __call__(
        self, repositories: Sequence[str] = (), *, tell: bool = True
    ) -> Sequence[tuple[str, bool]]: ...


def tracked_folders(worktree: WorkTree) -> tuple[str, ...]:
    """The folders below the top that hold tracked files, with a slash at the end. One call of git."""
    return tuple(sorted(_all_above(os.fsdecode(git(worktree.top, "ls-files", "-z", "--cached")).split("\0"))))


def _all_above(paths: Iterable[str]) -> set[str]:
    """The folders above `paths`, at any height, with a slash at the end."""
    found: set[str] = set()
    for folder in {path.rpartition("/")[0] for path in paths}:
        while folder and f"{folder}/" not in found:
            found.add(f"{folder}/")
            folder = folder.rpartition("/")[0]
    return found


def watch_usual(top: Path, say: Callable[[str], None], folders: Sequence[str] = ()) -> LookAtUsual:
    """What looks whether a file at its usual place, that an editor, a hook or another program obeys by itself, was made
    or changed since it last looked: `say` gets a sentence for each. Git ignores many of these, so that nothing else
    would show them. So it is with a repository of its own in one of `folders`, or in those that the look is given:
    git, and a prompt of the shell that asks it, would obey its settings there. A look returns those of them that act
    when a folder is opened, each with whether it is new."""
    known = dict(_usual(top))
    known.update(_repositories(top, folders))

    def look(repositories: Sequence[str] = (), *, tell: bool = True) -> Sequence[tuple[str, bool]]:
        acting = []
        for path, now in (*_usual(top), *_repositories(top, (*folders, *repositories))):
            if known.get(path) != now:
                why = listed(path) or "is obeyed by git in that folder"
                if why in ON_OPENING or path.endswith("/.git"):
                    acting.append((path, path not in known))
                known[path] = now
                if tell:
                    say(f"warning: {named(path)} was written meanwhile, and {why}: look at it before it is")
        return acting

    return look


def _repositories(top: Path, folders: Iterable[str]) -> Iterator[tuple[str, Signature]]:
    """The .git that stands in one of these folders: of a folder only which one it is."""
    for folder in folders:
        try:
            found = os.lstat(f"{top}/{folder}.git")  # joined as text: there may be 10,000
        except OSError:
            continue
        is_folder = stat.S_ISDIR(found.st_mode)
        yield f"{folder}.git", (0 if is_folder else found.st_ctime_ns, 0, found.st_ino)


def _usual(top: Path) -> Iterator[tuple[str, Signature]]:
    """The files of LIST that stand where they usually are; of a folder those right in it."""
    for _, patterns in LIST:
        for name in patterns:
            for path in _names_in(top, name) if name.endswith("/") else (name,):
                try:
                    found = os.lstat(top / path)
                except OSError:
                    continue
                if not stat.S_ISDIR(found.st_mode):
                    yield path, (found.st_ctime_ns, found.st_size, found.st_ino)


def _names_in(top: Path, folder: str) -> list[str]:
    try:
        return sorted(folder + entry.name for entry in islice((top / folder).iterdir(), MOST))
    except OSError:
        return []


SAID = 5  # withheld files that are named


@dataclass(frozen=True)
class Confinement:
    """Where commands run. `withheld`: the files that no model is to see. `sandbox` is None where there is none."""

    policy: Policy
    withheld: Withheld
    sandbox: Sandbox | None = None
    of_main: Withheld | None = (
        None  # those of the main work tree, where this is a linked one: it can be read too
    )

    @property
    def name(self) -> str:
        return self.sandbox.name if self.sandbox is not None else ""

    def program(self, argv: Sequence[str]) -> tuple[list[str], Mapping[str, str]] | None:
        """What to run instead of a program of the user's that runs code which nobody has seen, and its environment:
        confined as a command that nobody was asked about. None where there is no sandbox."""
        if self.sandbox is None:
            return None
        return self.wrap(argv, may="shown"), scrubbed(os.environ, self.policy)

    def writable(self) -> list[str]:
        """What commands may write, in words."""
        top = os.path.realpath(self.policy.top)
        roots = writable_roots(self.policy)
        return [*("the work tree" if root == top else named(root) for root in roots), "$TMPDIR"]

    def wrap(self, argv: Sequence[str], report: Path | None = None, may: May = "all") -> list[str]:
        if self.sandbox is None:
            return unconfined(argv, self.policy, report)
        policy = self.policy
        if may != "all":
            looked = (self.withheld, self.of_main) if self.of_main is not None else (self.withheld,)
            unseen = (one.worktree.top / path for one in looked for path in hidden_from(one, may))
            hide = (*policy.hide, *unseen)
            policy = replace(policy, hide=hide, read_only=policy.read_only or may == "read")
        return tried(self.sandbox).wrap(argv, policy, report)


def hidden_from(withheld: Withheld, may: May) -> list[str]:
    """What a command does not see. The keys that a repository brings, as its tests need them, are there for one that
    does more than read; what is known as a key is masked in what it prints."""
    return [
        path
        for path, known in withheld().items()
        if may == "read" or known != "tracked" or not path.lower().endswith(KEY_SUFFIXES)
    ]


def confinement(
    worktree: WorkTree, home: Layout, settings: Settings, request: RunRequest, scratch: Path
) -> Confinement:
    """What commands of this run may touch, in the best sandbox that works here."""
    for made in (scratch, scratch.with_name("output")):
        with open_folder(made, create=True):
            pass
    policy = replace(
        _policy(worktree, settings, scratch, home.root),
        read_only=request.mode == "read-only" or request.plan_only,
        network=request.network or settings.switch("run.network"),
    )
    if request.allow_sensitive:
        policy = replace(policy, shield=())
    return _place(worktree, policy, likely() if request.confine else None)


def confined_check(
    settings: Settings, worktree: WorkTree, scratch: Path, argv: Sequence[str]
) -> tuple[list[str], Mapping[str, str]] | None:
    """What to run instead of a check, and its environment; None where there is no sandbox."""
    sandbox = find()
    if sandbox is None:
        return None
    policy = _policy(worktree, settings, scratch, layout(worktree).root)
    if not worktree.git_dir.exists():  # a patch outside of any repository: git can't be asked
        return sandbox.wrap(argv, policy), scrubbed(os.environ, policy)
    return _place(worktree, policy, sandbox).program(argv)


def _place(worktree: WorkTree, policy: Policy, sandbox: Sandbox | None) -> Confinement:
    withheld = Withheld(worktree, off_limits(worktree.top, ()))
    main, of_main = worktree.main_top, None
    if worktree.is_linked and main is not None:
        of_main = Withheld(worktree._replace(top=main, git_dir=worktree.common_dir), off_limits(main, ()))
    return Confinement(policy, withheld, sandbox, of_main)


def _policy(worktree: WorkTree, settings: Settings, scratch: Path, *keep: Path) -> Policy:
    acting: tuple[Path, ...] = ()
    kept = [worktree.top / ".git", worktree.top / ".repoagent", *keep, worktree.git_dir, worktree.common_dir]
    if worktree.git_dir.exists():
        kept += kept_for_git(worktree)
        acting = acting_on_opening(worktree)
    return Policy(
        worktree.top,
        scratch,
        keep=tuple(dict.fromkeys(kept)),
        shield=acting,
        hide=(*default_hidden(Path.home()), user_file(os.environ).parent),
        also_write=tuple(Path(name).expanduser().absolute() for name in settings.texts("run.write")),
        also_read=(worktree.top,),
        network=settings.switch("run.network"),
        memory=settings.whole_or_none("run.memory"),
        processes=settings.whole_or_none("run.processes"),
    )


# What programs print where they miss the network: pip, libc, Node, Go, Rust; and those that are told to stay offline.
_NETWORK = re.compile(
    r"from versions: none|could(?: not|n't) resolve|temporary failure in name resolution|name or service not known"
    r"|network is unreachable|no address associated with hostname|\bEAI_AGAIN\b|\bENOTFOUND\b|\bENETUNREACH\b"
    r"|no such host|failed to lookup address|GOPROXY=off|\bENOTCACHED\b|--offline was specified"
    r"|network connectivity is disabled",
    re.IGNORECASE,
)
_WRITE = re.compile(r"read-only file system|\bEROFS\b", re.IGNORECASE)
_DENIED = re.compile(r"permission denied|\bEACCES\b", re.IGNORECASE)  # without mounts
# Python, `python -m` and shells where a module, a package's metadata or a program is missing. A dotted name is one that
# its own package lacks.
_MISSING = re.compile(
    r"^(?:E +)?(?:[\w.]+\.)?(?:ModuleNotFoundError: No module named '(?P<module>\w+)'\s*$"
    r"|PackageNotFoundError: (?:No package metadata was found for )?(?P<package>[\w.-]+)\s*$)"
    r"|^\S*python[\d.]*: No module named (?P<run>\w+)\s*$"
    r"|^\S+: (?:line \d+: )?(?P<program>[\w.+-]+): command not found\s*$"
    r"|^\S*sh: \d+: (?P<other>[\w.+-]+): not found\s*$",
    re.MULTILINE | re.ASCII,
)


@dataclass
class Explainer:
    """Gives a line for an output that tells of a limit of `place`, or of what is not installed, once for each."""

    place: Confinement
    said: set[str] = field(default_factory=set)

    def __call__(self, output: str) -> str:
        return "\n".join(filter(None, [self._network(output), self._writing(output), self._missing(output)]))

    def _network(self, output: str) -> str:
        if not self._offline or not _NETWORK.search(output) or not self._first("network"):
            return ""
        return (
            "Commands have no network in this run, so nothing can be installed or fetched: do without, or say that it "
            "needs `--network`, which only the user can give."
        )

    def _writing(self, output: str) -> str:
        sandbox = self.place.sandbox
        bare = isinstance(sandbox, Landlock) and not sandbox.mounting
        told = _WRITE.search(output) or (bare and _DENIED.search(output))
        if sandbox is None or not told or not self._first("writing"):
            return ""
        return (
            f"The sandbox lets commands write nothing but {' and '.join(self.place.writable())}, and not `.git`: write "
            "there, or say what is missing: only the user can allow a folder, with `run.write`."
        )

    def _missing(self, output: str) -> str:
        for found in _MISSING.finditer(output):
            module = found["module"] or found["run"]
            if module and self._is_here(module):
                continue
            if not self._first("missing"):
                break
            name = module or found["package"] or found["program"] or found["other"]
            no_way = ", and nothing can be installed in the sandbox" if self._offline else ""
            return f"`{name}` is not installed here{no_way}: what needs it fails without your change too."
        return ""

    def _is_here(self, module: str) -> bool:
        """Whether the repository has a file or a folder of this module's name."""
        kinds = ("--cached", "--others", "--exclude-standard")
        names = (f":(glob)**/{module}.*", f":(glob)**/{module}/**")
        return bool(git(self.place.policy.top, "--no-literal-pathspecs", "ls-files", *kinds, "--", *names))

    @property
    def _offline(self) -> bool:
        return self.place.sandbox is not None and not self.place.policy.network

    def _first(self, kind: str) -> bool:
        first = kind not in self.said
        self.said.add(kind)
        return first
