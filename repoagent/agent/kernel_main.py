"""Source for `python -c` that starts a kernel in the sandbox.

It creates its sockets with relative names, because an absolute path may exceed the length limit for sockets.
"""

import fcntl
import os
import sys
import termios
import time


def main(connection: str, top: str) -> None:
    """Run a kernel in the folder `top`, with the sockets that the file `connection` names."""
    # a module in the folder must not shadow one of Python's
    sys.path[:] = [entry for entry in sys.path if entry]
    from typing import Any

    from ipykernel.kernelapp import IPKernelApp

    app: Any = IPKernelApp.instance()
    # the client has the connection file already, and the log is not read
    app.log_connection_info = app.write_connection_file = lambda **_: None
    app.initialize(
        [
            f"--IPKernelApp.connection_file={connection}",
            "--HistoryManager.hist_file=:memory:",
            "--InteractiveShell.xmode=Plain",
            "--InteractiveShell.colors=nocolor",
            "--IPKernelApp.log_level=ERROR",
        ]
    )
    app.shell.events.register("post_run_cell", drain)
    os.chdir(top)
    os.environ["PWD"] = top
    app.start()


def drain(_: object = None) -> None:
    """Wait until the output of child processes is read, so that it comes with the cell that started them."""
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        time.sleep(0.005)  # the thread that reads them gets its turn
        if not any(map(waiting, (1, 2))):
            break
    time.sleep(0.005)


def waiting(descriptor: int) -> int:
    """The number of unread bytes in a pipe."""
    try:
        return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
    except OSError:  # the code has closed it
        return 0


if __name__ == "__main__":  # with `python -c`, but not if the module is imported
    main(*sys.argv[1:3])
