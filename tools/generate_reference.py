"""Prints docs/job-schedule.md: the reference of the JobSchedule resource, made from the models as its definition is."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from tools.generate_crd import COLUMNS, SELECTABLE, WIDE_COLUMNS, Schema, resource_schema
from wakeboard.rules.admission_rules import RULES
from wakeboard.rules.name_patterns import IN_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HEAD = """\
<!-- Made by tools/generate_reference.py from the models of spec and status; `make fix` makes it anew. -->

# The JobSchedule resource

A job that runs by schedule or on demand, as YAML in Git. The same file serves a cluster (`kubectl apply`) and a laptop
(`wakeboard up`, `wakeboard apply`). In a cluster, `kubectl apply -f crds/` makes the resource known; `kubectl explain
jobschedule.spec` then says what stands here.

```yaml
apiVersion: wakeboard.dev/v1alpha1
kind: JobSchedule
metadata: {name: weekly-report, namespace: billing}
spec:
  jobType: send_weekly_report        # the only field that is required
  schedule: "0 8 * * MON"
  timeZone: Europe/Lisbon
  payload: {segment: active}
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 3600
```

`metadata.name` has at most 63 characters. Short names: `jsched`, `jobsched`; `kubectl get wakeboard` lists what
is ours.
"""

ADMISSION = """\
## What is refused at once

The API server refuses these at `kubectl apply`, and so does the loader of files; what was there before stays. Unknown
fields are refused, too: by kubectl, by server-side apply and by the loader, which also says what was probably meant.

What an API server cannot see (a day that never comes, as in `0 0 31 2 *`; a payload over 64 KiB) the loader of files
refuses; in a cluster the condition `Stalled` says the same, and the last good spec stays in force.
"""

COLUMN_NOTES = """\
## kubectl get

`LAST-RUN` is how long ago the last run ended. `NEXT-RUN` is in UTC. `RUNNING`, `FAILED` (will be tried again by
themselves) and `DEAD` (wait for a person) count runs. Columns of `-o wide` stand last.
"""

STATUS = """\
## status

Written by the operator alone. What is unknown is absent. [conditions.md](conditions.md) says what each condition and
reason means, and what to do.
"""


def page() -> str:
    """The whole page."""
    fields = resource_schema()["properties"]
    parts = [
        [HEAD, "## spec", "", *_table(("field", "type", "default", "meaning"), _rows(fields["spec"], defaults=True))],
        [ADMISSION, *_table(("field", "says"), _refusals())],
        [COLUMN_NOTES, *_table(("column", "shows"), _columns())],
        ["Field selectors:", *_selectors()],
        [STATUS, *_table(("field", "type", "meaning"), _rows(fields["status"], defaults=False))],
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [_line(head), "|---" * len(head) + "|", *map(_line, rows)]


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _rows(schema: Schema, *, defaults: bool, prefix: str = "") -> Iterator[tuple[str, ...]]:
    """A row for each field, those of objects after the object itself."""
    for name, field in schema["properties"].items():
        meaning = " ".join(field["description"].split())
        default = [_default(field, required=name in schema.get("required", ()))] if defaults else []
        yield f"`{prefix}{name}`", _kind(field), *default, meaning
        inner = field.get("items", field)
        if "properties" in inner:
            suffix = "[]." if "items" in field else "."
            yield from _rows(inner, defaults=defaults, prefix=f"{prefix}{name}{suffix}")


def _default(field: Schema, *, required: bool) -> str:
    if required:
        return "required"
    if "default" not in field or "properties" in field:
        return ""
    return f"`{json.dumps(field['default'])}`"


def _kind(field: Schema) -> str:  # noqa: PLR0911 - a table
    match field:
        case {"enum": words}:
            return ", ".join(f"`{word}`" for word in words)
        case {"type": "integer", "format": _}:
            return "whole number"
        case {"type": "integer"}:
            return f"whole number, {field['minimum']}…{field['maximum']}"
        case {"type": "boolean"}:
            return "`true`, `false`"
        case {"format": "date-time"}:
            return "time"
        case {"type": "string", "maxLength": longest, "pattern": pattern} if pattern in IN_WORDS:
            return f"text, at most {longest}: {IN_WORDS[pattern]}"
        case {"type": "string"}:
            return f"text, at most {field['maxLength']}"
        case {"type": "array"}:
            return "list"
        case {"x-kubernetes-preserve-unknown-fields": _}:
            return "any keys and values"
        case _:
            return "object"


def _refusals() -> Iterator[tuple[str, str]]:
    for place, rules in RULES.items():
        for rule in rules:
            yield f"`{place.removeprefix('spec')}{rule.get('fieldPath', '')}`".replace("`.", "`"), rule["message"]


def _columns() -> Iterator[tuple[str, str]]:
    yield "`NAME`", "`.metadata.name`"
    for name, _, path in (*COLUMNS, *WIDE_COLUMNS):
        yield f"`{name.upper()}`", f"`{path}`"


def _selectors() -> list[str]:
    selectors = ", ".join(f"`--field-selector spec.{name}=…`" for name in SELECTABLE)
    return [f"{selectors}; with `,` for and, `!=` for not."]


if __name__ == "__main__":
    sys.stdout.write(page())
