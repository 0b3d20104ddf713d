"""The sandbox that worked is remembered: it is not tried before a request, and always before a command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from repoagent.agent.sandbox import backends
from repoagent.agent.sandbox.backends import Landlock, find, likely, tried
from repoagent.agent.sandbox.policy import Policy
from repoagent.errors import Refused
from repoagent.tasks.hidden_files import HiddenFiles
from repoagent.tasks.sandbox import Confinement

pytestmark = pytest.mark.skipif(find() is None, reason="no sandbox works here")


def _next_process() -> None:
    backends.find.cache_clear()
    backends._guess.cache_clear()


@pytest.fixture
def kept(clean_environment: Path) -> Iterator[Path]:
    """The file of a machine where one process has tried."""
    _next_process()
    likely()
    _next_process()
    yield clean_environment / ".cache" / "repoagent" / "sandbox.json"
    _next_process()


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    works = backends.works
    monkeypatch.setattr(backends, "works", lambda sandbox: names.append(sandbox.name) or works(sandbox))
    return names


def test_the_next_process_tries_only_before_a_command(kept: Path, tries: list[str], tmp_path: Path) -> None:
    assert kept.stat().st_mode & 0o777 == 0o600
    sandbox = likely()
    assert sandbox is not None and tries == []
    policy = Policy(tmp_path, tmp_path / "scratch")
    place = Confinement(policy, HiddenFiles.__new__(HiddenFiles), sandbox)
    for _ in range(2):
        assert place.wrap(["true"]) == sandbox.wrap(["true"], policy)
    assert tries == [sandbox.name]


def test_nothing_runs_where_what_worked_works_no_more(
    kept: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sandbox = likely()
    monkeypatch.setattr(backends, "works", lambda _: False)
    place = Confinement(Policy(tmp_path, tmp_path / "scratch"), HiddenFiles.__new__(HiddenFiles), sandbox)
    with pytest.raises(
        Refused, match=r"no command was run: the sandbox .* worked here before, but does not now"
    ):
        place.wrap(["true"])
    assert not kept.exists()


def test_a_weaker_answer_that_is_stale_or_forged_confines_no_command(kept: Path) -> None:
    best = find()
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "sandbox": "landlock", "mounting": False}))
    _next_process()
    guess = likely()
    assert isinstance(guess, Landlock) and not guess.mounting
    assert tried(guess) == best
    _next_process()
    assert likely() == best  # what was tried is what is kept


@pytest.mark.parametrize("change", ["boot", "link", "text", "kind"])
def test_what_may_not_hold_is_not_taken(kept: Path, tries: list[str], change: str, tmp_path: Path) -> None:
    said = json.loads(kept.read_text())
    if change == "link":
        kept.rename(tmp_path / "elsewhere")
        kept.symlink_to(tmp_path / "elsewhere")
    else:
        new = {"boot": {**said, "key": "0" * 64}, "text": [], "kind": {**said, "sandbox": "none"}}
        kept.write_text(json.dumps(new[change]))
    assert likely() is not None
    assert tries
    assert json.loads(kept.read_text()) == said
    assert not kept.is_symlink()
