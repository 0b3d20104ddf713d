"""One edit, and the proof that nothing else changed: shared by the tests of many kinds of repositories."""

from __future__ import annotations

from pathlib import Path

from repoagent.git.transaction.results import CommitResult
from tests.conftest import GitRepo
from tests.git.edits import change, edit

Seen = dict[str, object]


def seen(repo: GitRepo, *but: str) -> Seen:
    """Everything that an edit of the files `but` must leave unchanged."""
    skipped = {repo.top / path for path in but}
    return {
        "branch": repo.git("symbolic-ref", "-q", "HEAD", ok=False),
        "refs": [
            line
            for line in repo.git("show-ref", ok=False).splitlines()
            if "refs/heads/" not in line and "refs/stash" not in line
        ],
        "status": repo.status(),
        "index": [
            line for line in repo.git("ls-files", "-v", "--stage", "-z").split("\0") if _path(line) not in but
        ],
        "bits": [line[0] for line in repo.git("ls-files", "-v", "-z").split("\0")[:-1]],
        "files": {
            str(path): (path.lstat().st_mode, path.readlink() if path.is_symlink() else path.read_bytes())
            for path in repo.top.rglob("*")
            if path not in skipped and (path.is_symlink() or path.is_file()) and _is_the_users(repo, path)
        },
        "folders": {str(path) for path in repo.top.rglob("*") if path.is_dir() and _is_the_users(repo, path)},
        "config": _config(repo),
        "stash": repo.git("stash", "list"),
    }


def only(
    repo: GitRepo, path: str, old: str | bytes, new: str | bytes, *, head_too: bool = True, **options: object
) -> CommitResult:
    """Make the edit that replaces `old` by `new` in the file; HEAD has it, and nothing else changed. `head_too` is
    False if the committed text differs from that of the file: then the caller checks it.

    `head_too` is False where the committed text is not that of the file: then the caller looks at it.
    """
    tree = repo.git("ls-tree", "-rz", "HEAD").split("\0")
    before, parent = seen(repo, path), repo.head()
    text = repo.git("cat-file", "blob", f"HEAD:{path}").encode("utf-8", "surrogateescape")
    edited = change(repo, path, old, new)
    result = edit(repo, edited, message="the edit", **options)
    assert (result.parent, result.commit) == (parent, repo.head())
    assert repo.git("rev-list", "--parents", "-n1", "HEAD", "--").split() == [result.commit, parent]
    assert repo.git("log", "-1", "--format=%s%n%an <%ae>", "--") == "the edit\nAda Tester <ada@example.com>\n"
    after = repo.git("ls-tree", "-rz", "HEAD").split("\0")
    assert [_path(line) for line in set(tree) ^ set(after)] == [path, path]
    if head_too:
        old, new = (one.encode() if isinstance(one, str) else one for one in (old, new))
        now = repo.git("cat-file", "blob", f"HEAD:{path}").encode("utf-8", "surrogateescape")
        assert now == text.replace(old, new)
    assert repo.read(path) == edited.after
    unchanged(repo, before, path)
    nothing_left(repo)
    return result


def unchanged(repo: GitRepo, before: Seen, *but: str) -> None:
    """Check that everything is as `seen` before."""
    after = seen(repo, *but)
    different = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    if different:
        raise AssertionError(f"{different!s:.3000}")


def nothing_left(repo: GitRepo) -> None:
    """Check that there is no lock, no journal, and no broken object."""
    here = Path(repo.git("rev-parse", "--absolute-git-dir").strip())
    assert [str(path) for path in here.rglob("*.lock")] == []
    folder = here / "repoagent" / "journal"
    assert not folder.exists() or list(folder.iterdir()) == []
    assert repo.git("fsck", "--connectivity-only", "--no-dangling") == ""


def _path(line: str) -> str:
    return line.partition("\t")[2]


def _is_the_users(repo: GitRepo, path: Path) -> bool:
    return not {".git", ".repoagent"} & set(path.relative_to(repo.top).parts)


def _config(repo: GitRepo) -> bytes:
    return repo.git("config", "--list", "--local").encode("utf-8", "surrogateescape")
