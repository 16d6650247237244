"""`python -m tools.chart_linters` gets the judges that are missing; with names it says where those are."""

from __future__ import annotations

import sys

from tools.chart_linters import find_tool, get_what_is_missing

if __name__ == "__main__":
    get_what_is_missing()
    for name in sys.argv[1:]:
        print(find_tool(name))
