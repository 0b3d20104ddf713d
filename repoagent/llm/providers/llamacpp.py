"""The processes that run llama.cpp: one for each model file, until this process ends.

A process of its own, because the library holds the interpreter while it loads (no ^C, no progress), and ends the
process that it is in over some broken files and when memory is out. Nothing listens on the network.

A model file on this machine, run by llama.cpp.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, UsageError, install_extra
from repoagent.git.process import uninterrupted
from repoagent.llm import catalog
from repoagent.llm.media import refuse_any
from repoagent.llm.model import Model, OnText, Reply, Request, Retryable, Stop, Usage, Wishes, wire_text
from repoagent.llm.provider import PROVIDERS, Backend, Diagnosis, ModelOptions, Status, not_installed
from repoagent.llm.providers.gguf import (
    LoadPlan,
    LocatedModel,
    available_memory,
    cores,
    locate,
    make_plan,
    read_model_file,
)
from repoagent.llm.usage import estimate, estimate_tokens

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

    from repoagent.config.settings import Settings

OnProgress = Callable[[float], None]

SOCKET = "model.sock"  # llama.cpp tells a socket from a host by this ending
_LOOK_EVERY = 0.1  # seconds, while it loads
_LONGEST_SOCKET = 100  # bytes of a path that every system takes for a socket


@dataclass
class Engine:
    """One running llama.cpp; `socket` is where it answers once it is `loaded`."""

    plan: LoadPlan
    process: subprocess.Popen[bytes]
    folder: Path
    log: IO[bytes]
    loaded: bool = False
    waiting: threading.Lock = field(default_factory=threading.Lock)

    @property
    def socket(self) -> Path:
        return self.folder / SOCKET

    @property
    def alive(self) -> bool:
        return self.process.poll() is None


_engines: dict[Path, Engine] = {}
_starting = threading.RLock()


def window_of(path: str, wished: int | None) -> int:
    """The window in tokens that the model has, or would be loaded with. Raises ModelError, UsageError."""
    found = locate(path)
    engine = _running(found, wished)
    return engine.plan.window if engine else make_plan(found, wished, available_memory()).window


def loaded_engine(path: str, wished: int | None, on_progress: OnProgress | None = None) -> Engine:
    """The model, ready to answer; `on_progress` gets fractions up to 1.0 while it loads.

    Raises ModelError for a file that is no model, does not fit into memory or can't be loaded, and when the
    library is missing. An interrupted load is given up.
    """
    engine = _engine(path, wished)
    with engine.waiting:
        if not engine.loaded:
            try:
                _wait(engine, on_progress)
            except BaseException:
                stop(engine)
                raise
            engine.loaded = True
    return engine


def stop(engine: Engine) -> None:
    """End the process at once, whatever it does, and remove what it used."""
    if _engines.get(engine.plan.found.file) is engine:
        del _engines[engine.plan.found.file]
    engine.process.kill()
    engine.process.wait()
    for stream in (engine.process.stdin, engine.process.stdout, engine.log):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    shutil.rmtree(engine.folder, ignore_errors=True)


@atexit.register
def stop_all() -> None:
    for engine in list(_engines.values()):
        stop(engine)


def why_ended(engine: Engine) -> str:
    """For an error: how the process came to its end; "" if it runs."""
    try:
        code = engine.process.wait(1)  # its streams close a little before it can be waited for
    except subprocess.TimeoutExpired:
        return ""
    if code == -signal.SIGKILL:
        return "it was killed, probably because memory ran out"
    if code == -signal.SIGILL:
        return "this processor lacks instructions that xllamacpp was built for"
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"llama.cpp failed with {how}; try another file of this model"


def _engine(path: str, wished: int | None) -> Engine:
    """The process for this model, started if there is none yet."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise ModelError(f"a local/ model needs xllamacpp: {install_extra('local')}")
    found = locate(path)
    with _starting:
        engine = _running(found, wished)
        if engine:
            return engine
        if found.file in _engines:
            stop(_engines[found.file])  # ended, or of another window or an older file
        try:
            plan = make_plan(found, wished, available_memory())
        except ModelError:
            if not _engines:
                raise
            stop_all()  # another model that this process has used takes the memory
            plan = make_plan(found, wished, available_memory())
        return _start(plan)


def _running(found: LocatedModel, wished: int | None) -> Engine | None:
    engine = _engines.get(found.file)
    if engine and engine.alive and engine.plan.found.stamp == found.stamp and engine.plan.wished == wished:
        return engine
    return None


