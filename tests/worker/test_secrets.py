"""Secrets are named in payloads, resolved in the worker, and masked in everything that users can read."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeboard.errors import Discard
from wakeboard.secrets import Secrets
from wakeboard.settings import read_settings
from wakeboard.testing import run_handler
from wakeboard_worker.builtin.command import Command
from wakeboard_worker.builtin.http import Http

if TYPE_CHECKING:
    from pathlib import Path

    from tests.worker.conftest import Store
    from tests.worker.http_receiver import Receiver
    from wakeboard.testing import Outcome

KEY = {"$secret": "key"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of secrets as Kubernetes mounts it: links to files in a folder of the day."""
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "key").write_text("hush-hush\n")
    (tmp_path / "key").symlink_to("..data/key")
    return tmp_path


def test_a_secret_is_a_file_without_its_last_newline(folder: Path) -> None:
    found = Secrets(str(folder)).resolve({"a": [KEY, 1], "b": {"c": KEY}, "d": None})
    assert found == {"a": ["hush-hush", 1], "b": {"c": "hush-hush"}, "d": None}


def test_a_prefix_precedes_the_secret(folder: Path) -> None:
    secrets = Secrets(str(folder))
    assert secrets.resolve({**KEY, "prefix": "Bearer "}) == "Bearer hush-hush"
    assert secrets.redact("Bearer hush-hush") == "Bearer [secret key]"


def test_a_secret_without_a_file_is_read_from_a_variable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEBOARD_SECRET_API_KEY_2", "of the variable")
    monkeypatch.setenv("WAKEBOARD_SECRET_KEY", "of the variable")
    assert Secrets("").resolve({"$secret": "api-key.2"}) == "of the variable"
    assert Secrets(str(folder)).resolve({"$secret": "api-key.2"}) == "of the variable"
    assert Secrets(str(folder)).resolve(KEY) == "hush-hush"  # a file goes first


@pytest.mark.parametrize("name", ["../key", "..", ".", "/etc/passwd", "a/b", "..data/key", "", "a" * 300, "a\0b", "é"])
def test_the_name_of_a_secret_is_not_a_path(folder: Path, name: str) -> None:
    with pytest.raises(Discard, match="the name of a secret may contain letters"):
        Secrets(str(folder)).resolve({"$secret": name})


