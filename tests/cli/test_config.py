"""`repoagent config` and `completion`, as a user runs them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.conftest import GitRepo
from tests.program import run

MAIN = "import sys; from repoagent.cli import main; main(['repoagent', *sys.argv[1:]])"


def program(cwd: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    done = run(arguments, cwd, env=env)
    return subprocess.CompletedProcess(arguments, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_wrong_calls_change_nothing(repo: GitRepo, tmp_path: Path, clean_environment: Path) -> None:
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
        done = program(repo.top, "config", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
    assert not (repo.top / ".repoagent").exists()
    assert not (clean_environment / ".config").exists()
    done = program(tmp_path, "config", "--shared", "max_turns", "3")
    assert done.returncode == 2
    assert "--shared needs a repository" in done.stderr


def test_the_list_has_every_option_with_its_origin(repo: GitRepo, clean_environment: Path) -> None:
    repo.git("config", "repoagent.maxCost", "1.5")
    program(repo.top, "config", "models.openai/gpt-4.1.input", "2")
    out = program(repo.top, "config", REPOAGENT_MODEL="manual").stdout
    rows = [line.split(None, 2) for line in out.splitlines()]
    assert ["model", "manual", "environment REPOAGENT_MODEL"] in rows
    assert ["max_cost", "1.5", "git config (local)"] in rows
    assert ["models.openai/gpt-4.1.input", "2", "file:~/.config/repoagent/config.toml"] in rows
    assert ["max_tokens", "none", "default"] in rows
    as_json = json.loads(program(repo.top, "config", "--json").stdout)
    assert as_json["version"] == 1
    assert {"key": "max_cost", "value": 1.5, "origin": "git config (local)"} in as_json["settings"]


def test_a_key_prints_its_value(repo: GitRepo) -> None:
    assert program(repo.top, "config", "max_turns").stdout == "10\n"
    assert program(repo.top, "config", "maxTurns").stdout == "10\n"
    missing = program(repo.top, "config", "max_cost")
    assert (missing.returncode, missing.stdout, missing.stderr) == (1, "", "repoagent: max_cost is not set\n")
    assert json.loads(program(repo.top, "config", "max_cost", "--json").stdout)["value"] is None
    program(repo.top, "config", "context", "a.md", "b c.md")
    assert program(repo.top, "config", "context").stdout == "a.md\nb c.md\n"


def test_a_value_is_set_for_the_user(repo: GitRepo, clean_environment: Path) -> None:
    path = clean_environment / ".config" / "repoagent" / "config.toml"
    done = program(repo.top, "config", "max_turns", "30")
    assert (done.returncode, done.stderr) == (0, f"set max_turns in {path}\n")
    assert path.read_text() == "max_turns = 30\n"
    assert not (repo.top / ".repoagent").exists()
    assert program(repo.top, "config", "check", "make test").returncode == 0  # the user's own to set
    assert program(repo.top, "config", "max_turns").stdout == "30\n"


def test_a_shared_value_says_where_it_is_and_whether_it_is_used(repo: GitRepo) -> None:
    done = program(repo.top, "config", "--shared", "max_turns", "3")
    assert done.stderr == f"set max_turns in {repo.top}/.repoagent/config.toml\n"
    assert repo.read(".repoagent/config.toml") == b"max_turns = 3\n"
    assert repo.read(".repoagent/.gitignore") == b"*\n"
    assert repo.status() == ""
    done = program(repo.top, "config", "--shared", "max_turns", "4", REPOAGENT_MAX_TURNS="9")
    assert "warning: this value has no effect: environment REPOAGENT_MAX_TURNS sets 9\n" in done.stderr
    done = program(repo.top, "config", "--shared", "max_turns", "40")
    assert "may only lower a limit: ignored max_turns = 40" in done.stderr


def test_a_value_is_unset(repo: GitRepo, clean_environment: Path) -> None:
    path = clean_environment / ".config" / "repoagent" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(
        '# mine\ncheck = "make"\n"check.timeout" = 60\n\n[models."openai/gpt-4.1"]\ninput = 2\noutput = 1\n'
    )
    for key in ("check.timeout", "models.openai/gpt-4.1.input"):
        done = program(repo.top, "config", "--unset", key)
        assert (done.returncode, done.stderr.splitlines()[0]) == (0, f"unset {key} in {path}")
    assert path.read_text() == '# mine\ncheck = "make"\n\n[models."openai/gpt-4.1"]\noutput = 1\n'
    done = program(repo.top, "config", "--unset", "check.timeout")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1,
        f"repoagent: check.timeout is not set in {path}",
    )
    program(repo.top, "config", "--shared", "max_turns", "3")
    assert program(repo.top, "config", "--unset", "max_turns").returncode == 1  # not in your own file
    assert program(repo.top, "config", "--unset", "--shared", "max_turns").returncode == 0
    assert repo.read(".repoagent/config.toml") == b""


def test_a_symbolic_link_to_the_user_file_stays(
    repo: GitRepo, clean_environment: Path, tmp_path: Path
) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text("# mine\n")
    path = clean_environment / ".config" / "repoagent" / "config.toml"
    path.parent.mkdir(parents=True)
    path.symlink_to(real)
    assert program(tmp_path, "config", "check", "make test").returncode == 0
    assert real.read_text() == '# mine\ncheck = "make test"\n'
    assert path.is_symlink()


def test_init_creates_shared_files(repo: GitRepo) -> None:
    repo.write("sub/x", "")
    repo.commit()
    done = program(repo.top / "sub", "config", "init")
    assert done.stdout.split() == [
        *("made", "../.repoagent/config.toml"),
        *("made", "../.repoagent/context.md"),
        *("changed", "../.repoagent/.gitignore"),
    ]
    assert "git add ../.repoagent" in done.stderr
    assert repo.status() == "?? .repoagent/.gitignore\n?? .repoagent/config.toml\n?? .repoagent/context.md\n"
    repo.write(".repoagent/memory/index.json", "{}")
    repo.write(".repoagent/skills/release/SKILL.md", "")
    repo.write(".repoagent/skills/release/scripts/next", "")
    repo.write(".repoagent/runs/agents/run.json", "{}")
    assert repo.git("ls-files", "--others", "--exclude-standard").split() == [
        ".repoagent/.gitignore",
        ".repoagent/config.toml",
        ".repoagent/context.md",
        ".repoagent/skills/release/SKILL.md",
        ".repoagent/skills/release/scripts/next",
    ]


def test_init_again_changes_nothing(repo: GitRepo) -> None:
    program(repo.top, "config", "init")
    repo.write(".repoagent/config.toml", "max_turns = 3\n")
    ignore = "*\n!/.gitignore\n!/config.toml\n!/context.md\n!/skills/\n!/skills/**\n!/mine"
    repo.write(".repoagent/.gitignore", ignore)
    done = program(repo.top, "config", "init", "--json")
    assert [file["what"] for file in json.loads(done.stdout)["files"]] == ["kept"] * 3
    assert repo.read(".repoagent/config.toml") == b"max_turns = 3\n"
    assert repo.read(".repoagent/.gitignore") == ignore.encode()


def test_init_through_a_link_is_refused(repo: GitRepo, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (repo.top / ".repoagent").symlink_to(tmp_path / "elsewhere")
    done = program(repo.top, "config", "init")
    assert done.returncode == 3
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_every_line_of_the_template_means_its_default(repo: GitRepo) -> None:
    from repoagent.cli.commands.config import config_template
    from repoagent.config.layers import load
    from repoagent.config.options import OPTIONS
    from repoagent.storage.layout import Layout

    template = config_template()
    assert max(map(len, template.splitlines())) <= 110
    lines = [line.removeprefix("#") for line in template.splitlines() if not line.startswith("# ")]
    repo.write(".repoagent/config.toml", "\n".join(lines))
    settings = load(Layout(repo.top / ".repoagent", repo.top / ".git"), repo.top)
    for option in OPTIONS:
        if option.repository_may_set and option.key != "run.mode":  # may only be less than its default
            assert settings.setting(option.key).value == option.default
            assert settings.origin(option.key).startswith("file:") or option.default is None
    assert settings.warnings == ()
