"""Files with limits: each mistake is named with its line and with what to write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wakeboard.errors import InvalidSchedule
from wakeboard.limits.file import load_limit_file
from wakeboard.manifests import declared_limits, load_folder

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "apiVersion: wakeboard.dev/v1alpha1\nkind: Limits\n"
VALID = HEAD + "limits:\n  openai-api: {rate: 60/minute, burst: 10, atOnce: 5}\n  printer: {atOnce: 2}\n"


def test_limits_are_read(tmp_path: Path):
    (tmp_path / "limits.yaml").write_text(VALID)
    assert load_limit_file(tmp_path / "limits.yaml").rows() == [
        {"key": "openai-api", "max_running": 5, "rate_count": 60, "rate_period_s": 60, "rate_burst": 10},
        {"key": "printer", "max_running": 2, "rate_count": None, "rate_period_s": None, "rate_burst": None},
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", ':1: these are not limits; write "apiVersion: wakeboard.dev/v1alpha1" and "kind: Limits"'),
        (HEAD, ":1: limits is missing; write a mapping of keys to values, for example"),
        (HEAD + "limits: [a]\n", ":3: limits is "),
        (HEAD + "limits:\n  a: {rate: 0/minute}\n", ":4: limits.a.rate is 0/minute: the rate has 0 runs: write 1 to"),
        (HEAD + "limits:\n  a: {rate: 60}\n", ":4: limits.a.rate is 60; write a number of runs and a time, such as"),
        (HEAD + "limits:\n  a: {rate: 60/fortnight}\n", ":4: limits.a.rate is 60/fortnight: write a number of runs"),
        (HEAD + "limits:\n  a: {rate: none}\n", ":4: limits.a.rate is none: write a number of runs and a time"),
        (HEAD + "limits:\n  a: {rate: 1/365d}\n", "write 1 second to 31 days"),
        (HEAD + "limits:\n  a: {rate: 1/s, burst: 5000000}\n", "burst is 5000000; write a whole number from 1 to 1000"),
        (HEAD + "limits:\n  a: {rate: 1/s, burst: 0}\n", ":4: limits.a.burst is 0; write a whole number from 1 to"),
        (HEAD + "limits:\n  a: {burst: 5}\n", ":4: limits.a has burst without rate; write for example"),
        (HEAD + "limits:\n  a: {}\n", ":4: limits.a has neither rate nor atOnce"),
        (HEAD + "limits:\n  a: {atonce: 5}\n", ":4: limits.a.atonce is not known; did you mean atOnce?"),
        (HEAD + "limits:\n  a: {atOnce: 1}\n  a: {atOnce: 2}\n", ":5: a is also set in line 4; remove one of them"),
        (HEAD + "limits:\n  schedule:1: {atOnce: 1}\n", "limits has the key 'schedule:1'; write at most 128 letters"),
        (VALID + "---\n" + VALID, "this is a second document; put all limits into the first"),
    ],
)
def test_each_mistake_is_named_with_its_line(tmp_path: Path, text: str, sentence: str):
    (tmp_path / "limits.yaml").write_text(text)
    with pytest.raises(InvalidSchedule) as refused:
        load_limit_file(tmp_path / "limits.yaml")
    assert sentence in str(refused.value)


def test_a_folder_declares_its_limits_and_a_bad_file_declares_nothing(tmp_path: Path):
    assert declared_limits(load_folder(tmp_path), removes=False) is None
    nothing = declared_limits(load_folder(tmp_path), removes=True)
    assert nothing is not None
    assert not nothing.rows()
    (tmp_path / "limits.yaml").write_text(VALID)
    assert len((declared_limits(load_folder(tmp_path), removes=True) or nothing).rows()) == 2
    (tmp_path / "more.yaml").write_text(VALID)
    both = load_folder(tmp_path)
    assert "limits are also declared in" in both.problems[0]
    assert declared_limits(both, removes=True) is None
    (tmp_path / "more.yaml").unlink()
    for bad in (VALID.replace("60/minute", "60/minuet"), "kind: [\n"):
        (tmp_path / "limits.yaml").write_text(bad)
        assert declared_limits(load_folder(tmp_path), removes=True) is None
