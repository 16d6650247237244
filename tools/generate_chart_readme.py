"""Prints charts/wakeboard/README.md: how to install, and every value, its default and its comment in values.yaml."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import yaml

from tools.chart_values import CHART, Value, read_values

if TYPE_CHECKING:
    from collections.abc import Iterable

MADE: Final = "<!-- Made by tools/generate_chart_readme.py from values.yaml; `make fix` makes it anew. -->"
LONG: Final = 60  # characters of a default that still stand well in a table

INTRODUCTION: Final = """\
# wakeboard

{description}

A trial, with a Postgres of its own (never for data that you would miss):

```sh
helm install wakeboard charts/wakeboard --namespace wakeboard --create-namespace --set devDatabase.enabled=true
helm test wakeboard --namespace wakeboard --logs
```

With your Postgres 15 or newer, a Secret with its connection strings, and workers built with your handlers:

```yaml
database:
  existingSecret: wakeboard-database   # keys: owner-dsn, operator-dsn, worker-dsn
  roles: {{operator: wakeboard_operator, worker: wakeboard_worker}}
worker:
  image: {{repository: registry.example.com/jobs, tag: "1"}}
  handlers: [myapp.jobs]
pools:
  default: {{}}
  reports: {{queues: [reports], concurrency: 4, maxTimeoutSeconds: 14400}}
  webhooks: {{mode: forever, queues: [webhooks], replicas: 2}}
```

Kubernetes {kubernetes}; Helm 3.14 or newer (tested with 4.2). From the first steps to production: docs/install.md,
docs/worker-image.md, docs/production.md; by symptom: docs/troubleshooting.md.

`helm uninstall` keeps the resource definition, and so all schedules, and the database. To remove them too:
`kubectl delete crd jobschedules.wakeboard.dev`, and in the database `drop schema wakeboard cascade`.

Where Helm only renders (`helm template`, Argo CD): leave out what only `helm test` needs (`--skip-tests`; Argo CD does
so by itself), and give `devDatabase.password` if you use that database.
"""


def page() -> str:
    """The file."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    kubernetes = str(chart["kubeVersion"]).removeprefix(">=").removesuffix("-0").removesuffix(".0") + " or newer"
    lines = [MADE, "", INTRODUCTION.format(description=chart["description"], kubernetes=kubernetes)]
    lines += ["# Values"]
    for section, values in groupby(read_values(), key=lambda value: value.section):
        lines += ["", f"## {section}", "", *_section(list(values))]
    return "\n".join(lines) + "\n"


def _section(values: Iterable[Value]) -> list[str]:
    values = list(values)
    notes = [f"`{value.name}`: {value.comment}" for value in values if value.inner and value.comment]
    table = ["| value | default | meaning |", "|---|---|---|"]
    rows = [_row(leaf) for value in values for leaf in value.leaves()]
    return [line for note in notes for line in (note, "")] + table + rows


def _row(value: Value) -> str:
    return f"| `{value.name}` | {_default(value.default)} | {value.comment.replace('|', chr(92) + '|')} |"


def _default(value: Any) -> str:
    if value is None:
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return f"`{text}`" if len(text) <= LONG else "see values.yaml"


if __name__ == "__main__":
    sys.stdout.write(page())
