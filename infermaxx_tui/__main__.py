"""`python -m infermaxx_tui` is the same program as `infermaxx`."""

from __future__ import annotations

import sys

from infermaxx_tui.cli import main

if __name__ == "__main__":
    sys.exit(main())