def _start(plan: LoadPlan) -> Engine:
    folder = _folder()
    log = tempfile.TemporaryFile()  # noqa: SIM115
    order = {
        "import_path": [str(Path(entry).absolute()) for entry in sys.path if entry],
        "model": str(plan.found.file),
        "socket": str(folder / SOCKET),
        "window": plan.window,
        "threads": cores(),
    }
    server = Path(__file__).with_name("llamacpp_server.py")
    try:
        with uninterrupted():  # a ^C right after the start must find the process to end
            process = subprocess.Popen(
                [sys.executable, "-I", str(server)],  # isolated: nothing in the current folder is imported
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={"OMP_WAIT_POLICY": "PASSIVE", "GGML_NO_BACKTRACE": "1", **os.environ},
                start_new_session=True,
            )
            engine = _engines[plan.found.file] = Engine(plan, process, folder, log)
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it ended at once: _wait says why
                process.stdin.write(json.dumps(order).encode() + b"\n")
                process.stdin.flush()
            return engine
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise ModelError(f"{sys.executable} cannot run llama.cpp: {error.strerror}") from error


def _folder() -> Path:
    """A new folder that only this user enters, with a path short enough for a socket in it."""
    folder = Path(tempfile.mkdtemp(prefix="repoagent-"))
    if len(os.fsencode(folder / SOCKET)) > _LONGEST_SOCKET:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="repoagent-", dir="/tmp"))
    return folder


def _wait(engine: Engine, on_progress: OnProgress | None) -> None:
    """Return when the model is loaded; raises ModelError when it can't be."""
    stdout = engine.process.stdout
    assert stdout is not None
    started = time.monotonic()
    while not select.select([stdout], [], [], _LOOK_EVERY)[0]:
        if on_progress:
            on_progress(min(_resident(engine) / engine.plan.need, 0.99))
    said = stdout.readline().decode(errors="replace").strip()
    if said != "ready":
        raise ModelError(f"llama.cpp cannot load {engine.plan.found.shown}: {_cause(engine, said)}")
    if on_progress and time.monotonic() - started > _LOOK_EVERY:
        on_progress(1.0)


