"""The clipboard, with programs on PATH that behave as the real ones do."""

from __future__ import annotations

import base64
import time
from pathlib import Path

import pytest

from repoagent.llm.providers.manual import clipboard


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that alone is on PATH, with no sign of a desktop in the environment."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("WAYLAND_DISPLAY", "DISPLAY", "WSL_DISTRO_NAME", "TMUX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    path.chmod(0o755)


def test_without_any_there_is_none(bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert clipboard.put("text") is None
    monkeypatch.setenv("DISPLAY", ":0")  # a desktop, but no program for its clipboard
    assert clipboard.put("text") is None


@pytest.mark.parametrize(
    ("variable", "puts", "gets"),
    [
        ("WAYLAND_DISPLAY", "wl-copy", "wl-paste"),
        ("DISPLAY", "xsel", "xsel"),
        ("TMUX", "tmux", "tmux"),
    ],
)
def test_what_is_put_is_got(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str, puts: str, gets: str
) -> None:
    store = bin_folder / "store"
    script = f'case "$*" in *-o*|*save*|*newline*) cat {store};; *) cat > {store};; esac'
    program(bin_folder, puts, script)
    program(bin_folder, gets, script)
    assert clipboard.put("x") is None  # there is the program, but not what it works with
    monkeypatch.setenv(variable, "1")
    tool = clipboard.put("café\n")
    assert tool is not None
    assert tool.put[0] == puts
    assert clipboard.get(tool) == "café\n"


def test_the_program_of_macos(bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    program(bin_folder, "pbcopy", f"cat > {bin_folder / 'store'}")
    program(bin_folder, "pbpaste", f"cat {bin_folder / 'store'}")
    tool = clipboard.put("text")
    assert tool is not None
    assert clipboard.get(tool) == "text"


def test_windows_below_linux(bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """clip.exe takes UTF-16; PowerShell ends lines with CR LF."""
    monkeypatch.setenv("WSL_DISTRO_NAME", "Debian")
    program(bin_folder, "clip.exe", f"cat > {bin_folder / 'store'}")
    program(bin_folder, "powershell.exe", r"printf '\357\273\277one\r\ntwo\r\n'")
    tool = clipboard.put("é")
    assert tool is not None
    assert (bin_folder / "store").read_bytes() == "é".encode("utf-16-le")
    assert clipboard.get(tool) == "one\ntwo\n"


def test_one_that_fails_leaves_it_to_the_next(bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("TMUX", "1")
    program(bin_folder, "xclip", "echo 'Error: Can not open display' >&2; exit 1")
    program(bin_folder, "tmux", "cat > /dev/null")
    tool = clipboard.put("text")
    assert tool is not None
    assert tool.put[0] == "tmux"


def test_one_that_stays_in_the_background_is_not_waited_for(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """xclip and wl-copy leave a process that serves the text, with the output that they were given."""
    monkeypatch.setenv("DISPLAY", ":0")
    program(bin_folder, "xclip", "cat > /dev/null; sleep 3 &")
    start = time.monotonic()
    assert clipboard.put("text") is not None
    assert time.monotonic() - start < 2


@pytest.mark.soak
def test_one_that_hangs_is_given_up(bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(clipboard, "TIMEOUT", 0.3)
    program(bin_folder, "xclip", "exec sleep 5")
    start = time.monotonic()
    assert clipboard.put("text") is None
    assert clipboard.get(clipboard.Tool(("xclip",), ("xclip",))) is None
    assert time.monotonic() - start < 3


def test_one_that_reads_nothing(bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    program(bin_folder, "xclip", "exit 0")
    assert clipboard.put("x" * 1_000_000) is not None


def test_the_sequence_for_a_terminal() -> None:
    sequence = clipboard.osc52("café")
    assert sequence.startswith("\x1b]52;c;")
    assert sequence.endswith("\x07")
    assert base64.b64decode(sequence[7:-1]).decode() == "café"
    assert len(clipboard.osc52("x" * clipboard.OSC52_LIMIT)) <= 100_000
    assert clipboard.osc52("x" * (clipboard.OSC52_LIMIT + 1)) == ""
