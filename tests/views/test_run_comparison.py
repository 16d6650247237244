"""What differs between two runs."""

from __future__ import annotations

import json

from wakeboard.views.rules.run_comparison import Difference, TimedStep, compared_steps, differences


def test_values_that_differ_are_listed_by_path_and_secret_ones_masked():
    before = '{"a": 1.10, "list": [1, {"x": 9007199254740993}], "api_key": "old", "gone": {}, "same": [null]}'
    after = '{"a": 1.1, "list": [1, {"x": 9007199254740992}, 2], "api_key": "new", "same": [null]}'
    assert differences(before, after) == [
        Difference(path="list[1].x", before="9007199254740993", after="9007199254740992"),
        Difference(path="list[2]", before=None, after="2"),
        Difference(path="api_key", before='"***"', after='"***"'),
        Difference(path="gone", before="{}", after=None),
    ]
    assert differences(None, "5") == [Difference(path="", before=None, after="5")]
    assert len(differences("[]", json.dumps(list(range(1000))))) == 200


def test_steps_are_paired_by_name():
    old, new = (
        [TimedStep("collect", "done", 1.0)],
        [TimedStep("send", "failed", 2.0), TimedStep("collect", "done", 3.0)],
    )
    found = compared_steps(old, new)
    assert [(step.name, step.before_s, step.after_s) for step in found] == [("send", None, 2.0), ("collect", 1.0, 3.0)]
