"""The confinement of a run's commands: the sandbox, and the files hidden from commands and from git's output."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from repoagent.agent.approvals.policy import May
from repoagent.agent.approvals.rules import Known
from repoagent.agent.sandbox.confine import Sandbox, find_sandbox, unconfined_command
from repoagent.agent.sandbox.mounts import writable_roots
from repoagent.agent.sandbox.policy import Policy, default_hidden, scrub_environment
from repoagent.config.settings import Settings, user_file
from repoagent.dataclass import dataclass
from repoagent.edit.guards import off_limits
from repoagent.edit.guards.off_limits import holds_secrets
from repoagent.git.process import git_output
from repoagent.git.worktree import WorkTree, layout_of
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.storage.folders import open_folder
from repoagent.tasks.changes import sensitive_files
from repoagent.tasks.changes.change_set import quote_unless_plain
from repoagent.tasks.changes.sensitive_files import folders_above, list_files, submodule_paths
from repoagent.tasks.run_context import RunRequest
from repoagent.tasks.runs.directory import RunDirectory


@dataclass(frozen=True)
class HiddenFiles:
    """The files of `worktree` for which `why_not` gives a reason to hide them."""

    worktree: WorkTree
    why_not: Callable[[str], str | None]

    def __call__(self) -> Mapping[str, Known]:
        """The hidden paths, each mapped to "tracked" for a tracked secret, "excluded" for another tracked file, or ""
        for any other path.

        A folder that is hidden as a whole is one path. Ignored folders and other repositories are read one level deep.
        """
        tracked = list_files(self.worktree, "--cached")
        untracked = list_files(self.worktree, "--others", "--exclude-standard")
        ignored = list_files(self.worktree, "--others", "--ignored", "--exclude-standard", "--directory")
        paths = {*untracked, *ignored, *(f"{path}/" for path in submodule_paths(self.worktree))}
        for folder in [path for path in paths if path.endswith("/")]:
            with suppress(OSError), os.scandir(f"{self.worktree.top}/{folder}") as entries:
                slash = {True: "/", False: ""}
                paths |= {
                    f"{folder}{entry.name}{slash[entry.is_dir(follow_symlinks=False)]}" for entry in entries
                }
        paths |= folders_above({*paths, *tracked})
        hidden: dict[str, Known] = {path.rstrip("/"): "" for path in paths if self._hides(path)}
        hidden |= {
            path: "tracked" if holds_secrets(path) else "excluded" for path in tracked if self._hides(path)
        }
        return hidden

    def _hides(self, path: str) -> bool:
        return self.why_not(path) is not None and path.rpartition("/")[2] != ".git" and "/.git/" not in path


@dataclass(frozen=True)
class Confinement:
    """How commands are confined.

    hidden: the files that no model may see
    hidden_in_main: the same for the main work tree, which can be read from a linked one
    sandbox: None if none is available
    """

    policy: Policy
    hidden: HiddenFiles
    sandbox: Sandbox | None = None
    hidden_in_main: HiddenFiles | None = None

    @property
    def name(self) -> str:
        return self.sandbox.name if self.sandbox is not None else ""

    def program(self, argv: Sequence[str]) -> tuple[list[str], Mapping[str, str]] | None:
        """The command and environment for a user's program that may run unreviewed code; None without a sandbox."""
        if self.sandbox is None:
            return None
        return self.wrap(argv, may="shown"), scrub_environment(os.environ, self.policy)

    def writable(self) -> list[str]:
        """The folders that commands may write to, for a message."""
        top = os.path.realpath(self.policy.top)
        roots = writable_roots(self.policy)
        return [*("the work tree" if root == top else quote_unless_plain(root) for root in roots), "$TMPDIR"]

    def wrap(self, argv: Sequence[str], report: Path | None = None, may: May = "all") -> list[str]:
        """The command that runs `argv` in the sandbox, in which hidden files are not visible unless `may` is "all". If
        the sandbox fails, it writes to `report`."""
        if self.sandbox is None:
            return unconfined_command(argv, self.policy, report)
        policy = self.policy
        if may != "all":
            trees = (self.hidden, self.hidden_in_main) if self.hidden_in_main is not None else (self.hidden,)
            paths = (tree.worktree.top / path for tree in trees for path in hidden_paths(tree, may))
            policy = replace(policy, hide=(*policy.hide, *paths), read_only=policy.read_only or may == "read")
        return self.sandbox.wrap(argv, policy, report)


def hidden_paths(hidden: HiddenFiles, may: May) -> list[str]:
    """The paths that are hidden from a command. A command that does more than read sees tracked key files, because
    tests need them; known keys are masked in its output."""
    return [
        path
        for path, known in hidden().items()
        if may == "read" or known != "tracked" or not path.lower().endswith(off_limits.KEY_SUFFIXES)
    ]


