"""The clipboard, with programs on PATH that behave like the real ones."""

from __future__ import annotations

import time
from pathlib import Path

import pyperclip
import pytest

from repoagent.llm.providers import manual


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH, without any sign of a desktop in the environment."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("WAYLAND_DISPLAY", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(pyperclip, "copy", pyperclip.lazy_load_stub_copy)  # it looks for a program once
    monkeypatch.setattr(pyperclip, "paste", pyperclip.lazy_load_stub_paste)
    return folder


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("script", ["echo 'Error: no display' >&2; exit 1", "exit 0", "printf '\\377'"])
def test_a_program_that_drops_the_text(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    program(bin_folder, "xclip", script)
    assert not manual.copy_to_clipboard("x" * 1_000_000)


def test_a_program_that_hangs(bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(manual, "TIMEOUT", 0.2)
    program(bin_folder, "xclip", "exec sleep 2")
    start = time.monotonic()
    assert not manual.copy_to_clipboard("text")
    assert manual.paste_from_clipboard() is None
    assert time.monotonic() - start < 1.5
