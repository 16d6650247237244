"""`python -m tools.chart_linters` installs the missing programs, and prints the paths of those that are named."""

from __future__ import annotations

import sys

from tools.chart_linters import find_tool, install_missing

if __name__ == "__main__":
    install_missing()
    for name in sys.argv[1:]:
        print(find_tool(name))
