"""Set up what a specification says, and run the command in it; `bubblewrap.launched` makes the specification."""

from __future__ import annotations

import binascii
import fcntl
import marshal
import os
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from .supervisor import FAILED, Limits, supervise

TYPE_CHECKING = False  # importing `typing` takes as long as all the rest
if TYPE_CHECKING:
    from typing import Any, NoReturn

_OOM_SCORE = 500  # oom_score_adj: when memory runs out, the kernel kills a command before an editor
# CHOWN, DAC_OVERRIDE, FOWNER, FSETID: root may still work on files of others
_KEPT_CAPABILITIES = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4


def main(specification: str, command: Sequence[str]) -> NoReturn:
    """Run `command` as `specification` says, and exit with its exit code."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    spec: dict[str, Any] = marshal.loads(binascii.a2b_base64(specification))
    try:
        report = None
        if path := spec.get("report"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            report = os.open(path, flags, 0o600)
        limits = Limits(
            spec.get("memory"),
            spec.get("processes"),
            report,
            spec["depth"],
            spec.get("disks", ()),
            daemons=spec.get("daemons", False),
        )
        with _placeholders(spec.get("missing", [])):
            code = supervise(_starter(spec, list(command)), limits)
    except OSError as error:
        _fail(error)
    os._exit(code)


@contextmanager
def _placeholders(paths: Sequence[str]) -> Iterator[None]:
    """Keep an empty folder at each of `paths`, where no command may make anything.

    A mount cannot cover a name that does not exist. Several commands may run at once: each holds a shared lock on the
    folder, and the last one removes it. What another program puts there stays.
    """
    locked = [(path, descriptor) for path in paths if (descriptor := _lock_folder(path)) is not None]
    try:
        yield
    finally:
        for path, descriptor in locked:
            with suppress(OSError):  # another command holds it, or it is not empty
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.rmdir(path)  # noqa: PTH106
            os.close(descriptor)


def _lock_folder(path: str) -> int | None:
    """A descriptor with a shared lock on the folder at `path`, made where it is missing; None if it is not a folder."""
    while True:
        with suppress(FileExistsError):
            os.mkdir(path, 0o755)  # noqa: PTH102
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):  # noqa: PTH116
                return descriptor
        except FileNotFoundError:  # another command removed it in between
            continue
        except NotADirectoryError:
            return None
        os.close(descriptor)


def _starter(spec: dict[str, Any], command: list[str]) -> Callable[[], NoReturn]:
    """What the supervisor calls in the child: confine this process, then execute the command."""
    confine: dict[str, Callable[[dict[str, Any], list[str]], None]] = {
        "none": lambda _spec, _command: None,
        "bubblewrap": _prefix_bubblewrap,
        "landlock": _enter_landlock,
    }

    def start() -> NoReturn:
        try:
            _raise_oom_score()
            confine[spec["kind"]](spec, command)
        except OSError as error:
            _fail(error)
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode(errors="surrogateescape"))
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)

    return start


def _prefix_bubblewrap(spec: dict[str, Any], command: list[str]) -> None:
    """Put bubblewrap and its options before the command; the seccomp filter is in a memfd."""
    from . import seccomp, syscalls

    _disable_core_dumps()
    if (
        spec["scope"] and syscalls.landlock_abi() >= 6
    ):  # the network is shared, and so are its abstract sockets
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        syscalls.restrict_signals()
    options = [word or _open_null() for word in spec["options"]]  # "" is the content of an empty file
    if seccomp.supported():
        descriptor = os.memfd_create("filter", 0)
        os.write(descriptor, seccomp.program(spec["families"]))
        os.lseek(descriptor, 0, os.SEEK_SET)
        options += ["--seccomp", str(descriptor)]
    command[:0] = [spec["program"], *options, "--"]


def _open_null() -> str:
    """The number of a descriptor of /dev/null that bubblewrap inherits."""
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    return str(descriptor)


def _enter_landlock(spec: dict[str, Any], _command: list[str]) -> None:
    from . import seccomp, syscalls

    _disable_core_dumps()
    version = syscalls.landlock_abi()
    shared = spec["steps"] is None  # no namespaces
    if not shared:
        from .mounts import enter

        folder = os.getcwd()  # noqa: PTH109
        enter(spec["steps"], network=spec["network"], shared_memory=spec["shared_memory"])
        try:  # the same folder in the new view; through the old one, a command could leave it
            os.chdir(folder)
        except OSError:
            os.chdir("/")
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    syscalls.drop_capabilities(_KEPT_CAPABILITIES if shared else 0)
    rules: list[tuple[str | int, int]] = [
        (path, rights)
        for root, rights, excluded in spec["rules"]
        for path in syscalls.paths_without(root, excluded)
    ]
    rules += [
        (descriptor, syscalls.WRITE_FILE | syscalls.TRUNCATE) for descriptor in (1, 2) if _is_file(descriptor)
    ]
    syscalls.restrict_files(rules, network=spec["network"] or not shared)
    seccomp.install(seccomp.program(spec["families"], deny_truncate=version < 3, shared=shared))


def _is_file(descriptor: int) -> bool:
    """Whether a descriptor is a regular file, which a command opens again as /dev/stdout."""
    from stat import S_ISREG

    try:
        return S_ISREG(os.fstat(descriptor).st_mode)
    except OSError:
        return False


def _raise_oom_score() -> None:
    with suppress(OSError):
        descriptor = os.open("/proc/self/oom_score_adj", os.O_RDWR)
        try:
            if int(os.read(descriptor, 16)) < _OOM_SCORE:
                os.pwrite(descriptor, str(_OOM_SCORE).encode(), 0)
        finally:
            os.close(descriptor)


def _disable_core_dumps() -> None:
    """A core dump is written, or passed to a system program, outside the sandbox."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _fail(error: OSError) -> NoReturn:
    os.write(2, f"repoagent: could not set up the sandbox: {error}\n".encode(errors="surrogateescape"))
    os._exit(FAILED)
