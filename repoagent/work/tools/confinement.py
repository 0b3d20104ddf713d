"""In what the commands of a run are confined: what they may write, what they do not see."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from repoagent.agent.approval.asked import May
from repoagent.agent.sandbox import (
    Policy,
    Sandbox,
    default_hidden,
    find,
    likely,
    scrubbed,
    tried,
    unconfined,
)
from repoagent.agent.sandbox.plan import writable_roots
from repoagent.config import Settings, user_file
from repoagent.dataclass import dataclass
from repoagent.edit.verify.scope import KEY_SUFFIXES
from repoagent.edit.verify.scope import gate as off_limits
from repoagent.repo import WorkTree, layout
from repoagent.store import Layout
from repoagent.store.folders import folder
from repoagent.work.request import RunRequest
from repoagent.work.tools.names import named
from repoagent.work.tools.obeyed import acting_on_opening, kept_for_git
from repoagent.work.tools.withheld import Withheld

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
        with folder(made, create=True):
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
