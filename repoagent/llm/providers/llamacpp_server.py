"""The llama.cpp server process: a script that llamacpp.py starts. It exits when its parent process does.

Reads one line of JSON from standard input, loads the model, writes a line to standard output ("ready" or an error), and
then serves a Unix socket until the end of standard input.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import os
import select
import signal
import sys


def main() -> None:
    answer = os.dup(1)
    os.dup2(2, 1)  # redirect output of the library to the log
    order = json.loads(sys.stdin.buffer.readline())
    # End at the end of standard input, even while the library blocks the interpreter: the kernel sends SIGIO.
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    with contextlib.suppress(OSError):  # not supported: the end is noticed after loading
        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([0], [], [], 0)[0]:  # it has already ended, so there will be no signal
        os._exit(0)
    sys.path[:] = order["import_path"]
    try:
        library = importlib.import_module("xllamacpp")
        params = library.CommonParams()
        params.model.path = order["model"]
        params.hostnames = [order["socket"]]  # a name that ends in .sock opens no TCP port
        params.n_ctx = order["window"]
        params.n_parallel = 1
        params.n_threads_http = 2
        params.cache_ram_mib = 0  # the prompt of the previous turn is cached in its slot anyway
        params.no_extra_bufts = True  # no rearranged copy of the weights: loads in a third of the time
        params.warmup = False
        # to the memory of a GPU; reads the vocabulary twice
        params.fit_params = any("CPU" not in device["type"].name for device in library.get_device_info())
        params.ctx_shift = False  # a full window ends the reply instead of dropping its beginning
        params.use_jinja = True
        params.ui = False
        params.offline = True
        params.verbosity = 1  # errors
        server = library.Server(params)
    except (ImportError, OSError, RuntimeError, MemoryError) as error:
        os.write(answer, f"{type(error).__name__}: {error}\n".encode())
        sys.exit(1)  # not os._exit: a thread of the library still writes its log
    os.write(answer, b"ready\n")
    while os.read(0, 1):
        pass
    del server
    os._exit(0)


if __name__ == "__main__":
    main()
