"""Set up the sandbox that a specification from `confine` describes, and run the command in it.

A command may get a private view of the file system, which is read-only except for some folders and has some paths
covered; see namespaces(7).
"""

from __future__ import annotations

import binascii
import fcntl
import marshal
import os
import resource
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from . import syscalls
from .process_tree import FAILED, ProcessLimits, exit_code, run_limited

TYPE_CHECKING = False  # importing `typing` takes as long as everything else
if TYPE_CHECKING:
    from typing import Any, NoReturn

_OOM_SCORE = 500  # oom_score_adj: when memory runs out, the kernel kills a command before an editor
# CHOWN, DAC_OVERRIDE, FOWNER, FSETID: root may still work on files of others
_RETAINED_CAPABILITIES = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4


def main(specification: str, command: Sequence[str]) -> NoReturn:
    """Run `command` according to `specification`, and exit with its exit code."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    spec: dict[str, Any] = marshal.loads(binascii.a2b_base64(specification))
    try:
        report = None
        if path := spec.get("report"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            report = os.open(path, flags, 0o600)
        limits = ProcessLimits(
            spec.get("memory"),
            spec.get("processes"),
            report,
            spec["depth"],
            spec.get("disks", ()),
            daemons=spec.get("daemons", False),
        )
        with _placeholders(spec.get("missing", [])):
            code = run_limited(lambda: _start(spec, list(command)), limits)
    except OSError as error:
        _fail(error)
    os._exit(code)


@contextmanager
def _placeholders(paths: Sequence[str]) -> Iterator[None]:
    """Create an empty folder at each of `paths`, where no command may create a file, for the time of the command.

    A mount cannot cover a name that does not exist. Several commands may run at once: each has a shared lock on the
    folder, and the last one removes it. Files that another program has put there stay.
    """
    locked = [(path, descriptor) for path in paths if (descriptor := _lock_folder(path)) is not None]
    try:
        yield
    finally:
        for path, descriptor in locked:
            with suppress(OSError):  # another command has a lock on it, or it is not empty
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.rmdir(path)  # noqa: PTH106
            os.close(descriptor)


def _lock_folder(path: str) -> int | None:
    """A descriptor with a shared lock on the folder at `path`, created if missing; None if it is not a folder."""
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


def _start(spec: dict[str, Any], command: list[str]) -> NoReturn:
    """In the child: confine the process and execute the command."""
    try:
        with suppress(OSError):  # may not be permitted
            descriptor = os.open("/proc/self/oom_score_adj", os.O_RDWR)
            if int(os.read(descriptor, 16)) < _OOM_SCORE:
                os.pwrite(descriptor, str(_OOM_SCORE).encode(), 0)
        if "bubblewrap" in spec:
            from . import seccomp

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # core dumps are written outside the sandbox
            # abstract sockets are shared with the network
            if spec["network"] and syscalls.landlock_abi() >= 6:
                syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
                syscalls.restrict_files(None, network=True)
            words = []
            for word in spec["bubblewrap"]:
                if not word:
                    null = os.open(os.devnull, os.O_RDONLY)
                    os.set_inheritable(null, True)
                words.append(word or str(null))
            if seccomp.supported():
                descriptor = os.memfd_create("filter", 0)
                os.write(descriptor, seccomp.program(spec["families"]))
                os.lseek(descriptor, 0, os.SEEK_SET)
                words += ["--seccomp", str(descriptor)]
            command[:0] = [*words, "--"]
        elif "rules" in spec:
            _confine(spec)
    except OSError as error:
        _fail(error)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode(errors="surrogateescape"))
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _confine(spec: dict[str, Any]) -> None:
    from . import seccomp

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # core dumps are written outside the sandbox
    shared = spec["steps"] is None  # no namespaces
    if not shared:
        folder = os.getcwd()  # noqa: PTH109
        _enter_namespaces(spec["steps"], network=spec["network"], shared_memory=spec["shared_memory"])
        try:  # the same folder in the new view: the old one would lead out of the sandbox
            os.chdir(folder)
        except OSError:
            os.chdir("/")
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    syscalls.drop_capabilities(_RETAINED_CAPABILITIES if shared else 0)
    rules: list[tuple[str | int, int]] = [
        (path, rights)
        for root, rights, excluded in spec["rules"]
        for path in syscalls.paths_without(root, excluded)
    ]
    for descriptor in (1, 2):
        with suppress(OSError):  # a command may open a regular file again as /dev/stdout
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                rules.append((descriptor, syscalls.WRITE_FILE | syscalls.TRUNCATE))
    syscalls.restrict_files(rules, network=spec["network"] or not shared)
    seccomp.install(
        seccomp.program(spec["families"], deny_truncate=syscalls.landlock_abi() < 3, shared=shared)
    )


def _fail(error: OSError) -> NoReturn:
    os.write(2, f"repoagent: could not set up the sandbox: {error}\n".encode(errors="surrogateescape"))
    os._exit(FAILED)


_SAFE = syscalls.MS_NOSUID | syscalls.MS_NODEV
_SHARED_MEMORY = "/dev/shm"


def _enter_namespaces(steps: Sequence[tuple[str, str, str]], *, network: bool, shared_memory: int) -> None:
    """Continue in a child in new namespaces; this process and the init of the namespaces wait for it and never return.

    `steps` are (kind, source, target), see `mounts.Step`. The user id is the same as outside. Raises OSError.
    """
    user, group = os.getuid(), os.getgid()
    spaces = syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWPID
    syscalls.unshare(spaces | syscalls.CLONE_NEWUTS | (0 if network else syscalls.CLONE_NEWNET))
    maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
    for name, text in maps.items():
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(descriptor, text.encode())
        os.close(descriptor)
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    sources = {source: syscalls.open_path(source) for _, source, _ in steps if source}
    syscalls.set_read_only("/", True, below=True)
    # A covered file is a regular one, which git reads as changed, because git rejects other types. The empty file is on
    # a mount that the private shared memory covers.
    empty = f"{_SHARED_MEMORY}/empty"
    try:
        syscalls.mount("tmpfs", _SHARED_MEMORY, "tmpfs", _SAFE, "size=4k,mode=755")
        os.close(os.open(empty, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o444))
    except FileNotFoundError:
        empty = os.devnull
    sources[""] = syscalls.open_path(empty)
    for kind, source, target in steps:
        _apply(kind, sources[source], target)
    for kind, _, target in steps:
        if kind == "folder":
            syscalls.set_read_only(target, True, below=False)
    with suppress(FileNotFoundError):  # private terminals
        flags = syscalls.MS_NOSUID | syscalls.MS_NOEXEC
        syscalls.mount("devpts", "/dev/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=620")
        syscalls.mount("/dev/pts/ptmx", "/dev/ptmx", "", syscalls.MS_BIND)
    with suppress(FileNotFoundError):
        syscalls.mount("tmpfs", _SHARED_MEMORY, "tmpfs", _SAFE, f"size={shared_memory},mode=1777")
    for descriptor in sources.values():
        os.close(descriptor)
    if not network:
        syscalls.bring_up_loopback()
    _wait_for_child()
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, 9)
    syscalls.mount("proc", "/proc", "proc", _SAFE | syscalls.MS_NOEXEC)
    _wait_for_child()


def _apply(kind: str, source: int, target: str) -> None:
    """Do one step. A target that is missing in a folder that an earlier step covered is created."""
    is_folder = kind == "folder" or stat.S_ISDIR(os.fstat(source).st_mode)
    try:
        try:
            mount_point = syscalls.open_path(target)
        except FileNotFoundError:
            os.makedirs(target if is_folder else os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
            if not is_folder:
                os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o444))
            mount_point = syscalls.open_path(target)
    except FileNotFoundError:
        return
    place = f"/proc/self/fd/{mount_point}"
    try:
        if kind == "folder":
            syscalls.mount("tmpfs", place, "tmpfs", _SAFE, "size=64k,mode=755")
            return
        syscalls.mount(f"/proc/self/fd/{source}", place, "", syscalls.MS_BIND | syscalls.MS_REC)
    finally:
        os.close(mount_point)
    writable = kind in {"write", "pin"}  # by now the mount of the source is read-only
    try:
        syscalls.set_read_only(target, not writable, below=True)
    except PermissionError:  # a mount below it is locked as read-only
        if not writable:
            raise
        syscalls.set_read_only(target, False, below=False)


def _wait_for_child() -> None:
    """Continue in a child; this process waits for it, reaps orphans, and exits with the child's exit code."""
    child = os.fork()
    if not child:
        return
    code = FAILED
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    while True:
        process, status = os.waitpid(-1, 0)
        if process == child:
            code = exit_code(status)
            break
    os._exit(code)