def _resident(engine: Engine) -> int:
    """Bytes of memory that the process has filled so far; 0 where the system does not tell."""
    try:
        pages = Path(f"/proc/{engine.process.pid}/statm").read_text("ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _cause(engine: Engine, said: str) -> str:
    """What the child or llama.cpp's log says, short enough for a sentence."""
    if said.startswith("ImportError"):
        return f"{said[:300]}. Reinstall the package xllamacpp"
    engine.log.seek(0)
    log = engine.log.read(1 << 20).decode(errors="replace")
    found = re.search(r"error loading model: (.+)", log) or re.search(r" E \w+\s+\S+: (.+)", log)
    if found:
        return f"{' '.join(found[1].split())[:300]}. Try another file of this model"
    if said and not said.startswith("RuntimeError"):  # that one only says that it failed
        return said[:300]
    return why_ended(engine) or "no reason given"


_SAID = 300  # characters of what llama.cpp says in an error


@dataclass(frozen=True)
class LocalModel:
    """The GGUF file at `path`, written as the user wrote it (`~` and relative paths work).

    `context` is the window in tokens, by default what fits. `on_progress` gets fractions while the model is
    loaded, `on_prompt` while it reads the prompt, which may take minutes before the first word.
    """

    path: str
    wishes: Wishes = field(default_factory=Wishes)
    context: int | None = None
    on_progress: OnProgress | None = None
    on_prompt: Callable[[float], None] | None = None

    takes: ClassVar[frozenset[str]] = frozenset({"temperature", "stop"})

    @property
    def spec(self) -> str:
        return f"local/{self.path}"

    @property
    def context_tokens(self) -> int | None:
        try:
            return window_of(self.path, self.context)
        except (ModelError, UsageError):
            return None  # `complete` says why

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """See `llm.model.Model`. The first call loads the file; ^C ends the loading or the generation.

        Raises UsageError where an image or PDF is attached.
        """
        refuse_any(request, self.spec, "model files run without image support")
        engine = loaded_engine(self.path, self.context, self.on_progress)
        connection = _connect(engine.socket)
        try:
            return self._ask(engine, connection, request, on_text)
        except (OSError, _broken(), Retryable) as error:
            why = why_ended(engine)
            if why:
                stop(engine)
                raise ModelError(f"{self.spec} stopped in the middle of its reply: {why}") from error
            if isinstance(error, Retryable):
                raise
            raise Retryable(
                f"the connection to {self.spec} broke: {error}", usage=estimate(request)
            ) from error
        finally:
            connection.close()  # llama.cpp stops to generate what nobody reads

    def _ask(self, engine: Engine, connection: HTTPConnection, request: Request, on_text: OnText) -> Reply:
        body = json.dumps(self._body(request)).encode()
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise self._refused(response.read(), engine)
        pieces: list[str] = []
        stop_reason: Stop | None = None
        usage: Usage | None = None
        for event in _events(response):
            if "error" in event:
                raise self._refused(json.dumps(event).encode(), engine)
            usage = _usage(event) or usage
            if self.on_prompt and "prompt_progress" in event:
                progress = event["prompt_progress"]
                self.on_prompt(progress["processed"] / max(progress["total"], 1))
            for choice in event.get("choices", ()):
                piece = choice["delta"].get("content")
                if piece:
                    pieces.append(piece)
                    on_text(piece)
                if choice["finish_reason"]:
                    stop_reason = "length" if choice["finish_reason"] == "length" else "end"
        text = "".join(pieces)
        used = usage or estimate(request) + Usage(output=estimate_tokens(text), estimated=True)
        if stop_reason is None:
            raise Retryable(f"the reply of {self.spec} broke off", usage=used)
        return Reply(text, stop_reason, used, self.spec)

    def _body(self, request: Request) -> dict[str, Any]:
        system = "".join(part.text for part in request.system)
        said = [("system", system)] if system else []
        said += [(message.role, message.text) for message in request.messages]
        temperature = self.wishes.temperature if request.temperature is None else request.temperature
        body: dict[str, Any] = {
            "messages": [{"role": role, "content": wire_text(text)} for role, text in said],
            "max_tokens": request.max_output_tokens,
            "temperature": 0.0 if temperature is None else temperature,
            "stop": list(self.wishes.stop),
            "cache_prompt": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": self.on_prompt is not None,
        }
        return body | ({"grammar": request.grammar} if request.grammar else {})

    def _refused(self, answer: bytes, engine: Engine) -> ModelError:
        try:
            error = json.loads(answer)["error"]
            said, tokens = str(error["message"]), error.get("n_prompt_tokens")
        except (ValueError, KeyError, TypeError, AttributeError):
            said, tokens = answer.decode(errors="replace"), None
        if tokens is not None:
            return ModelError(
                f"the prompt has {tokens:,} tokens and the window of {self.spec} {engine.plan.window:,}: name "
                "fewer or smaller files, or use a model with a larger window"
            )
        return ModelError(f"llama.cpp refused the request: {' '.join(said.split())[:_SAID]}")


def _connect(path: Path) -> HTTPConnection:
    import socket
    from http.client import HTTPConnection

    class UnixConnection(HTTPConnection):
        def connect(self) -> None:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(str(path))

    return UnixConnection("localhost")


def _broken() -> type[Exception]:
    from http.client import HTTPException

    return HTTPException


def _events(response: HTTPResponse) -> Iterator[dict[str, Any]]:
    """The events of the stream, to its end or to where it broke."""
    for line in response:
        if line.startswith(b"data: {"):
            try:
                yield json.loads(line[6:])
            except ValueError:
                return  # half a line: the stream broke


def _usage(event: dict[str, Any]) -> Usage | None:
    """What llama.cpp counted, in the last event."""
    counted = event.get("usage")
    if not counted:
        return None
    cached = counted.get("prompt_tokens_details", {}).get("cached_tokens", 0)
    return Usage(counted["prompt_tokens"] - cached, counted["completion_tokens"], cached)


class LocalBackend(Backend):
    """Model files on this machine."""

    def open_model(self, model: str, options: ModelOptions) -> Model:
        loading, reading = (
            partial(options.on_progress, doing)
            for doing in ("loading the model", "the model is reading the prompt")
        )
        context = self._context(options.settings, model)
        return LocalModel(model, options.wishes, context, loading, reading)

    def check(self, settings: Settings, model: str) -> Status:
        return Status(context=window_of(model, self._context(settings, model)))

    def diagnose(self, settings: Settings, model: str) -> Diagnosis:
        provider = PROVIDERS[self.name]
        return super().diagnose(settings, model) if provider.is_installed else not_installed(provider)

    def parameters(self, model: str) -> float | None:
        try:
            return read_model_file(Path(model).expanduser()).parameters
        except ModelError:  # the first call will say what is wrong with it
            return None

    def _context(self, settings: Settings, model: str) -> int | None:
        """The window that is configured."""
        return catalog.model_info(f"{self.name}/{model}", settings.family("models")).context
