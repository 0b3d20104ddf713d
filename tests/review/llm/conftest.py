"""A review by a scripted model, in this process: a real repository, a real program behind `command:`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from repoagent.config.layers import load_settings
from repoagent.git.worktree import layout_of, open_worktree
from repoagent.review.change import Change
from repoagent.review.finding import ReviewOutcome
from repoagent.review.llm.review import model_findings
from repoagent.review.read_diff import How
from repoagent.review.review import ReviewSession
from tests.conftest import GitRepo
from tests.edit.conftest import Script, script
from tests.review.builders import read

__all__ = ["script"]

SHOP = """\
def total(prices, tax):
    result = 0
    for price in prices:
        result += price
    return result * (1 + tax)


class Store:
    def __init__(self, db):
        self.db = db

    def find(self, name):
        return self.db.execute("select * from t where name = ?", (name,))
"""
WORSE = SHOP.replace("result * (1 + tax)", "result * 1 + tax")
NOTHING = "<finish>nothing found</finish>\n"


def finding(
    path: str = "shop.py", lines: str = "5", quote: str = "    return result * 1 + tax", *,
    rule: str = "correctness", title: str = "Tax is added", why: str = "total([100], 0.2) is 100.2.", more: str = "",
    **args: str,
) -> str:  # fmt: skip
    """A finding as a model writes it."""
    arguments = "".join(f' {name}="{value}"' for name, value in args.items())
    code = "".join(f"| {line}\n" for line in quote.split("\n"))
    return (
        f'<finding rule="{rule}" path="{path}" lines="{lines}"{arguments}>\n'
        f"title: {title}\nquote:\n{code}why: {why}\n{more}</finding>\n"
    )


@dataclass
class Reviewing:
    """Reviews of one repository; `warnings` and `progress` collect the messages."""

    repo: GitRepo
    script: Script
    warnings: list[str] = field(default_factory=list)
    progress: list[str] = field(default_factory=list)

    def change(self, how: How = "staged", value: str = "") -> Change:
        return read(self.repo.top, how, value)

    def session(self, *, afresh: bool = False, record: Path | None = None, **flags: object) -> ReviewSession:
        worktree = open_worktree(self.repo.top)
        flags = {"model": self.script.spec, **{key.replace("__", "."): value for key, value in flags.items()}}
        settings = load_settings(layout_of(worktree), flags=flags, cwd=self.repo.top)
        return ReviewSession(
            worktree, layout_of(worktree), settings, self.warnings.append, self.progress.append, record=record,
            afresh=afresh,
        )  # fmt: skip

    def __call__(self, how: How = "staged", value: str = "", **flags: object) -> ReviewOutcome:
        return model_findings(self.change(how, value), self.session(**flags))

    def stage(self, **files: str | bytes) -> None:
        for name, text in files.items():
            self.repo.write(name, text)
        self.repo.git("add", "-A")


@pytest.fixture
def reviewing(make_repo: Callable[..., GitRepo], script: Script) -> Reviewing:
    """A repository with a shop whose staged change adds the tax instead of multiplying with it."""
    repo = make_repo()
    repo.commit("shop", **{"shop.py": SHOP})
    reviewing = Reviewing(repo, script)
    reviewing.stage(**{"shop.py": WORSE})
    return reviewing
