"""Regenerates the files that are generated from others. With --check, reports those that are out of date.

To add a file, add it to GENERATED with the arguments of `python -m` for the program that prints it.
"""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path

from tools.stamp_version import FILES

ROOT = Path(__file__).resolve().parents[1]
MOST_LINES = 20  # of a file, with --check

# SQL functions of which only the lists of options are generated.
HAVE_OPTIONS_OF_SCHEDULES = [
    f"wakeboard/schedules/sql/{name}.sql"
    for name in (
        *("schedule", "schedule_many", "list_schedules", "sync_definitions"),
        *("schedule_guarded", "schedule_written", "check_schedule_values"),
    )
]

# In this order: a file that others are made from is written before them.
GENERATED: dict[str, list[str]] = {
    **{path: ["tools.stamp_version", path] for path in FILES},
    "NOTICE": ["tools.generate_notice"],
    "clients/go/worker/mask_rules.go": ["tools.generate_mask_rules", "go"],
    "clients/typescript/src/mask_rules.ts": ["tools.generate_mask_rules", "typescript"],
    "charts/wakeboard/files/dashboard.json": ["tools.generate_dashboard"],
    "charts/wakeboard/templates/admission-policy.yaml": ["tools.generate_admission_policy", "chart"],
    "charts/wakeboard/README.md": ["tools.generate_chart_readme"],
    "charts/wakeboard/templates/crd.yaml": ["tools.generate_chart_crd"],
    "charts/wakeboard/values.schema.json": ["tools.generate_chart_schema"],
    "crds/jobschedules.wakeboard.dev.yaml": ["tools.generate_crd"],
    "deploy/admission-policy.yaml": ["tools.generate_admission_policy"],
    "deploy/argocd/argocd-cm.yaml": ["tools.generate_argocd"],
    "schemas/catalog.json": ["tools.generate_json_schemas", "catalog"],
    "schemas/json/wakeboard-alert-rules.json": ["tools.generate_json_schemas", "alert-rules"],
    "schemas/json/wakeboard-job-schedule.json": ["tools.generate_json_schemas", "job-schedule"],
    "schemas/json/wakeboard-limits.json": ["tools.generate_json_schemas", "limits"],
    "wakeboard/schedules/sql/schedule_problem.sql": ["tools.generate_schedule_check"],
    **{path: ["tools.generate_schedule_columns", path] for path in HAVE_OPTIONS_OF_SCHEDULES},
    "docs/alerts.md": ["tools.generate_alerts_page"],
    "docs/cli.md": ["tools.generate_docs", "cli"],
    "docs/job-schedule.md": ["tools.generate_reference"],
    "docs/monitoring.md": ["tools.generate_monitoring"],
    "docs/sql-functions.md": ["tools.generate_sql_functions"],
    "docs/troubleshooting.md": ["tools.generate_health_table"],
    "docs/openapi.json": ["tools.generate_json_schemas", "openapi"],
    "docs/settings.md": ["tools.generate_docs", "settings"],
    "docs/versions.md": ["tools.generate_versions_page"],
    "docs/workers-in-any-language.md": ["tools.generate_worker_page"],
    "wakeboard/store/REVISION": ["tools.generate_functions_revision"],
    "sbom/board.cdx.json": ["tools.generate_sbom", "board"],
    "sbom/jobs.cdx.json": ["tools.generate_sbom", "jobs"],
    "sbom/operator.cdx.json": ["tools.generate_sbom", "operator"],
    "sbom/worker.cdx.json": ["tools.generate_sbom", "worker"],
    "sbom/worker-build.cdx.json": ["tools.generate_sbom", "worker-build"],
}


def generate(program: list[str]) -> str:
    """The output of the program."""
    command = [sys.executable, "-m", *program]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def present(path: Path) -> str | None:
    """The content of the file. None if it does not exist."""
    return path.read_text(encoding="utf-8") if path.exists() else None


def differences(committed: str, generated: str) -> list[str]:
    """The first lines that went (-) and came (+): what went from a public surface breaks its users."""
    found = list(difflib.unified_diff(committed.splitlines(), generated.splitlines(), lineterm="", n=0))[2:]
    lines = [line for line in found if not line.startswith("@@")]
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"… and {more} other lines"] if more > 0 else [])]


def main() -> int:
    """Returns 1 with --check if a file is out of date."""
    checking = "--check" in sys.argv[1:]
    stale = 0
    for name, program in GENERATED.items():
        committed, text = present(ROOT / name), generate(program)
        if committed == text:
            continue
        stale += 1
        if checking:
            print(f"{name} is out of date; run: make fix", *differences(committed or "", text), sep="\n    ")
        else:
            (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / name).write_text(text, encoding="utf-8")
            print(f"{name} regenerated")
    return int(checking and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
