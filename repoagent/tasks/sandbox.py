"""The confinement of a run's commands, and explanations for the model when a command fails because of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from repoagent.agent.approvals.policy import May
from repoagent.agent.sandbox.backends import Landlock, Sandbox, find, unconfined
from repoagent.agent.sandbox.mount_plan import writable_roots
from repoagent.agent.sandbox.policy import Policy, default_hidden, scrubbed
from repoagent.config.settings import Settings, user_file
from repoagent.dataclass import dataclass
from repoagent.edit.guards.off_limits import KEY_SUFFIXES
from repoagent.edit.guards.off_limits import gate as off_limits
from repoagent.git.process import git
from repoagent.git.worktree import WorkTree
from repoagent.git.worktree import layout as layout_of
from repoagent.storage.folders import open_folder
from repoagent.tasks.changes.executed_files import files_obeyed_by_git, files_run_on_opening
from repoagent.tasks.changes.snapshot import named
from repoagent.tasks.hidden_files import HiddenFiles
from repoagent.tasks.run_context import RunRequest
from repoagent.tasks.runs.directory import RunDirectory


@dataclass(frozen=True)
class Confinement:
    """How commands are confined. hidden: the files that no model may see; hidden_in_main: the same of the main work
    tree, which can be read from a linked one. sandbox: None if none is available."""

    policy: Policy
    hidden: HiddenFiles
    sandbox: Sandbox | None = None
    hidden_in_main: HiddenFiles | None = None

    @property
    def name(self) -> str:
        return self.sandbox.name if self.sandbox is not None else ""

    def program(self, argv: Sequence[str]) -> tuple[list[str], Mapping[str, str]] | None:
        """The command and environment for a user's program that may run unreviewed code: confined as a command that ran
        without approval. None without a sandbox."""
        if self.sandbox is None:
            return None
        return self.wrap(argv, may="shown"), scrubbed(os.environ, self.policy)

    def writable(self) -> list[str]:
        """The places that commands may write, for a message."""
        top = os.path.realpath(self.policy.top)
        roots = writable_roots(self.policy)
        return [*("the work tree" if root == top else named(root) for root in roots), "$TMPDIR"]

    def wrap(self, argv: Sequence[str], report: Path | None = None, may: May = "all") -> list[str]:
        if self.sandbox is None:
            return unconfined(argv, self.policy, report)
        policy = self.policy
        if may != "all":
            trees = (self.hidden, self.hidden_in_main) if self.hidden_in_main is not None else (self.hidden,)
            paths = (tree.worktree.top / path for tree in trees for path in hidden_paths(tree, may))
            policy = replace(policy, hide=(*policy.hide, *paths), read_only=policy.read_only or may == "read")
        return self.sandbox.wrap(argv, policy, report)


def hidden_paths(hidden: HiddenFiles, may: May) -> list[str]:
    """The paths that a command does not see. A command that does more than read sees tracked keys, because tests need
    them; known keys are masked in its output."""
    return [
        path
        for path, known in hidden().items()
        if may == "read" or known != "tracked" or not path.lower().endswith(KEY_SUFFIXES)
    ]


def create_confinement(
    worktree: WorkTree, settings: Settings, request: RunRequest, run_dir: RunDirectory
) -> Confinement:
    """The confinement of a run's commands, in the best sandbox that works on this system."""
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
    return _confinement(worktree, policy, find() if request.confine else None)


def confined_check(
    settings: Settings, worktree: WorkTree, scratch: Path, argv: Sequence[str]
) -> tuple[list[str], Mapping[str, str]] | None:
    """The command and environment for a check in the sandbox; None without a sandbox."""
    sandbox = find()
    if sandbox is None:
        return None
    policy = _policy(worktree, settings, scratch)
    if not worktree.git_dir.exists():  # a patch outside of any repository
        return sandbox.wrap(argv, policy), scrubbed(os.environ, policy)
    return _confinement(worktree, policy, sandbox).program(argv)


def _confinement(worktree: WorkTree, policy: Policy, sandbox: Sandbox | None) -> Confinement:
    hidden = HiddenFiles(worktree, off_limits(worktree.top, ()))
    main, hidden_in_main = worktree.main_top, None
    if worktree.is_linked and main is not None:
        hidden_in_main = HiddenFiles(
            worktree._replace(top=main, git_dir=worktree.common_dir), off_limits(main, ())
        )
    return Confinement(policy, hidden, sandbox, hidden_in_main)


