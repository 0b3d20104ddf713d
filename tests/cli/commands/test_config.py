"""`repoagent config` and `completion`, as a user runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.cli.commands.config import config_template
from repoagent.config.layers import load_settings
from repoagent.config.options import OPTIONS
from repoagent.storage.layout import Layout
from tests.cli.apply_patch import Ask, Done
from tests.conftest import GitRepo


def test_wrong_calls_change_nothing(repo: GitRepo, ask: Ask, tmp_path: Path, clean_environment: Path) -> None:
    for arguments, message in (
        (["modle", "x"], "unknown option modle; did you mean model?"),
        (["modle"], "did you mean model?"),
        (["--unset", "modle"], "did you mean model?"),
        (["max_turns", "many"], "invalid value 'many' for max_turns"),
        (["max_turns", "1", "2"], "max_turns takes one value"),
        (["--shared", "check", "make"], "only you can set check: omit --shared"),
        (["--shared", "max_turns"], "--shared needs a KEY and a VALUE"),
        (["--unset", "max_turns", "3"], "--unset takes one KEY"),
        (["--unset"], "--unset takes one KEY"),
    ):
        assert message in ask(*arguments, code=2).error
    assert not (repo.top / ".repoagent").exists()
    assert not (clean_environment / ".config").exists()
    done = ask("--shared", "max_turns", "3", cwd=tmp_path, code=2)
    assert "--shared needs a repository" in done.err


def test_options_are_listed_with_their_origins_and_printed_by_key(repo: GitRepo, ask: Ask) -> None:
    repo.git("config", "repoagent.maxCost", "1.5")
    ask("models.openai/gpt-4.1.input", "2")
    rows = [line.split(None, 2) for line in ask(REPOAGENT_MODEL="manual").out.splitlines()]
    assert ["model", "manual", "environment REPOAGENT_MODEL"] in rows
    assert ["max_cost", "1.5", "git config (local)"] in rows
    assert ["models.openai/gpt-4.1.input", "2", "file:~/.config/repoagent/config.toml"] in rows
    assert ["max_tokens", "none", "default"] in rows
    as_json = ask("--json").json
    assert as_json["version"] == 1
    assert {"key": "max_cost", "value": 1.5, "origin": "git config (local)"} in as_json["settings"]
    assert ask("max_turns").out == ask("maxTurns").out == "10\n"
    assert ask("max_tokens") == Done(1, "", "repoagent: max_tokens is not set\n")
    assert ask("max_tokens", "--json").json["value"] is None
    ask("context", "a.md", "b c.md")
    assert ask("context").out == "a.md\nb c.md\n"


@pytest.fixture
def path(clean_environment: Path) -> Path:
    """The user's own file."""
    return clean_environment / ".config/repoagent/config.toml"


def test_a_value_is_set_for_the_user(repo: GitRepo, ask: Ask, path: Path, tmp_path: Path) -> None:
    assert ask("max_turns", "30", code=0).err == f"set max_turns in {path}\n"
    assert path.read_text() == "max_turns = 30\n"
    assert not (repo.top / ".repoagent").exists()
    assert ask("max_turns").out == "30\n"
    real = tmp_path / "dotfiles.toml"  # a symbolic link to the file stays
    real.write_text("# mine\n")
    path.unlink()
    path.symlink_to(real)
    assert ask("check", "make test", cwd=tmp_path).code == 0  # the user's own to set
    assert real.read_text() == '# mine\ncheck = "make test"\n' and path.is_symlink()


def test_a_shared_value_says_where_it_is_and_whether_it_is_used(repo: GitRepo, ask: Ask) -> None:
    done = ask("--shared", "max_turns", "3")
    assert done.err == f"set max_turns in {repo.top}/.repoagent/config.toml\n"
    assert repo.read(".repoagent/config.toml") == b"max_turns = 3\n"
    assert repo.read(".repoagent/.gitignore") == b"*\n"
    assert repo.status() == ""
    done = ask("--shared", "max_turns", "4", REPOAGENT_MAX_TURNS="9")
    assert "warning: this value has no effect: environment REPOAGENT_MAX_TURNS sets it to 9\n" in done.err
    done = ask("--shared", "max_turns", "40")
    assert "may only lower a limit: ignored max_turns = 40" in done.err


