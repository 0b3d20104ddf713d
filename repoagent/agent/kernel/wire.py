"""Messages to a kernel and from it, by Jupyter's messaging protocol (version 5), over sockets in a folder.

What comes from a kernel was written by the code that runs in it: it is signed with a key that this code can read, so
nothing in it is relied on but its size.
"""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repoagent.dataclass import dataclass

if TYPE_CHECKING:
    import zmq

LARGEST = 32 * 1024 * 1024  # bytes of one message; a longer one is not taken
_AT_ONCE = 64  # messages that are taken before the caller looks at the clock again
_SHELL, _IOPUB, _STDIN, _CONTROL, _HEARTBEAT = 1, 2, 3, 4, 5
_PREFIX = "k"  # the sockets are k-1, k-2, ...
_LONGEST = 90  # bytes of a socket's path: the system takes about 107, 103 on macOS
CONNECTION = "connection.json"


@dataclass(frozen=True)
class Message:
    """What a kernel says. `parent` is the id of what it is about; `public` tells what it announces from an answer."""

    kind: str
    parent: str
    content: Mapping[str, Any] = field(default_factory=dict)
    public: bool = False


def connection(folder: Path) -> str:
    """Write the file by which a kernel that is started in `folder` knows where to listen, and return the key of its
    messages. Raises OSError."""
    key = secrets.token_hex(32)
    names = {"shell": _SHELL, "iopub": _IOPUB, "stdin": _STDIN, "control": _CONTROL, "hb": _HEARTBEAT}
    facts = {
        "transport": "ipc",
        "ip": _PREFIX,
        "key": key,
        "signature_scheme": "hmac-sha256",
        **{f"{name}_port": number for name, number in names.items()},
    }
    file = folder / CONNECTION
    file.touch(mode=0o600)
    file.write_text(json.dumps(facts), encoding="utf-8")
    return key


class Wire:
    """The near end of a kernel's sockets."""

    def __init__(self, folder: Path, key: str) -> None:
        import zmq
        from jupyter_client.session import Session

        self._short: tempfile.TemporaryDirectory[str] | None = None
        self._session = Session(key=key.encode(), username="repoagent")
        self._context = zmq.Context()
        self._place = self._reachable(folder)
        self._shell = self._connected(zmq.DEALER, _SHELL)
        self._iopub: zmq.Socket[bytes] | None = None
        self.listen()

    def listen(self) -> None:
        """Hear what is announced from now on; anew, where that was ended by a message that was too long."""
        import zmq

        if self._iopub is not None:
            self._iopub.close()
        self._iopub = self._connected(zmq.SUB, _IOPUB)
        self._iopub.setsockopt(zmq.SUBSCRIBE, b"")

    def _connected(self, kind: int, number: int) -> zmq.Socket[bytes]:
        import zmq

        socket = self._context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, LARGEST)
        socket.setsockopt(zmq.RECONNECT_IVL, 20)
        socket.connect(f"ipc://{self._place}/{_PREFIX}-{number}")
        return socket

    def ask(self, kind: str, content: Mapping[str, object]) -> str:
        """Send a request; its id."""
        sent = self._session.send(self._shell, kind, dict(content))
        return str(sent["header"]["msg_id"]) if sent else ""

    def messages(self, seconds: float) -> Iterator[Message]:
        """What has come, or comes within `seconds`; at most a few at once. What can't be read is left out."""
        import zmq

        poller = zmq.Poller()
        sockets = [socket for socket in (self._iopub, self._shell) if socket is not None]
        for socket in sockets:
            poller.register(socket, zmq.POLLIN)
        ready = dict(poller.poll(int(seconds * 1000)))
        for socket in sockets:
            for _ in range(_AT_ONCE if socket in ready else 0):
                try:
                    frames = socket.recv_multipart(zmq.NOBLOCK, copy=True)
                except zmq.Again:
                    break
                message = self._read(frames, public=socket is self._iopub)
                if message is not None:
                    yield message

    def close(self) -> None:
        self._context.destroy(linger=0)
        if self._short is not None:
            self._short.cleanup()

    def _read(self, frames: list[bytes], *, public: bool) -> Message | None:
        try:
            _, parts = self._session.feed_identities(frames)
            read = self._session.deserialize(parts)
            kind, parent, content = read["header"]["msg_type"], read["parent_header"], read["content"]
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
            return None  # no message, or none that is signed
        if not (isinstance(kind, str) and isinstance(parent, dict) and isinstance(content, dict)):
            return None
        return Message(kind, str(parent.get("msg_id", "")), content, public)

    def _reachable(self, folder: Path) -> Path:
        """A path of `folder` that is short enough for a socket in it."""
        if len(str(folder).encode()) <= _LONGEST:
            return folder
        self._short = tempfile.TemporaryDirectory(prefix="repoagent-")
        link = Path(self._short.name) / "k"
        link.symlink_to(folder.absolute(), target_is_directory=True)
        return link
