"""The names of the built-in job types belong to them, in each process."""

from __future__ import annotations

import json

import pytest

import wakeboard
from wakeboard.engine.handlers import BUILT_IN
from wakeboard.errors import BrokenHandlers
from wakeboard.settings import read_settings
from wakeboard_worker.builtin import builtin_handlers, ping


def test_the_built_in_names_are_those_of_the_built_in_handlers() -> None:
    settings = read_settings(
        http_allowed_hosts="example.com",
        commands=json.dumps({"tell": {"argv": ["/bin/true"]}}),
        jobs_namespaces="default",
        jobs_api_server="https://127.0.0.1:1",
        dsn="postgresql://localhost/x",
        alerts_file="alerts.yaml",
    )
    assert {*builtin_handlers(settings)} == {*BUILT_IN}


@pytest.mark.parametrize("job_type", BUILT_IN)
def test_a_handler_cannot_take_a_built_in_name(job_type: str) -> None:
    with pytest.raises(BrokenHandlers, match="which is built in; choose another name"):
        wakeboard.handler(job_type)(ping)