@pytest.mark.parametrize("wrong", [{"$secret": 1}, {"$secret": "key", "more": 1}, {"$secret": "key", "prefix": 1}])
def test_other_forms_of_a_secret_are_refused(folder: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(Discard, match="write a secret as"):
        Secrets(str(folder)).resolve(wrong)


def test_a_missing_secret_is_reported_by_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME_KEY", "not ours")
    (folder / "none").write_text("\n")
    (folder / "binary").write_bytes(b"\xff\xfe")
    for name, message in [
        ("HOME_KEY", "mount a file of that name, or set WAKEBOARD_SECRET_HOME_KEY"),
        ("..data", "letters"),
        ("none", "'none' is empty"),
        ("binary", "'binary' is not UTF-8 text"),
    ]:
        with pytest.raises(Discard, match=message):
            Secrets(str(folder)).resolve({"$secret": name})


@given(st.text(min_size=1, max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_a_secret_is_masked_in_any_escaping(secret: str, before: str, after: str) -> None:
    secrets = Secrets("")
    secrets.hide(secret, "s")
    for written in (secret, json.dumps(secret)[1:-1], quote(secret, safe="")):
        shown = secrets.redact(before + written + after)
        assert "[secret s]" in shown
        assert [piece for piece in shown.split("[secret s]") if secret in piece] == []


@given(st.text(alphabet="abc", min_size=2, max_size=12), st.data())
def test_a_part_of_a_secret_at_a_cut_is_masked(secret: str, data: st.DataObject) -> None:
    secrets = Secrets("")
    secrets.hide(secret, "s")
    kept = data.draw(st.integers(1, len(secret) - 1))
    assert secrets.redact(secret[-kept:] + "xyz", "end", was_cut=True) == "xyz"
    assert secrets.redact("xyz" + secret[:kept], was_cut=True) == "xyz"


def test_each_line_of_a_multi_line_secret_is_masked() -> None:
    secrets = Secrets("")
    secrets.hide("-----BEGIN-----\nMIIEvgIBADANBg\n-----END-----", "pem")
    assert secrets.redact("bad key: MIIEvgIBADANBg!") == "bad key: [secret pem]!"


def test_all_of_overlapping_secrets_is_masked() -> None:
    secrets = Secrets("")
    secrets.hide("one-two", "a")
    secrets.hide("two-three", "b")
    assert secrets.redact("(one-two-three)") == "([secret a])"
    assert secrets.redact("ONE-TWO two-three") == "[secret a] [secret b]"


def cpu_s(secret: str, text: str, keep: Literal["start", "end"]) -> float:
    """The least CPU time of three to mask a text that was cut."""
    secrets, times = Secrets(""), list[float]()
    secrets.hide(secret, "s")
    for _ in range(3):
        began = time.process_time()
        secrets.redact(text, keep, was_cut=True)
        times.append(time.process_time() - began)
    return min(times)


@pytest.mark.parametrize("keep", ["start", "end"])
@pytest.mark.parametrize("piece", ["a", "ab", "MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQC7+/\n"])
def test_a_secret_costs_time_in_proportion_to_its_length(piece: str, keep: Literal["start", "end"]) -> None:
    """A search that compares each beginning with each end would need 60 times as long."""
    short, long = (cpu_s("=" + piece * (length // len(piece)) + "=", piece * 9_000, keep) for length in (1_000, 8_000))
    assert long < 20 * short


# -- through handlers --------------------------------------------------------------------------------------------------


async def sent(folder: Path, payload: Any) -> Outcome:
    """What becomes of an `http` run on loopback."""
    http = Http(
        read_settings(
            http_allowed_hosts="127.0.0.1", http_allowed_private_networks="127.0.0.1/32", secrets_dir=str(folder)
        )
    )
    outcome = await run_handler(http, payload)
    await http.close()
    return outcome


@pytest.mark.anyio
async def test_http_sends_secrets_and_never_shows_them(folder: Path, receiver: Receiver) -> None:
    body = {"body": {"token": KEY, "others": [KEY]}, "headers": {"X-Key": KEY}}
    outcome = await sent(folder, {"url": receiver.url("/echo"), **body})
    assert json.loads(receiver.bodies[0]) == {"token": "hush-hush", "others": ["hush-hush"]}
    assert receiver.seen[0].headers["X-Key"] == "hush-hush"
    assert outcome.result["body"] == '{"token": "[secret key]", "others": ["[secret key]"]}[secret key]'


@pytest.mark.anyio
async def test_the_path_of_a_secret_url_is_masked(folder: Path, receiver: Receiver) -> None:
    (folder / "hook").write_text(receiver.url("/path/T000/very%20secret?a=b"))
    outcome = await sent(folder, {"url": {"$secret": "hook"}})
    assert str(outcome.error) == "the server answered 404: there is no [secret of the url]"


@pytest.mark.anyio
@pytest.mark.parametrize("code", [0, 3])
async def test_command_gets_secrets_and_never_shows_them(folder: Path, code: int) -> None:
    tell = [sys.executable, "-c", f"import os; print(os.environ['KEY']); raise SystemExit({code})"]
    settings = read_settings(commands=json.dumps({"tell": {"argv": tell, "env": ["KEY"]}}), secrets_dir=str(folder))
    outcome = await run_handler(Command(settings), {"command": "tell", "env": {"KEY": KEY}})
    text = outcome.returned["output"] if code == 0 else str(outcome.error)
    assert "[secret key]" in text
    assert "hush-hush" not in text


def test_the_database_and_the_log_contain_no_secret(store: Store, folder: Path) -> None:
    tell = [sys.executable, "-c", "import os, sys; print(os.environ['KEY']); sys.exit(3)"]
    payload = json.dumps({"command": "tell", "env": {"KEY": KEY}})
    (run,) = store.enqueue("command", payload, max_attempts=1)
    worker = store.wake(
        commands=json.dumps({"tell": {"argv": tell, "env": ["KEY"]}}), secrets_dir=str(folder), log_level="debug"
    )
    assert "[secret key]" in store.run(run)["last_error"]
    assert "hush-hush" not in str(store.run(run))
    assert "hush-hush" not in str(store.watcher.rows("select * from wakeboard.job_attempts"))
    assert "hush-hush" not in worker.log
