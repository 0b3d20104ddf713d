"""A model file, run by the real llama.cpp: a tiny one that writes noise."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repoagent.errors import ModelError
from repoagent.llm.catalog import parameters
from repoagent.llm.model import Reply, Request, Retryable, Wishes
from repoagent.llm.providers import llamacpp as local_engine
from repoagent.llm.providers.llamacpp import LocalModel
from tests.llm.helpers import ask, gone, soon
from tests.llm.providers.tiny_model import write_tiny_model

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf", context=32_768)


def short(request: Request, tokens: int = 12) -> Request:
    return replace(request, max_output_tokens=tokens)


def complete(path: Path | str, request: Request | None = None, **options: Any) -> Reply:
    return LocalModel(str(path), **options).complete(request or short(ask()), lambda _: None)


def engine_of(path: Path) -> local_engine.Engine:
    (engine,) = local_engine._engines
    assert engine.key[0] == path
    return engine


def test_a_reply_is_streamed_and_counted(model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []
    local = LocalModel(str(model))
    reply = local.complete(short(ask()), heard.append)
    assert reply.text == "".join(heard) and len(heard) > 1
    assert (reply.stop, reply.model, local.spec) == ("length", f"local/{model}", f"local/{model}")
    assert (reply.usage.output, reply.usage.estimated) == (12, False)
    assert reply.usage.input + reply.usage.cache_read > len("You edit.make it faster")
    again = complete(model)
    assert again.text == reply.text  # nothing is left to chance unless a temperature is wished
    assert again.usage.cache_read > again.usage.input
    assert capfd.readouterr() == ("", "")


def test_wishes_and_a_grammar(model: Path) -> None:
    text = complete(model, short(ask(), 40)).text
    assert complete(model, short(ask(), 40), wishes=Wishes(temperature=3.0)).text != text
    ruled = replace(ask(), grammar='root ::= "git " ("add" | "rm")')
    assert complete(model, ruled).text in ("git add", "git rm")
    with pytest.raises(Retryable, match="does not support grammar: continuing without it"):
        complete(model, replace(ask(), grammar="root ::= ("))


@pytest.mark.soak
def test_a_prompt_longer_than_the_window(model: Path) -> None:
    with pytest.raises(ModelError, match=r"the prompt is too long for local/.*\b16384\b"):
        complete(model, ask("word " * 20_000))


@pytest.mark.parametrize(("name", "content", "reason"), [
    ("none.gguf", None, "no such file"),
    (".", None, "not a regular file"),
    ("a\0b", None, "no such file|null byte"),
    ("page.gguf", b"<!DOCTYPE html><html>", "not a GGUF model file"),
    ("empty.gguf", b"", "not a GGUF model file"),
])  # fmt: skip
def test_a_path_that_is_not_a_model_file(
    tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=reason):
        complete(f"{tmp_path}/{name}")
    assert (parameters(f"local/{tmp_path}/{name}") or 0) < 0.01


def test_one_model_is_loaded_at_a_time(model: Path, tmp_path: Path) -> None:
    """Another file, a replaced file and another window end the process and start another one."""
    second = write_tiny_model(tmp_path / "second.gguf", context=32_768)
    complete(model)
    before = engine_of(model).process
    for context in (None, None, 256):
        assert complete(second, context=context).text
        after = engine_of(second).process
        assert after is not before and before.returncode is not None
        before = after
        os.utime(second, (1, 1))
    with pytest.raises(ModelError, match=r"the prompt is too long for local/.*\b256\b"):
        complete(second, ask("word " * 400), context=256)
    assert complete(second, ask(), context=256).stop == "length"  # the reply fills the window


def test_without_the_library(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ModelError, match=r"pip install 'git-repoagent\[local\]'$"):
        complete(model)


def test_files_that_llama_cpp_rejects(model: Path, tmp_path: Path) -> None:
    odd = write_tiny_model(tmp_path / "odd.gguf", numbers={"llama.attention.key_length": 8})
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(model.read_bytes()[:-100])
    for path, reason in ((odd, ""), (cut, ".*incomplete")):
        with pytest.raises(ModelError, match=rf"llama\.cpp cannot load {path}: {reason}") as error:
            complete(path)
        assert "\n" not in str(error.value)
        assert not local_engine._engines


@LINUX
def test_the_process_that_runs_it(model: Path) -> None:
    complete(model)
    engine = engine_of(model)
    process = Path(f"/proc/{engine.process.pid}")
    environment = (process / "environ").read_bytes().split(b"\0")
    assert b"OMP_WAIT_POLICY=PASSIVE" in environment
    assert stat.S_IMODE(engine.folder.stat().st_mode) == 0o700
    links = set()
    for entry in (process / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            links.add(str(entry.readlink()))
    assert any(link.startswith("socket:") for link in links)
    for table in ("tcp", "tcp6"):
        rows = (process / "net" / table).read_text().splitlines()[1:]
        assert not links & {f"socket:[{row.split()[9]}]" for row in rows}


def test_nothing_of_the_current_folder_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json.py", "xllamacpp.py"):
        (tmp_path / name).write_text("open('imported', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    write_tiny_model(tmp_path / "tiny.gguf")
    assert complete("tiny.gguf").text
    assert not (tmp_path / "imported").exists()


def test_llama_cpp_ends_in_the_middle(model: Path) -> None:
    def kill(_: str) -> None:
        engine_of(model).process.kill()
        engine_of(model).process.wait()

    with pytest.raises(ModelError, match=r"in the middle of its reply: llama\.cpp was killed") as error:
        LocalModel(str(model)).complete(short(ask(), 15_000), kill)
    assert not isinstance(error.value, Retryable)
    assert complete(model).text


def test_an_interrupt_while_it_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf")
    seen: list[local_engine.Engine] = []

    def interrupt(engine: local_engine.Engine, path: str) -> None:
        seen.append(engine)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(local_engine.Engine, "wait_until_loaded", interrupt)
        complete(path)
    assert seen[0].process.returncode == -signal.SIGKILL
    assert not seen[0].folder.exists()
    assert complete(path).text


SCRIPT = """
import signal, sys
from dataclasses import replace
from repoagent.llm.providers import llamacpp as local_engine
from repoagent.llm.providers.llamacpp import LocalModel
from tests.llm.helpers import ask

signal.signal(signal.SIGINT, signal.default_int_handler)
model = LocalModel(sys.argv[1], context=32_768)
printed = []

def tell(_):
    if not printed:
        printed.append(local_engine._engines[0])
        print(printed[0].process.pid, printed[0].folder, flush=True)

try:
    model.complete(replace(ask(), max_output_tokens=32_000), tell)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise SystemExit(130)
print("whole", flush=True)
"""


@LINUX
@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGINT, 130, "interrupted\n"), (signal.SIGKILL, -9, "")]
)
def test_a_signal_leaves_no_process_behind(model: Path, number: int, code: int, said: str) -> None:
    command, env = [sys.executable, "-c", SCRIPT, str(model)], {**os.environ, "PYTHONPATH": "."}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as run:
        assert run.stdout
        child, folder = run.stdout.readline().split()
        run.send_signal(number)
        assert run.wait(2) == code
        assert run.stdout.read() == said
    assert soon(lambda: gone(int(child)), 3)
    assert Path(folder).exists() == (number == signal.SIGKILL)  # no process is left to remove it
    shutil.rmtree(folder, ignore_errors=True)