def test_a_value_is_unset(repo: GitRepo, ask: Ask, path: Path) -> None:
    path.parent.mkdir(parents=True)
    models = '[models."openai/gpt-4.1"]'
    path.write_text(f'# mine\ncheck = "make"\n"check.timeout" = 60\n\n{models}\ninput = 2\noutput = 1\n')
    for key in ("check.timeout", "models.openai/gpt-4.1.input"):
        done = ask("--unset", key)
        assert (done.code, done.err.splitlines()[0]) == (0, f"unset {key} in {path}")
    assert path.read_text() == f'# mine\ncheck = "make"\n\n{models}\noutput = 1\n'
    done = ask("--unset", "check.timeout")
    assert done.code == 1 and done.err.splitlines()[-1] == f"repoagent: check.timeout is not set in {path}"
    ask("--shared", "max_turns", "3")
    assert ask("--unset", "max_turns").code == 1  # not in your own file
    assert ask("--unset", "--shared", "max_turns").code == 0
    assert repo.read(".repoagent/config.toml") == b""


def test_init_creates_shared_files(repo: GitRepo, ask: Ask) -> None:
    repo.write("sub/x", "")
    repo.commit()
    done = ask("init", cwd=repo.top / "sub")
    changes = ["made", "config.toml", "made", "context.md", "changed", ".gitignore"]
    assert done.out.replace("../.repoagent/", "").split() == changes
    assert "git add ../.repoagent" in done.err
    assert repo.status() == "?? .repoagent/.gitignore\n?? .repoagent/config.toml\n?? .repoagent/context.md\n"
    files = ["config.toml", "context.md", "skills/release/SKILL.md", "skills/release/scripts/next"]
    for private in ("memory/index.json", "runs/agents/run.json"):
        repo.write(f".repoagent/{private}", "{}")
    for path in files[2:]:
        repo.write(f".repoagent/{path}", "")
    shared = repo.git("ls-files", "--others", "--exclude-standard").split()
    assert shared == [f".repoagent/{path}" for path in (".gitignore", *files)]
    # again, it changes nothing
    repo.write(".repoagent/config.toml", "max_turns = 3\n")
    ignore = repo.read(".repoagent/.gitignore").rstrip() + b"\n!/mine"
    repo.write(".repoagent/.gitignore", ignore)
    assert [file["what"] for file in ask("init", "--json").json["files"]] == ["kept"] * 3
    assert repo.read(".repoagent/config.toml") == b"max_turns = 3\n"
    assert repo.read(".repoagent/.gitignore") == ignore
    # not through a link
    (repo.top / ".repoagent").rename(repo.top / "before")
    (repo.top / "elsewhere").mkdir()
    (repo.top / ".repoagent").symlink_to("elsewhere")
    assert ask("init").code == 3 and list((repo.top / "elsewhere").iterdir()) == []


def test_every_line_of_the_template_means_its_default(repo: GitRepo, ask: Ask) -> None:
    template = config_template()
    assert max(map(len, template.splitlines())) <= 110
    lines = [line.removeprefix("#") for line in template.splitlines() if not line.startswith("# ")]
    repo.write(".repoagent/config.toml", "\n".join(lines))
    settings = load_settings(Layout(repo.top / ".repoagent", repo.top / ".git"), repo.top)
    for option in OPTIONS:
        if option.repository_may_set and option.key != "run.mode":  # may only be less than its default
            assert settings.setting(option.key).value == option.default
            assert settings.origin(option.key).startswith("file:") or option.default is None
    assert settings.warnings == ()