def create_confinement(
    worktree: WorkTree, settings: Settings, request: RunRequest, run_dir: RunDirectory
) -> Confinement:
    for folder in (run_dir.scratch, run_dir.output):
        with open_folder(folder, create=True):
            pass
    policy = replace(
        _policy(worktree, settings, run_dir.scratch),
        read_only=request.mode == "read-only" or request.plan_only,
        network=request.network or settings.switch("run.network"),
    )
    if request.allow_sensitive:
        policy = replace(policy, shield=())
    return _confinement(worktree, policy, find_sandbox() if request.confine else None)


def confined_check(
    settings: Settings, worktree: WorkTree, scratch: Path, argv: Sequence[str]
) -> tuple[list[str], Mapping[str, str]] | None:
    """The command and environment for a check in the sandbox; None without a sandbox."""
    sandbox = find_sandbox()
    if sandbox is None:
        return None
    return _confinement(worktree, _policy(worktree, settings, scratch), sandbox).program(argv)


def _confinement(worktree: WorkTree, policy: Policy, sandbox: Sandbox | None) -> Confinement:
    # cached because all tracked files are looked up before each command
    hidden = HiddenFiles(worktree, cache(off_limits.off_limits_gate(worktree.top, ())))
    main, hidden_in_main = worktree.main_top, None
    if worktree.is_linked and main is not None:
        main_tree = worktree._replace(top=main, git_dir=worktree.common_dir)
        hidden_in_main = HiddenFiles(main_tree, cache(off_limits.off_limits_gate(main, ())))
    return Confinement(policy, hidden, sandbox, hidden_in_main)


def _policy(worktree: WorkTree, settings: Settings, scratch: Path) -> Policy:
    top = worktree.top
    git_paths = (top / ".git", worktree.git_dir, worktree.common_dir)
    keep_paths = (*git_paths, top / ".repoagent", layout_of(worktree).root)
    return Policy(
        top,
        scratch,
        keep=tuple(dict.fromkeys((*keep_paths, *sensitive_files.files_obeyed_by_git(worktree)))),
        shield=sensitive_files.files_run_on_opening(worktree),
        hide=(*default_hidden(Path.home()), user_file(os.environ).parent),
        also_write=tuple(Path(name).expanduser().absolute() for name in settings.texts("run.write")),
        also_read=(top,),
        network=settings.switch("run.network"),
        memory=settings.whole_or_none("run.memory"),
        processes=settings.whole_or_none("run.processes"),
    )


def hiding_variables(
    worktree: WorkTree, file: Path, excluded: Iterable[str], env: Mapping[str, str]
) -> dict[str, str]:
    """Write the attributes file `file`, and return the variables to add to `env` so that git uses it.

    The file has the user's attributes, and marks secrets and `excluded` files as binary, which keeps them out of
    patches of old commits, too. A `.gitattributes` in the repository takes precedence.
    """
    command = ("config", "--type=path", "--get", "core.attributesFile")
    configured = git_output(worktree.top, *command, ok=(0, 1)).stdout
    default = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "attributes"
    data = read_regular(Path(os.fsdecode(configured.rstrip(b"\n"))) if configured else default)
    lines = [(data or b"").decode("utf-8", "surrogateescape")]
    lines += [f"{_case_insensitive(name)} -diff" for name in off_limits.SECRET_NAMES]
    lines += [f"**/{_case_insensitive(path)} -diff" for path in off_limits.SECRET_PATHS]
    lines += [f"{name} !diff" for name in off_limits.HARMLESS_NAMES]
    for path in excluded:  # a quoted pattern that matches only this path
        plain = "".join(f"\\{char}" if char in "\\*?[" else char for char in f"/{path}")
        escaped = "".join(f"\\{char}" if char in '\\"' else char for char in plain)
        lines.append('"' + escaped.replace("\t", "\\t").replace("\n", "\\n") + '" -diff')
    write_whole(file, "\n".join([*lines, ""]).encode("utf-8", "surrogateescape"))
    number = int(env.get("GIT_CONFIG_COUNT", "0"))
    return {
        f"GIT_CONFIG_KEY_{number}": "core.attributesFile",
        f"GIT_CONFIG_VALUE_{number}": str(file),
        "GIT_CONFIG_COUNT": str(number + 1),
    }


def are_blobs(worktree: WorkTree, names: Sequence[str]) -> bool:
    """Whether one of `names` is the object name of a blob, which git would show even if its file is hidden."""
    if any("\n" in name for name in names):
        return True
    queries = "".join(f"{name}^{{}}\n" for name in names).encode("utf-8", "surrogateescape")
    check = "--batch-check=%(objecttype)"
    return b"blob" in git_output(worktree.top, "cat-file", check, stdin=queries).stdout.split(b"\n")


def _case_insensitive(pattern: str) -> str:
    return "".join(f"[{char}{char.upper()}]" if char.islower() else char for char in pattern)
