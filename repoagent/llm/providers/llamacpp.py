"""A local model file: llama.cpp runs as a child process and is called over a Unix socket, like any OpenAI-compatible
server.

It runs in a separate process because the library blocks the interpreter while it loads (no ^C, no progress), and aborts
the process on some broken files or when memory runs out. It does not listen on the network. One model is loaded at a
time.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, install_extra
from repoagent.git.process import defer_signals
from repoagent.llm import catalog
from repoagent.llm.media import refuse_any
from repoagent.llm.model import OnText, Reply, Request, Retryable, Wishes
from repoagent.llm.providers.endpoints import Endpoint
from repoagent.llm.providers.openai import OpenAIModel
from repoagent.llm.registry import Backend, ModelOptions, ModelStatus, missing_extra

if TYPE_CHECKING:
    from repoagent.config.settings import Settings

DEFAULT_WINDOW = 16_384  # tokens; the cache for 128k and more, as many models support, would need gigabytes
SOCKET = "model.sock"  # llama.cpp recognizes a socket by this extension


def model_file(path: str) -> Path:
    """Return the absolute path of the model file at `path`, in which `~` is expanded. Raises ModelError if it cannot
    be read or is not a GGUF file."""
    try:
        file = Path(path).expanduser().absolute()
        if not file.is_file():
            raise FileNotFoundError(0, "not a regular file" if file.exists() else "no such file")
        with file.open("rb") as stream:
            is_gguf = stream.read(4) == b"GGUF"
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: ~name of an unknown user
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"cannot read {path} ({reason}): name a model file as local/PATH") from error
    if not is_gguf:
        raise ModelError(f"{path} is not a GGUF model file: download or copy it again")
    return file


@dataclass
class Engine:
    """A llama.cpp process. `key` is the path, the modification time of the file, and the window in tokens."""

    key: tuple[Path, int, int]
    process: subprocess.Popen[bytes]
    folder: Path
    log: IO[bytes]
    loaded: bool = False

    def stop(self) -> None:
        """Kill the process and remove its files."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.log):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def why_ended(self) -> str:
        """How the process ended, for an error message; "" if it is still running."""
        try:
            code = self.process.wait(1)  # its streams close shortly before it ends
        except subprocess.TimeoutExpired:
            return ""
        if code == -signal.SIGKILL:
            return (
                "llama.cpp was killed, probably because the machine ran out of memory; close other programs, use "
                "a smaller model, or set a smaller `context` for the model in the configuration"
            )
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"llama.cpp failed with {how}; try another file for this model"

    def wait_until_loaded(self, path: str) -> None:
        """Wait until the model is loaded. Raises ModelError with llama.cpp's reason if that fails."""
        if self.loaded:
            return
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode(errors="replace").strip()
        if line == "ready":
            self.loaded = True
            return
        with contextlib.suppress(subprocess.TimeoutExpired):  # its log is complete when it has ended
            self.process.wait(5)
        self.log.seek(0)
        log = self.log.read(1 << 20).decode(errors="replace")
        match = re.search(r"error loading model: (.+)", log) or re.search(r" E \w+\s+\S+: (.+)", log)
        if match:
            line = f"{' '.join(match[1].split())}. Try another file for this model"
        elif not line or line.startswith("RuntimeError"):  # a RuntimeError has no reason
            line = self.why_ended() or "no reason given"
        raise ModelError(f"llama.cpp cannot load {path}: {line[:300]}")


_engines: list[Engine] = []  # at most one
_lock = threading.RLock()


def loaded_engine(path: str, window: int) -> Engine:
    """Return the process that has loaded the model file `path` with a window of `window` tokens; start it if necessary.

    Raises ModelError if the file is not a model, if it cannot be loaded, or if the library is missing.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise ModelError(f"a local/ model needs xllamacpp: {install_extra('local')}")
    file = model_file(path)
    with _lock:
        key = file, file.stat().st_mtime_ns, window
        if not _engines or _engines[0].key != key or _engines[0].process.poll() is not None:
            stop_all()
            with defer_signals():  # ^C right after the start must not leave the process running
                _engines.append(_start(key))
        engine = _engines[0]
        try:
            engine.wait_until_loaded(path)
        except BaseException:
            stop_all()
            raise
        return engine


@atexit.register
def stop_all() -> None:
    """Stop the running model, if any."""
    while _engines:
        _engines.pop().stop()


def _start(key: tuple[Path, int, int]) -> Engine:
    # mode 0700; in /tmp, because no system supports long paths of sockets
    folder = Path(tempfile.mkdtemp(prefix="repoagent-", dir="/tmp"))
    log = tempfile.TemporaryFile()  # noqa: SIM115
    order = {
        "import_path": [str(Path(entry).absolute()) for entry in sys.path if entry],
        "model": str(key[0]),
        "socket": str(folder / SOCKET),
        "window": key[2],
    }
    try:
        process = subprocess.Popen(
            # isolated: imports nothing from the current folder
            [sys.executable, "-I", str(Path(__file__).with_name("llamacpp_server.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={"OMP_WAIT_POLICY": "PASSIVE", "GGML_NO_BACKTRACE": "1", **os.environ},
            start_new_session=True,
        )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ended at once: `wait_until_loaded` reports why
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
        return Engine(key, process, folder, log)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise ModelError(f"{sys.executable} cannot run llama.cpp: {error.strerror}") from error


@dataclass(frozen=True)
class LocalModel:
    """A model in the GGUF file `path`, with a window of `context` tokens (None: the default)."""

    path: str
    wishes: Wishes = field(default_factory=Wishes)
    context: int | None = None

    takes: ClassVar[frozenset[str]] = frozenset({"temperature"})

    @property
    def spec(self) -> str:
        return f"local/{self.path}"

    @property
    def context_tokens(self) -> int:
        return DEFAULT_WINDOW if self.context is None else self.context

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """Answer `request`, as in `llm.model.Model`. The first call loads the file. Raises UsageError if an image or a
        PDF is attached."""
        refuse_any(request, self.spec, "attachments are not supported for local/ models")
        engine = loaded_engine(self.path, self.context_tokens)
        socket = str(engine.folder / SOCKET)
        traits = frozenset({"grammar"})
        endpoint = Endpoint("local", "http://localhost/v1", local=True, traits=traits, socket=socket)
        temperature = 0.0 if self.wishes.temperature is None else self.wishes.temperature
        wishes = Wishes(temperature=temperature)
        extra = {"max_tokens": request.max_output_tokens, "cache_prompt": True}
        server = OpenAIModel(endpoint, self.path, wishes, None, extra)
        try:
            return replace(server.complete(request, on_text), model=self.spec)
        except ModelError as error:
            ended = isinstance(error, Retryable) or engine.process.poll() is not None
            if ended and (reason := engine.why_ended()):
                stop_all()
                raise ModelError(f"{self.spec} stopped in the middle of its reply: {reason}") from error
            raise


class LocalBackend(Backend):
    def open_model(self, model: str, options: ModelOptions) -> LocalModel:
        context = catalog.model_info(f"{self.name}/{model}", options.settings.family("models")).context
        return LocalModel(model, options.wishes, context)

    def check(self, settings: Settings, model: str, *, online: bool = True) -> ModelStatus:
        model_file(model)
        context = catalog.model_info(f"{self.name}/{model}", settings.family("models")).context
        return ModelStatus(problem=missing_extra(self.name), context=context or DEFAULT_WINDOW)
