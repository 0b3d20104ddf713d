"""Files that git, a server or an editor runs or reads without being asked to."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.edit.guards.risky_changes import concerns_text, find_concerns, hidden_changes, listed_reason
from repoagent.git.files import Content, FileChange
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, QUESTION, Open, Run, Script, files_of_head

NEW = "```diff\n--- /dev/null\n+++ b/{}\n@@ -0,0 +1 @@\n+x\n```\n"
FILTERS = GREET + NEW.format(".gitattributes")
APART = "You did not ask for a change to .gitattributes. Apply it anyway [y,n,?]? "


def new(path: str, after: bytes = b"x\n", mode: str = "100644") -> FileChange:
    return FileChange.at(path, None, Content(after, mode))


LISTED = [
    ".gitattributes", "deep/er/.gitattributes", ".GitAttributes", ".gitattributes.", ".git\u200cattributes",
    ".gitmodules", ".gitconfig", ".lfsconfig", ".github/workflows/ci.yml", ".github/actions/a/action.yml",
    ".gitlab-ci.yml", ".gitlab/ci/deploy.yml", ".circleci/config.yml", "Jenkinsfile", "azure-pipelines.yml",
    "azure-pipelines-release.yaml", ".husky/pre-commit", "web/.husky/pre-push", ".githooks/post-checkout",
    ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.toml", ".envrc", "web/.envrc", ".vscode/tasks.json",
    ".vscode/settings.json", "x.code-workspace", ".idea/runConfigurations/x.xml", ".devcontainer/devcontainer.json",
    ".repoagentignore", "CODEOWNERS", ".github/CODEOWNERS", "docs/CODEOWNERS", ".claude/settings.json", ".mcp.json",
]  # fmt: skip
UNLISTED = [
    "src/app.py", ".gitignore", "gitattributes", "github/workflows/x.yml", ".github/README.md", "package.json",
    "Makefile", "setup.py", "conftest.py", ".npmrc", ".vscode/extensions.json", "docs/Jenkinsfile.md", "lefthook.md",
    ".editorconfig", "a.gitmodules", "envrc",
]  # fmt: skip


def test_files_that_take_effect_on_their_own_are_listed() -> None:
    assert [path for path in LISTED if not listed_reason(path)] == []
    assert [path for path in UNLISTED if listed_reason(path)] == []


def found(repo: GitRepo, path: str, *, named: tuple[str, ...] = (), further: tuple[str, ...] = ()) -> str:
    return concerns_text(find_concerns([new(path)], named, open_worktree(repo.top), further))


def test_files_that_git_runs_or_reads(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(repo.top))
    repo.write("team.gitcfg", "[user]\n")
    for key, value, path, why in (
        ("core.hooksPath", "tools/git", "tools/git/pre-commit", "hooks"),
        ("core.hooksPath", "./tools/../tools/git/", "tools/git/pre-commit", "hooks"),
        ("include.path", "../team.gitcfg", "team.gitcfg", "any git option"),
        ("include.path", "~/team.gitcfg", "team.gitcfg", "any git option"),
        ("core.attributesFile", "tools/attributes", "tools/attributes", "filters"),
        ("filter.x.clean", "sh 'tools/clean.sh' %f", "tools/clean.sh", "filter.x.clean"),
        ("alias.ship", "!cd x && ./tools/ship.sh", "tools/ship.sh", "alias.ship"),
        ("core.fsmonitor", "tools/watch", "tools/watch", "core.fsmonitor"),
    ):
        repo.git("config", key, value)
        assert why in found(repo, path), value
        assert not found(repo, "src/app.py")
        repo.git("config", "--unset", key)


def test_the_target_of_a_linked_hook(repo: GitRepo) -> None:
    hooks = repo.top / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-commit").symlink_to("../../tools/check.sh")
    assert "hooks" in found(repo, "tools/check.sh")
    assert not found(repo, "tools/other.sh")


def test_both_names_of_a_rename_count_and_a_named_file_was_requested(repo: GitRepo) -> None:
    worktree = open_worktree(repo.top)
    moved = FileChange(".gitattributes", "x.txt", Content(b"x\n"), Content(b"x\n"))
    assert [c.path for c in find_concerns([moved], (), worktree)] == [".gitattributes"]
    gone = FileChange.at(".gitattributes", Content(b"x\n"), None)
    assert [c.asked for c in find_concerns([gone], (".gitattributes",), worktree)] == [True]
    assert "edit.sensitive" in found(repo, "deploy/prod.yml", further=("deploy/", "!deploy/README.md"))
    assert not found(repo, "deploy/README.md", further=("deploy/*", "!deploy/README.md"))


def test_an_environment_secret_is_never_requested(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "canary-8c2e")
    worktree = open_worktree(repo.top)
    (concern,) = find_concerns([new("a.py", b"key = 'canary-8c2e'\n")], ("a.py",), worktree)
    assert not concern.asked
    assert "SERVICE_TOKEN" in concern.sentence and "canary" not in concern.sentence
    kept = FileChange.at("a.py", Content(b"canary-8c2e\n"), Content(b"canary-8c2e\nx\n"))
    assert not find_concerns([kept], (), worktree)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (new("a.py", "x = 'a\u202eb'\n".encode()), "U+202E"),
        (new("a.py", b"a\x1b[31m\n"), "U+001B"),
        (new("a.py", "a\u200bb \u2066\n".encode()), "U+200B, U+2066"),
        (new("a.js", "const {a,\u3164} = b\n".encode()), "U+3164"),  # a name
        (new("a.js", "\uffa0\u115f \u1160\xad\n".encode()), "U+00AD, U+115F, U+1160, U+FFA0"),
        (new("a.js", "\u034f\u180b \ufe00\u2800\n".encode()), "U+034F, U+180B, U+2800, U+FE00"),
        (new("a.js", "x\U000e0100\U000e01ef\n".encode()), "U+E0100, U+E01EF"),
        (new("run.sh", mode="100755"), "run.sh becomes executable"),
        (FileChange.at("a", Content(b"x\n"), Content(b"x\n", "100755")), "a becomes executable"),
        (FileChange.at("a", Content("\u202e\n".encode()), Content("\u202e\nx\n".encode())), ""),
        (FileChange.at("a", Content("\u202e\n".encode()), Content("\u202e\n\u202e\n".encode())), "U+202E"),
        (new("a", "\ufeffemoji \U0001f469\u200d\U0001f52c \u2764\ufe0f, \tpage\x0c\r\n".encode()), ""),
        (new("a", b"caf\xe9 \x93quoted\x94\n"), ""),
    ],
)  # fmt: skip
def test_invisible_changes_are_reported(change: FileChange, words: str) -> None:
    sentences = " ".join(hidden_changes([change]))
    assert words in sentences and bool(words) == bool(sentences)


def test_yes_does_not_accept_sensitive_files(repo: GitRepo, edit: Run, script: Script) -> None:
    before = repo.head()
    script.replies(FILTERS)
    done = edit("--scope", "repo", code=3)
    assert ".gitattributes decides which filters" in done.err and "--allow-sensitive" in done.err
    assert done.err.count("\n") == 1 and (repo.head(), repo.status()) == (before, "")
    kept = Path(done.err.rstrip().rpartition(" ")[2]).read_text()
    assert "+++ b/.gitattributes" in kept and "+++ b/src/app.py" in kept
    script.replies(FILTERS)
    done = edit("--scope", "repo", "--allow-sensitive", "--json")
    assert any(".gitattributes decides" in remark for remark in done.json["remarks"])
    assert files_of_head(repo) == [".gitattributes", "src/app.py"]


def test_named_sensitive_files_need_no_question(repo: GitRepo, edit: Run, run: Run, script: Script) -> None:
    script.replies(FILTERS)
    done = run("edit", "src/app.py", "greet with a comma", "--dry-run", "--scope", "repo", code=0)
    assert ".gitattributes decides" in done.err
    script.replies(NEW.format(".gitattributes"))
    done = edit("--create", file=".gitattributes", request="make all files text")
    assert ".gitattributes decides" in done.err and files_of_head(repo) == [".gitattributes"]


@pytest.mark.parametrize(("key", "code"), [("y\n", 0), ("n\n", 1), ("\x04", 1)])
def test_sensitive_files_need_a_second_yes(
    repo: GitRepo, screen: Open, script: Script, key: str, code: int
) -> None:
    script.replies(FILTERS)
    before = repo.head()
    with screen("edit", "src/app.py", "greet with a comma", "--scope", "repo") as window:
        shown = window.expect(QUESTION)
        assert "warning:" in shown and ".gitattributes decides which filters" in " ".join(shown.split())
        window.send("y\n")
        window.answer(APART, key)
        assert window.end() == code
    changed = repo.git("diff", "--name-only", before, "HEAD").split()
    assert (len(changed), repo.status()) == (0 if code else 2, "")


def test_sensitive_files_can_be_deselected_by_hunk(repo: GitRepo, screen: Open, script: Script) -> None:
    script.replies(FILTERS)
    with screen("edit", "src/app.py", "greet with a comma", "--scope", "repo", "-p") as window:
        window.answer("]? ", "y\n")  # the hunk of src/app.py
        window.answer("]? ", "n\n")  # the hunk of .gitattributes
        assert window.end() == 0
    assert "You did not ask" not in window.seen and files_of_head(repo) == ["src/app.py"]
    assert repo.git("show", "-s", "--format=%B").count("Source-Blob:") == 1


def test_the_repository_cannot_set_the_patterns(repo: GitRepo, edit: Run, script: Script) -> None:
    script.replies(GREET)
    repo.git("config", "repoagent.edit.sensitive", "src/")
    # a file for reading is not changed
    edit("--scope", "repo", "--read", "src/app.py", file="README.md", request="say hello", code=4)
    script.replies(GREET + NEW.format("src/new.py"))
    assert "src/new.py is listed in edit.sensitive" in edit("--scope", "repo", code=3).err
