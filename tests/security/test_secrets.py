"""No secret of the environment stands in any file, nor is sent to a model, however an edit fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from repoagent.storage.secrets import MASK, secrets_of, without_secrets
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script

EDIT = ("edit", "src/app.py", "greet with a comma", "--yes")
CANARIES = {
    "ANTHROPIC_API_KEY": "canary-anthropic-51",
    "GITHUB_TOKEN": "canary-github-52",
    "DB_PASSWORD": "canary-pass word-53",
    "AWS_SECRET_ACCESS_KEY": "canary/aws+54=",
    "OPENAI_APIKEY": "canary-openai-55",
}
SECRET = "X_KEY KEY API_KEYS GITHUB_PAT PGPASSWORD MYSQL_PWD my_token TOKEN2 CREDENTIAL AZURE_CLIENT_SECRET"
PLAIN = {
    "KEYBOARD": "qwertz-de", "PATH": "/bin:/usr/bin", "PWD": "/home/somebody", "MONKEY": "chimpanzee", "COMPATIBLE": "long-enough",
    "API_KEY": "short", "GOOGLE_APPLICATION_CREDENTIALS": "/etc/hosts", "BYPASS": "long-enough",
}  # fmt: skip


def test_variables_that_are_secrets() -> None:
    secret = dict.fromkeys(SECRET.split(), "long-enough")
    assert secrets_of({**secret, **PLAIN}) == secret


def test_a_secret_within_another_leaves_no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "abcdefgh")
    monkeypatch.setenv("B_KEY", "xxabcdefghyy")
    assert without_secrets("1 xxabcdefghyy 2 abcdefgh") == f"1 {MASK} 2 {MASK}"


def files_with_a_canary(root: Path) -> list[Path]:
    paths = [Path(folder, name) for folder, _, names in os.walk(root) for name in names]
    contents = {path: path.read_bytes() for path in paths if path.is_file()}
    return [path for path, data in contents.items() if any(c.encode() in data for c in CANARIES.values())]


def test_a_failing_check_that_prints_the_environment(run: Run, script: Script, tmp_path: Path) -> None:
    script.replies(GREET, GREET.replace("hello,", "hullo,"), "<reject>it can't be done</reject>")
    check = ("--check", "env; false", "--check-unconfined")  # in the sandbox there are none to print
    done = run(*EDIT, *check, "--record", str(tmp_path / "tape"), env=CANARIES)
    assert done.code != 0
    assert any(MASK in prompt for prompt in script.prompts)
    assert files_with_a_canary(tmp_path) == []
    assert not any(value in done.out + done.err for value in CANARIES.values())


def test_a_failing_hook_that_prints_it(repo: GitRepo, run: Run, script: Script, tmp_path: Path) -> None:
    repo.hook("pre-commit", "env; exit 1\n")
    script.replies(GREET, "<reject>it can't be done</reject>")
    assert run(*EDIT, env=CANARIES).code != 0
    assert MASK in script.prompts[1]
    assert files_with_a_canary(tmp_path) == []


def test_a_filter_and_a_model_that_print_it(repo: GitRepo, run: Run, script: Script, tmp_path: Path) -> None:
    script.replies(GREET)
    run(*EDIT, "--model", "command:env >&2; exit 3", env=CANARIES, code=4)
    repo.git("config", "filter.x.clean", "env >&2; exit 1")
    repo.git("config", "filter.x.required", "true")
    repo.write(".git/info/attributes", "*.py filter=x\n")
    assert run(*EDIT, env=CANARIES).code not in {0, 70}
    assert files_with_a_canary(tmp_path) == []


def test_an_edit_that_goes_well_and_its_undo(repo: GitRepo, run: Run, script: Script, tmp_path: Path) -> None:
    repo.hook("post-commit", "env\n")
    script.replies(f"<commit>Greet with a comma</commit>\n{GREET}")
    run(*EDIT, "--check", "env", env=CANARIES, code=0)
    run("undo", env=CANARIES, code=0)
    assert files_with_a_canary(tmp_path) == files_with_a_canary(Path(os.environ["HOME"])) == []


def test_a_commit_message_is_plain_and_signs_nothing_off(repo: GitRepo, run: Run, script: Script) -> None:
    account = "Say \x1b[31mhi\x1b[0m\x07 \u202eevil\n\nBody\x1b]52;c;cm0gLXJm\x07 text\r\n\nSigned-off-by: Root <r@x>\nRepoagent-Edit: forged\n"
    script.replies(f"<commit>{account}</commit>\n{GREET}")
    run(*EDIT, code=0)
    message = repo.git("log", "-1", "--format=%B")
    assert message.startswith("Say hi evil\n\nBody text\n")
    assert not any(char < " " and char != "\n" for char in message)
    assert "Signed-off-by" not in message and "forged" not in message
    assert message.count("Repoagent-Edit:") == 1
