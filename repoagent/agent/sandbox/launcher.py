"""Entry point of the sandbox: `python -I -S launcher.py SPEC COMMAND...`; see `launch.main`.

It is started by its path, so that Python does not import the packages above it: that takes longer than many commands.
"""

import sys
from importlib import import_module

if __name__ == "__main__":
    sys.path.append(__file__.rpartition("/")[0])
    import_module("launch.main").main(sys.argv[1], sys.argv[2:])
