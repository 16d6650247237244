"""Settings: errors of invalid values, and unknown names."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from wakeboard.board.settings import BoardSettings
from wakeboard.errors import InvalidSettings
from wakeboard.settings import ELSEWHERE, PREFIX, Settings, read_settings, unknown_settings
from wakeboard_operator.settings import OperatorSettings, read_operator_settings

OF_COMMANDS = {"DEBUG", "EFFECTS_DSN", "POD_UID", "UP_COMPANION", "WORKER_NAME", "ZONE"}


@pytest.mark.parametrize(
    ("name", "value", "instruction"),
    [
        ("CONCURRENCY", "many", "write a whole number from 1 to 10000"),
        ("CONCURRENCY", "0", "write a whole number from 1 to 10000"),
        ("CONCURRENCY", "1.5", "write a whole number from 1 to 10000"),
        ("MAX_WORKERS", "none", "write a whole number of at least 1"),
        ("POLL_SECONDS", "nan", "write a number from 0.005 to 60"),
        ("LISTEN", "perhaps", "write true or false"),
        ("LOG_LEVEL", "loud", "write debug, info, warning or error"),
        ("COMMANDS", "{", "must be a JSON object (Expecting property name enclosed in double quotes)"),
    ],
)
def test_the_error_for_a_wrong_value_says_what_to_write(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, instruction: str
):
    monkeypatch.setenv(PREFIX + name, value)

    with pytest.raises(InvalidSettings) as refused:
        read_settings()

    assert str(refused.value) == f"{PREFIX}{name}={value!r}: {instruction}."


@pytest.mark.parametrize("kind", [Settings, OperatorSettings])
def test_each_error_for_a_number_says_what_to_write(monkeypatch: pytest.MonkeyPatch, kind: type[Settings]):
    fields: dict[str, Any] = kind.model_fields
    numbers = [name for name, field in fields.items() if field.annotation in {int, float, bool}]
    for name in numbers:
        monkeypatch.setenv(PREFIX + name.upper(), "x")

    with pytest.raises(InvalidSettings) as refused:
        read_operator_settings() if kind is OperatorSettings else read_settings()

    assert str(refused.value).count("='x': write ") == len(numbers)


def test_an_unknown_setting_is_reported_with_the_nearest_name():
    assert unknown_settings(["WAKEBOARD_LISTEM", "WAKEBOARD_MAX_RETRIES", "HOME", "PGHOST"]) == [
        "WAKEBOARD_LISTEM is not a setting and has no effect; did you mean WAKEBOARD_LISTEN?",
        "WAKEBOARD_MAX_RETRIES is not a setting and has no effect.",
    ]


def test_settings_of_other_programs_are_not_reported_as_unknown():
    own = {*OperatorSettings.model_fields, *BoardSettings.model_fields} - set(Settings.model_fields)
    assert {PREFIX + name for name in {*map(str.upper, own), *OF_COMMANDS}} == ELSEWHERE
    assert not unknown_settings([*ELSEWHERE, "WAKEBOARD_DSN", "WAKEBOARD_SECRET_SMTP", "WAKEBOARD_TEST_POSTGRES"])


def test_variables_of_kubernetes_services_are_not_reported_as_unknown():
    assert not unknown_settings(
        [
            "WAKEBOARD_PORT",
            "WAKEBOARD_SERVICE_HOST",
            "WAKEBOARD_OPERATOR_PORT_8080_TCP_ADDR",
            "WAKEBOARD_OPERATOR_SERVICE_PORT_HTTP",
            "WAKEBOARD_DEV_DATABASE_PORT_5432_TCP",
        ]
    )


@pytest.mark.parametrize(
    "command",
    [
        ["wakeboard_worker"],
        ["wakeboard_operator"],
        ["wakeboard", "version"],
        ["wakeboard", "runs"],
        ["wakeboard", "worker"],
    ],
)
def test_every_program_reports_an_unknown_setting_once(command: list[str]):
    """None of them has a database here: a typing error is reported before anything else fails."""
    module, *words = command
    code = f"import sys; from {module}.cli import main; sys.exit(main())" if module == "wakeboard" else ""
    program = ["-c", code, *words] if code else ["-m", module]
    environment = {**os.environ, "WAKEBOARD_LISTEM": "false", "WAKEBOARD_DSN": "unreadable"}
    environment["WAKEBOARD_DRAIN_LOOKAHEAD_SECONDS"] = "0"
    environment["KUBECONFIG"] = "/nonexistent"

    result = subprocess.run([sys.executable, *program], env=environment, capture_output=True, text=True, check=False)

    assert "WAKEBOARD_LISTEM is not a setting and has no effect; did you mean WAKEBOARD_LISTEN?" in result.stderr
    assert result.stderr.count("WAKEBOARD_LISTEM") == 1
    assert "WAKEBOARD_DRAIN" not in result.stderr
