"""Prints docs/sql-functions.md: its hand-written part, then each SQL function as the head of its file describes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from wakeboard.store.schema_files import SqlFunction, migrations, sql_functions

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "sql-functions.md"
MARK: Final = "<!-- tools/generate_sql_functions.py writes the rest, from wakeboard/*/sql/*.sql. -->\n"
SIGNATURE: Final = re.compile(
    r"create or replace function wakeboard\.(\w+\(.*?\))\s+returns (.*?)\s+language", re.DOTALL
)
DOMAIN: Final = re.compile(
    r"create domain (\w+) as ([^(]+?) check \("
    r"(?:(?!create domain).)*?refuse_argument\(\s*'[^']*', [^']*?, '([^']+)'\)\);",
    re.DOTALL,
)
ARGUMENT_TYPES: Final = """## Types of arguments

Pass a value of the built-in type. A function refuses other values than these, with `22023` and a sentence that says
what to write. It refuses null where the table does not name it.

| type | built-in type | value |
| --- | --- | --- |
"""
SECTIONS: Final = {
    "Applications": "enqueue enqueue_many get_run cancel_run",
    "Applications that create schedules": "schedule schedule_many unschedule unschedule_all list_schedules"
    " pause_schedules resume_schedules",
    "Administrators": "cancel retry replay discard revoke run_now send_test_notification silence_alert pause resume"
    " release_effect set_limit set_rate_limit declare_limits set_retention set_audit_retention set_max_schedules"
    " set_misfire_grace confirm_removal acknowledge_server_changes close_for_move reveal"
    " create_bulk_action run_bulk_action_batch cancel_bulk_action plan_backfill create_backfill"
    " cancel_backfill",
    "Workers": "register_worker fetch_runs"
    " trace_contexts alert_delivery renew complete fail release"
    " still_leased store_logs deregister_worker backoff run_states",
    "Handlers, under a lease": "once effect effect_forever step consume pause_limit run_results",
    "Maintenance": "reap skip_past_deadline due_definitions due_schedules enqueue_due_ticks update_circuits"
    " update_expectations end_pauses create_partitions enqueue_dependents joins_to_check enqueue_joined_ticks"
    " drop_partitions delete_expired continue_backfills roll_up claim_alert_rules measure_alert record_alert"
    " record_measured_rules unmeasured_rules enqueue_heartbeats",
    "Operators": "list_definitions lacks_tick taken_by_application sync_definitions filter_due_definitions"
    " remove_definitions request_removal suspend_definitions pop_changed_definitions run_annotation_action"
    " acquire_leadership release_leadership"
    " require_leadership claim_alert_delivery finish_alert_delivery"
    " report_worker_terminated",
    "Viewers": "run_facts server_change advance_rate full_tablespaces",
    "Autoscalers": "backlog",
    "All roles": "schema_state check_payload refuse_value refuse_argument shortened",
}


def _entry(function: SqlFunction) -> str:
    found = SIGNATURE.search(function.text)
    assert found, f"{function.name}.sql has no signature"
    found = (re.sub(r" *--[^\n]*", "", part) for part in found.groups())
    signature, result = (" ".join(part.split()).replace("( ", "(").replace(" )", ")") for part in found)
    signature = signature.replace(" wakeboard.", " ")
    text, _, example = function.description.partition("\nExample:\n")
    example = re.sub(r"^  ", "", example, flags=re.MULTILINE)
    listed = re.sub(r"^  ('\w+'|null) +", r"- \1: ", text, flags=re.MULTILINE)
    listed = re.sub(r":\n- ", r":\n\n- ", re.sub(r"(\n- [^\n]*(?:\n  [^\n]*)*)\n(?!-|\n|  )", r"\1\n\n", listed))
    return (
        f"### {function.name}\n\n```\n{signature}\n  → {result}\n```\n\nRoles: {', '.join(sorted(function.roles))}.\n\n"
        f"{listed}\n" + (f"\n```sql\n{example}\n```\n" if example else "")
    )


def _argument_types() -> str:
    rows = (
        f"| `{name}` | `{kind.replace('limit_key_name', 'text')}` | {wanted} |\n"
        for migration in migrations()
        for name, kind, wanted in DOMAIN.findall(migration.text)
    )
    return ARGUMENT_TYPES + "".join(rows)


def main() -> None:
    """Prints the page."""
    functions = {function.name: function for function in sql_functions() if function.roles}
    unlisted = set(functions) ^ set(" ".join(SECTIONS.values()).split())
    assert not unlisted, f"SECTIONS and the functions differ: {sorted(unlisted)}"
    sections = (
        f"## {title}\n\n" + "\n".join(_entry(functions[name]) for name in names.split())
        for title, names in SECTIONS.items()
    )
    print(PAGE.read_text("utf-8").partition(MARK)[0] + MARK, _argument_types(), *sections, sep="\n", end="")


if __name__ == "__main__":
    main()
