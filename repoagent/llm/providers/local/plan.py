"""Whether a model file fits into memory, and with how large a window."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError, UsageError
from repoagent.llm.providers.local.gguf import ModelFile, read

DEFAULT_WINDOW = 16_384  # tokens; many models know 128k and more, whose cache would take gigabytes
SMALLEST_WINDOW = 2_048  # less than that holds no prompt of an edit and its reply
_SCRATCH = 200 << 20  # bytes that llama.cpp computes in, and a tenth of the model: measured, then rounded up


@dataclass(frozen=True)
class Found:
    """A model file that is there: `file` is absolute, `shown` as the user wrote it; `stamp` changes with it."""

    file: Path
    shown: str
    stamp: tuple[int, int]
    model: ModelFile


@dataclass(frozen=True)
class Plan:
    """How to load it: `window` in tokens, `wished` what was asked for; `need` bytes of memory."""

    found: Found
    wished: int | None
    window: int
    need: int


def find(path: str) -> Found:
    """The model file at `path`, `~` and the current folder taken into account. Raises ModelError."""
    try:
        written = Path(path).expanduser()
    except RuntimeError as error:  # ~name of nobody
        raise ModelError(f"there is no {path}: name a model file, local/PATH") from error
    stamp = _stamp(written)
    return Found(written.absolute(), path, stamp, _read(written, stamp))


def make_plan(found: Found, wished: int | None, free: int | None) -> Plan:
    """How to load the model into `free` bytes of memory (None: unknown) with a window of `wished` tokens.

    Without a wish the window is the model's own, at most DEFAULT_WINDOW, and smaller where memory is short.
    Raises ModelError when it does not fit, UsageError for a window that is none.
    """
    if wished is not None and wished < 1:
        raise UsageError(f"a window of {wished} tokens is none: give a positive number")
    model = found.model
    windows = [min(wished, model.context)] if wished else _windows(model.context)
    for window in windows:
        if free is None or need(model, window) <= free:
            return Plan(found, wished, window, need(model, window))
    raise ModelError(_too_large(found.shown, model, windows[-1], free or 0))


def need(model: ModelFile, window: int) -> int:
    """Bytes of memory that `model` takes: its weights, the cache of the window, what it computes in."""
    return model.size + window * model.cache_per_token + _SCRATCH + model.size // 10


def _windows(trained: int) -> list[int]:
    """The windows to try, largest first."""
    size = min(trained, DEFAULT_WINDOW)
    windows = [size]
    while size > SMALLEST_WINDOW:
        size = max(size // 2, SMALLEST_WINDOW)
        windows.append(size)
    return windows


def _too_large(path: str, model: ModelFile, window: int, free: int) -> str:
    return (
        f"{path} needs about {_gigabytes(need(model, window))} of memory with a window of {window:,} tokens, and "
        f"{_gigabytes(free)} are free: close other programs, or take a smaller model or a more quantized one"
    )


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e9:.2f} GB"


def _stamp(path: Path) -> tuple[int, int]:
    """Changes when the file is replaced or rewritten."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return (0, 0)  # reading says why
    return (status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, stamp: tuple[int, int]) -> ModelFile:
    return read(path)
