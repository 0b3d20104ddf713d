"""The file that `wrap` starts by its path: `python -I -S launcher.py SPEC COMMAND...`; see `launch.main`.

It goes round the packages above it, whose imports would cost more time than many a command takes.
"""

import sys
from importlib import import_module

if __name__ == "__main__":
    sys.path.append(__file__.rpartition("/")[0])
    import_module("launch.main").main(sys.argv[1], sys.argv[2:])
