"""Masks a key in a file that is open already, as a program of its own: the keeper of a server runs it when the process
that launched the server is gone and nobody else is left to do it.

The key comes in the first line of stdin, never on the command line; the argument is the number of the open file.
"""

from __future__ import annotations

import os
import sys

from infermaxx_tui.secret import Mask

if __name__ == "__main__":
    with os.fdopen(int(sys.argv[1]), "r+b") as log:
        Mask(sys.stdin.readline().rstrip("\n")).opened(log)
