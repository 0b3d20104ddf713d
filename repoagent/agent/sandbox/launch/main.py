"""From a specification to the running command."""

from __future__ import annotations

import binascii
import marshal
import os
import resource
from collections.abc import Callable, Sequence
from contextlib import suppress

from .paths import around
from .placeholders import placeholders
from .supervise import FAILED, Limits, supervise

TYPE_CHECKING = False  # what `typing` says; loading it would take as long as the rest
if TYPE_CHECKING:
    from typing import Any, NoReturn

_FIRST_TO_GO = 500  # oom_score_adj: where memory runs out, the kernel ends a command before an editor
_KEPT_CAPABILITIES = (
    1 << 0 | 1 << 1 | 1 << 3 | 1 << 4
)  # CHOWN, DAC_OVERRIDE, FOWNER, FSETID: root with files of others


def main(specification: str, command: Sequence[str]) -> NoReturn:
    """Run `command` as `specification` (made by `agent.sandbox.wrapping`) says, and exit as it does."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    spec: dict[str, Any] = marshal.loads(binascii.a2b_base64(specification))
    try:
        report = _open_report(spec.get("report"))
        limits = Limits(
            spec.get("memory"),
            spec.get("processes"),
            report,
            spec["depth"],
            spec.get("disks", ()),
            daemons=spec.get("daemons", False),
        )
        with placeholders(spec.get("missing", [])):
            code = supervise(_starter(spec, list(command)), limits)
    except OSError as error:
        _fail(error)
    os._exit(code)


def _open_report(path: str | None) -> int | None:
    if path is None:
        return None
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _starter(spec: dict[str, Any], command: list[str]) -> Callable[[], NoReturn]:
    kinds: dict[str, Callable[[dict[str, Any], list[str]], None]] = {
        "none": lambda _spec, _command: None,
        "bubblewrap": _enter_bubblewrap,
        "landlock": _enter_landlock,
    }

    def start() -> NoReturn:
        try:
            _first_to_go()
            kinds[spec["kind"]](spec, command)
        except OSError as error:
            _fail(error)
        _execute(command)

    return start


def _enter_bubblewrap(spec: dict[str, Any], command: list[str]) -> None:
    """Put the program bubblewrap before the command, with the filter of system calls in a file of memory."""
    from . import landlock, seccomp
    from .kernel import PR_SET_NO_NEW_PRIVS, prctl

    _no_cores()
    if spec["scope"] and landlock.abi() >= 6:  # the abstract sockets of the network that is shared
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        landlock.scope()
    options = [word or _open_nothing() for word in spec["options"]]  # an empty word stands for an empty file
    if seccomp.supported():
        descriptor = os.memfd_create("filter", 0)
        os.write(descriptor, seccomp.program(spec["families"]))
        os.lseek(descriptor, 0, os.SEEK_SET)
        options += ["--seccomp", str(descriptor)]
    command[:0] = [spec["program"], *options, "--"]


def _open_nothing() -> str:
    """A descriptor that bubblewrap inherits, and where there is nothing to read."""
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    return str(descriptor)


def _enter_landlock(spec: dict[str, Any], _command: list[str]) -> None:
    from . import landlock, seccomp
    from .kernel import PR_SET_NO_NEW_PRIVS, drop_capabilities, prctl

    _no_cores()
    version = landlock.abi()
    if spec["steps"] is not None:
        from .mounts import enter

        here = os.getcwd()  # noqa: PTH109
        enter(spec["steps"], network=spec["network"], shared_memory=spec["shared_memory"])
        _return_to(here)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    drop_capabilities(_KEPT_CAPABILITIES if spec["steps"] is None else 0)
    rules: list[tuple[str | int, int]] = [
        (path, rights) for root, rights, excluded in spec["rules"] for path in around(root, excluded)
    ]
    rules += [
        (descriptor, landlock.WRITE_FILE | landlock.TRUNCATE) for descriptor in (1, 2) if _is_file(descriptor)
    ]
    landlock.restrict(rules, network=spec["network"] or spec["steps"] is not None)
    shared = spec["steps"] is None
    seccomp.install(seccomp.program(spec["families"], deny_truncate=version < 3, shared=shared))


def _return_to(folder: str) -> None:
    """Into the same folder in the new view: the old one would be a way round it."""
    try:
        os.chdir(folder)
    except OSError:
        os.chdir("/")


def _is_file(descriptor: int) -> bool:
    """Whether a descriptor is a plain file: /dev/stdout then opens it anew."""
    from stat import S_ISREG

    try:
        return S_ISREG(os.fstat(descriptor).st_mode)
    except OSError:
        return False


def _first_to_go() -> None:
    with suppress(OSError):
        descriptor = os.open("/proc/self/oom_score_adj", os.O_RDWR)
        try:
            if int(os.read(descriptor, 16)) < _FIRST_TO_GO:
                os.pwrite(descriptor, str(_FIRST_TO_GO).encode(), 0)
        finally:
            os.close(descriptor)


def _no_cores() -> None:
    """No dump of a crash: it would be written, or handed to a program of the system, from outside the sandbox."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _execute(command: list[str]) -> NoReturn:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode(errors="surrogateescape"))
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _fail(error: OSError) -> NoReturn:
    os.write(2, f"repoagent: the sandbox could not be set up: {error}\n".encode(errors="surrogateescape"))
    os._exit(FAILED)
