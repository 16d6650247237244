from __future__ import annotations

import time
from typing import Any, Literal

import pytest

from wakeboard.conformance.credential_texts import LEFT_ALONE, MASKED
from wakeboard.text.redact import MARGIN, redact


@pytest.mark.parametrize(("text", "shown"), MASKED)
def test_what_looks_like_a_credential_is_masked(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_ordinary_errors_stay_as_they_are(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("text", [text for text, _ in MASKED])
def test_masking_twice_changes_nothing(text: str) -> None:
    assert redact(redact(text)) == redact(text)


HOSTILE = [
    "://",
    "://:",
    "://a:",
    "://a1",
    "://" + "a1" * 200,
    "pass",
    "DB_PASS: a ",
    "a_key: a ",
    "password=",
    "password: ",
    "password: " + "none " * 200,
    "token: a." + "a." * 500,
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN ",
    "Bearer ",
    "Bearer " + "=" * 4000 + " ",
    "--token ",
    "--a-",
    "<token>",
    "<a",
    "token','value':",
    "token)=(",
    "eyJaaaaaaaa.",
    "-eyJaaaaaaaa",
    "-SG.",
    "'",
    '"',
    "\\",
]


def cpu_s(text: str, longest: int) -> float:
    """The least CPU time of three."""
    times: list[float] = []
    for _ in range(3):
        began = time.process_time()
        redact(text, longest)
        times.append(time.process_time() - began)
    return min(times)


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_costs_little_more_than_ordinary_text(piece: str) -> None:
    """A pattern that looks ahead from each of its starts would need hundreds of times as long."""
    length = 30_000
    ordinary = "pass 3 the secret token -- key: bearer basic <token> postgres://db/x eyjafjalla "
    hostile = (piece * length)[:length]
    assert cpu_s(hostile, length) < 10 * cpu_s((ordinary * length)[:length], length)


@pytest.mark.parametrize("keep", ["start", "end", "both"])
def test_only_what_is_shown_is_searched(keep: Literal["start", "end", "both"]) -> None:
    read: list[int] = []

    class Counted(str):
        __slots__ = ()

        def lower(self) -> str:
            read.append(len(self))
            return super().lower()

        def __getitem__(self, part: Any) -> Counted:
            return Counted(super().__getitem__(part))

    shown = redact(Counted("://" * 300_000), 1_000, keep)
    assert len(shown) <= 1_000
    assert sum(read) <= 1_000 + 2 * MARGIN


def test_a_credential_at_a_cut_is_masked() -> None:
    for before in range(300):
        text = "x" * before + " password=hunter2hunter2 " + "y" * 10_000 + " password=hunter2hunter2 " + "x" * before
        assert "hunter2" not in redact(text, 300), before


@pytest.mark.parametrize("keep", ["start", "end", "both"])
@pytest.mark.parametrize("longest", [1_000, 30_000])
@pytest.mark.parametrize(
    "form",
    [
        "password={}",
        "token: '{}'",
        r'"{{\"token\": \"{}\"}}"',
        "Cookie: sid={}",
        "Authorization: Bearer {}",
        "sent Bearer {}",
        "mysql --password {}",
        "<token>{}</token>",
        "https://hooks.slack.com/services/{}",
        "https://user:{}@host/path",
        "https://{}@host/path",
        "ghp_{}",
        "hvs.{}",
        "eyJ0eXAi.{}",
    ],
)
def test_no_part_of_a_long_credential_is_shown(form: str, longest: int, keep: Literal["start", "end", "both"]) -> None:
    text = f"before {form.format('aB3x' * 5_000)}\nafter"
    shown = redact(text, longest, keep)
    assert "aB3x" not in shown
    assert len(shown) <= longest


@pytest.mark.parametrize("keep", ["start", "end", "both"])
def test_a_long_word_without_a_credential_is_shown(keep: Literal["start", "end", "both"]) -> None:
    """Where its beginning is not shown, only as much is masked as a credential may be long."""
    assert redact("x" * 40_000, 16_000, keep).count("x") > 16_000 - MARGIN - 100
