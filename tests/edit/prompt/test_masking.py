"""Secrets in files: never sent, never stored, never lost."""

from __future__ import annotations

import random
import string

import pytest

from repoagent.llm.complete import complete
from repoagent.llm.model import Reply
from repoagent.llm.usage import Meter
from repoagent.storage.secrets import mask
from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script, diff
from tests.llm.helpers import Scripted, ask


def made(prefix: str, length: int, seed: int = 7) -> str:
    """A fake key, built at run time so that secret scanners do not find it in this repository."""
    return prefix + "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=length))


@pytest.fixture
def token() -> str:
    return made("ghp" + "_", 36)


@pytest.mark.soak
def test_a_line_with_a_masked_key_can_be_edited(repo: GitRepo, run: Run, script: Script, token: str) -> None:
    text = f'TOKEN = "{token}"\nRETRIES = 1\n'
    repo.commit("settings", **{"src/conf.py": text, "b.py": f'KEY = "{token}"\n'})
    name = mask(token)
    assert name != token
    lines = (f'-TOKEN = "{name}"', f'+TOKEN = "{name}"  # of the bot', "-RETRIES = 1", "+RETRIES = 3")
    script.replies('<read path="b.py"/>\n', diff("src/conf.py", *lines))
    run("edit", "src/conf.py", f"retry three times, {token} stays", "--yes", code=0)
    assert repo.read("src/conf.py").decode() == f'TOKEN = "{token}"  # of the bot\nRETRIES = 3\n'
    assert all(name in prompt and token not in prompt for prompt in script.prompts)
    assert script.prompts[1].count(f'KEY = "{name}"') == 1
    written = [path.read_bytes() for path in (repo.top / ".repoagent").rglob("*") if path.is_file()]
    assert written and token.encode() not in b"".join(written)
    assert token not in repo.git("log", "-1", "--format=%B")


def test_an_unknown_placeholder_is_never_written(repo: GitRepo, edit: Run, script: Script) -> None:
    script.replies(*[diff("src/app.py", " def greet(name):", "+    key = '<<secret 0a0a0a0a>>'")] * 5)
    edit(request="add a key", code=3)
    assert b"secret" not in repo.read("src/app.py")


@pytest.mark.soak
def test_a_private_key_keeps_its_lines(repo: GitRepo, run: Run, script: Script) -> None:
    body = [made("", 64, seed) for seed in range(8)]
    key = "\n".join(["-----BEGIN RSA " + "PRIVATE KEY-----", *body, "-----END RSA " + "PRIVATE KEY-----"])
    repo.commit("key", **{"k.py": f'KEY = """\n{key}\n"""\nBITS = 1024\n'})
    script.replies(diff("k.py", ' """', "-BITS = 1024", "+BITS = 2048"))
    run("edit", "k.py", "2048 bits", "--yes", code=0)
    assert not any(line in script.prompts[0] for line in body)
    assert "(file to edit; 13 lines)" in script.prompts[0]
    assert key.encode() in repo.read("k.py") and b"2048" in repo.read("k.py")


def test_no_call_of_a_model_sends_a_key(token: str) -> None:
    model = Scripted([Reply("done", "end")])
    complete(model, ask(f"what is {token}?", system=f"You know {token}."), Meter())
    (sent,) = model.seen
    assert token not in repr(sent) and repr(sent).count("<<secret ") == 2


@pytest.mark.soak
def test_an_edit_of_a_line_with_a_key_is_resumed(repo: GitRepo, run: Run, script: Script, token: str) -> None:
    repo.commit("settings", **{"c.py": f'TOKEN = "{token}"\nRETRIES = 1\n'})
    name = mask(token)
    words = ("edit", "c.py", "retry", "--yes", "--check", "grep -q 3 c.py")
    lines = (f'-TOKEN = "{name}"', f'+TOKEN = "{name}"  # a', "-RETRIES = 1", "+RETRIES = 2")
    script.replies(diff("c.py", *lines))
    run(*words, code=4)  # the model fails when it gets the failed check
    assert token not in script.prompts[1]
    script.replies(diff("c.py", f' TOKEN = "{name}"  # a', "-RETRIES = 2", "+RETRIES = 3"))
    run(*words, code=0)
    assert len(script.prompts) == 1
    assert repo.read("c.py").decode() == f'TOKEN = "{token}"  # a\nRETRIES = 3\n'