def _policy(worktree: WorkTree, settings: Settings, scratch: Path) -> Policy:
    run_on_opening: tuple[Path, ...] = ()
    keep_paths = [
        worktree.top / ".git",
        worktree.top / ".repoagent",
        layout_of(worktree).root,
        worktree.git_dir,
        worktree.common_dir,
    ]
    if worktree.git_dir.exists():
        keep_paths += files_obeyed_by_git(worktree)
        run_on_opening = files_run_on_opening(worktree)
    return Policy(
        worktree.top,
        scratch,
        keep=tuple(dict.fromkeys(keep_paths)),
        shield=run_on_opening,
        hide=(*default_hidden(Path.home()), user_file(os.environ).parent),
        also_write=tuple(Path(name).expanduser().absolute() for name in settings.texts("run.write")),
        also_read=(worktree.top,),
        network=settings.switch("run.network"),
        memory=settings.whole_or_none("run.memory"),
        processes=settings.whole_or_none("run.processes"),
    )


# Errors of pip, libc, Node, Go and Rust without a network, and of programs in offline mode.
_NETWORK = re.compile(
    r"from versions: none|could(?: not|n't) resolve|temporary failure in name resolution|name or service not known"
    r"|network is unreachable|no address associated with hostname|\bEAI_AGAIN\b|\bENOTFOUND\b|\bENETUNREACH\b"
    r"|no such host|failed to lookup address|GOPROXY=off|\bENOTCACHED\b|--offline was specified"
    r"|network connectivity is disabled",
    re.IGNORECASE,
)
_WRITE = re.compile(r"read-only file system|\bEROFS\b", re.IGNORECASE)
_DENIED = re.compile(r"permission denied|\bEACCES\b", re.IGNORECASE)  # without mounts
# Errors of Python, `python -m` and shells about a missing module, package metadata or program. A dotted module name is
# not matched: its package is installed.
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
    """Explains, once each, errors caused by a limit of the sandbox or by missing software."""

    confinement: Confinement
    explained: set[str] = field(default_factory=set)

    def __call__(self, output: str) -> str:
        texts = []
        for kind, explain in (
            ("network", self._network),
            ("writing", self._writing),
            ("missing", self._missing),
        ):
            if kind not in self.explained and (text := explain(output)):
                self.explained.add(kind)
                texts.append(text)
        return "\n".join(texts)

    @property
    def _offline(self) -> bool:
        return self.confinement.sandbox is not None and not self.confinement.policy.network

    def _network(self, output: str) -> str:
        if not self._offline or not _NETWORK.search(output):
            return ""
        return (
            "Commands have no network in this run, so nothing can be installed or downloaded. Do without, "
            "or say that the user must pass `--network`."
        )

    def _writing(self, output: str) -> str:
        sandbox = self.confinement.sandbox
        without_mounts = isinstance(sandbox, Landlock) and not sandbox.mounting
        denied = _WRITE.search(output) or (without_mounts and _DENIED.search(output))
        if sandbox is None or not denied:
            return ""
        return (
            f"The sandbox lets commands write only {' and '.join(self.confinement.writable())}, and not `.git`. "
            "Write there, or say what is missing: only the user can allow a folder, with `run.write`."
        )

    def _missing(self, output: str) -> str:
        for match in _MISSING.finditer(output):
            module = match["module"] or match["run"]
            if module and self._is_in_repository(module):
                continue
            name = module or match["package"] or match["program"] or match["other"]
            limit = ", and nothing can be installed in the sandbox" if self._offline else ""
            return f"`{name}` is not installed here{limit}; what needs it fails without your change, too."
        return ""

    def _is_in_repository(self, module: str) -> bool:
        """Whether the repository has a file or folder with the name of this module."""
        options = ("--no-literal-pathspecs", "ls-files", "--cached", "--others", "--exclude-standard", "--")
        names = (f":(glob)**/{module}.*", f":(glob)**/{module}/**")
        return bool(git(self.confinement.policy.top, *options, *names))
