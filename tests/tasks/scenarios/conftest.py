"""A stage for a task: a repository, and a model behind a local Messages API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.llm.providers.messages_server import Script, Server
from tests.tasks.scenarios.stage import PYTHON, Stage

QUICK = {  # a few seconds in total; the others run only in `make soak`
    "test_resume_after_a_limit[turns]",
    "test_the_users_work_in_the_same_file_stays_uncommitted[False]",
    "test_hidden_text_never_leaves_its_quotation",
    "test_a_file_that_knows_the_nonce_of_the_conversation",
    "test_a_model_that_obeys_does_no_harm[ask]",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.name not in QUICK:
            item.add_marker(pytest.mark.soak)


@pytest.fixture
def stage(
    make_repo: Callable[[str], GitRepo], server_with: Callable[[Script], Server]
) -> Callable[..., Stage]:
    """`stage({"more.txt": "…"})`: makes a repository with the files of PYTHON and the given ones."""

    def make(further: dict[str, bytes | str] | None = None) -> Stage:
        repo = make_repo("repo")
        for path, content in {**PYTHON, **(further or {})}.items():
            repo.write(path, content)
        repo.commit("Convert units")
        made = Stage(repo)
        made.server = server_with(made.script)
        return made

    return make
