"""The commits behind an answer."""

from __future__ import annotations

from repoagent.history.render import read_headers
from tests.conftest import GitRepo


def test_all_are_told_in_one_go_whatever_they_say(repo: GitRepo) -> None:
    first = repo.head()
    repo.git(
        "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "--allow-empty", "-F", "-", stdin=b"Caf\xe9\n"
    )
    latin = repo.head()
    repo.git("commit", "-q", "--allow-empty", "--allow-empty-message", "-m", "")
    empty = repo.head()
    repo.commit("map", **{".mailmap": "Grace <ada@example.com>\n"})
    found = read_headers(repo.top, [empty, latin, first, latin])
    assert list(found) == [empty, latin, first]
    assert found[latin].subject == "Café" and found[empty].subject == "" and found[first].author == "Grace"
    assert first.startswith(found[first].short) and found[first].date[:4].isdigit()


def test_none_and_unknown_ones(repo: GitRepo) -> None:
    assert read_headers(repo.top, []) == {}
    assert read_headers(repo.top, ["0" * 39 + "1"]) == {}
    assert list(read_headers(repo.top, ["0" * 39 + "1", repo.head()])) == [repo.head()]
