"""Prints a SQL function whose marked lists name the options of a schedule, from the fields of `wakeboard.Schedule`.

A new option is a field there and a column of job_definitions; each list of the functions follows. A list is between
`-- columns: FORMAT` and `-- end`, and has the format for each option that is a column. `-- arguments:` has cron, every
and at, too, which together are one column. `-- defaults:` has the options that have a default.
"""

from __future__ import annotations

import re
import sys
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, Final

from wakeboard.schedules.application_api import Schedule

LINE: Final = 140
LIST: Final = re.compile(r"^( *)-- (columns|arguments|defaults): (.+)\n(?:.*\n)*?( *-- end\n)", re.MULTILINE)
TYPES: Final = {"int": "integer", "bool": "boolean", "timedelta": "interval", "datetime": "timestamptz"}
TIMING: Final = {"cron", "every", "at"}
OPTIONS: Final = fields(Schedule)[3:]  # without name, job type and payload


def main() -> None:
    """Prints the file that the only argument names."""
    print(LIST.sub(_list, Path(sys.argv[1]).read_text(encoding="utf-8")), end="")


def _list(found: re.Match[str]) -> str:
    indent, kind, form, end = found.groups()
    chosen = [
        option
        for option in OPTIONS
        if kind == "arguments" or (option.name not in TIMING and (kind == "columns" or option.default is not None))
    ]
    between = "" if form.endswith(";") else ","
    parts = [form.format_map(_words(option)) + between for option in chosen]
    parts[-1] = parts[-1].removesuffix(",")
    lines = [indent + parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + 1 + len(part) > LINE:
            lines.append(indent + part)
        else:
            lines[-1] += f" {part}"
    return f"{indent}-- {kind}: {form}\n" + "".join(f"{line}\n" for line in lines) + end


def _words(option: Field[Any]) -> dict[str, str]:
    """What a format may contain. `shown`: the column as JSON has it. `given`: the argument or its default."""
    name, default = option.name, option.default
    column, cast = ("backoff_strategy", "::backoff_strategy") if name == "backoff" else (name, "")
    sql_type = TYPES.get(str(option.type).partition(" ")[0], "text")
    literal = "null" if default is None else f"'{default}'" if isinstance(default, str) else str(default).lower()
    time = f"to_char(def.{name} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
    return {
        "name": name,
        "column": column,
        "cast": cast,
        "type": sql_type,
        "column_type": column if cast else sql_type,
        "default": literal,
        "given": f"{name}{cast}" if default is None else f"coalesce({name}, {literal}){cast}",
        "shown": time if sql_type == "timestamptz" else f"def.{column}",
    }


if __name__ == "__main__":
    main()
