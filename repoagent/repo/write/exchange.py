"""Swap two files in one step (renameat2 of Linux, renameatx_np of macOS): what was replaced is never lost."""

from __future__ import annotations

import errno
import os
import sys

_LINUX_EXCHANGE = 2  # RENAME_EXCHANGE of linux/fs.h
_DARWIN_SWAP = 2  # RENAME_SWAP of sys/stdio.h
_UNKNOWN = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


def exchange(folder: int, one: str, other: str) -> bool:
    """Swap the files `one` and `other` of the open folder; False where the system or file system can't.

    Raises OSError for every other failure (a mount point is EBUSY).
    """
    import ctypes  # 8 ms, and only writing needs it

    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        call, flag = getattr(library, "renameatx_np", None), _DARWIN_SWAP
    else:
        call, flag = getattr(library, "renameat2", None), _LINUX_EXCHANGE
    if call is None:
        return False
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    if call(folder, os.fsencode(one), folder, os.fsencode(other), flag) == 0:
        return True
    error = ctypes.get_errno()
    if error in _UNKNOWN:
        return False
    raise OSError(error, os.strerror(error), one)
