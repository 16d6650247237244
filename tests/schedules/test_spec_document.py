from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from tests.schedules.full_spec import FULL_SPEC
from wakeboard.schedules.desired_schedule import DesiredSchedule, definition_row
from wakeboard.schedules.rules.job_schedule import load_job_schedule, spec_hash
from wakeboard.schedules.rules.spec_document import document_text, spec_document

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def row(spec: dict[str, Any]) -> dict[str, Any]:
    return definition_row(DesiredSchedule("team", "job", loaded(spec).spec), None, NOW)


def loaded(spec: dict[str, Any]) -> Any:
    return load_job_schedule(
        {"apiVersion": "wakeboard.dev/v1alpha1", "kind": "JobSchedule", "metadata": {"name": "job"}, "spec": spec}, "x"
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"jobType": "ping"},
        FULL_SPEC,
        {"jobType": "ping", "catchUp": {"policy": "All"}},
        {"jobType": "ping", "backoff": {"baseSeconds": 3}, "dst": {"overlap": "Both"}, "payload": {}},
        *(
            {"jobType": "ping", "schedule": "0 8 * * MON", field: value}
            for field, value in FULL_SPEC.items()
            if field not in {"jobType", "alertAfterMissed"}
        ),
    ],
)
def test_the_document_of_a_stored_schedule_declares_the_same_schedule(spec: dict[str, Any]):
    written, _ = spec_document(row(spec))

    document = yaml.safe_load(document_text("team", "job", written))

    assert document["metadata"] == {"name": "job", "namespace": "team"}
    assert document["spec"] == {name: value for name, value in spec.items() if value != {}}
    assert spec_hash(load_job_schedule(document, "x").spec) == spec_hash(loaded(spec).spec)


def test_both_parts_together_are_the_whole_spec():
    written, left_out = spec_document(row({"jobType": "ping", "dst": {"gap": "Skip"}}))

    assert written == {"jobType": "ping", "dst": {"gap": "Skip"}}
    assert left_out["dst"] == {"overlap": "First"}
    assert left_out["maxAttempts"] == 5
    assert left_out["schedule"] is None


@pytest.mark.parametrize(
    "text", ["on", "1e3", "0o17", "2026-11-22", "~", "a: b", "# x", "<b>", "\u202eevil\x00\x1b", ""]
)
def test_text_of_users_stays_exact_and_cannot_hide(text: str):
    document = document_text("team", "job", {"payload": {text: text}})

    assert yaml.safe_load(document)["spec"] == {"payload": {text: text}}
    assert text == "" or text.isascii() or "\u202e" not in document
    assert f'"{text}"' in document or not text.isprintable()
