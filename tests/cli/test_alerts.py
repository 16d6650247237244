"""`wakeboard alerts` lists what is wrong, and `wakeboard alerts check` what a file with rules says."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore

RULES = """
apiVersion: wakeboard.dev/v1alpha1
kind: AlertRules
spec:
  rules:
    - {name: billing, failures: 10, within: 60m, where: {queue: billing}, severity: critical}
    - {name: silent, noSuccessFor: 26h, where: {schedule: billing/*}}
"""


def test_open_alerts_are_listed_the_worst_first(cli: Cli, sample: SampleStore):
    assert cli("alerts").out == "no alert is open.\n"
    assert cli("alerts", "--all").out == "there are no alerts yet.\n"
    sample.add_alert(["send_mail: Timeout (3)"])
    sample.add_alert([], rule="worse", severity="critical")

    heading, worst, other = cli("alerts").cells

    assert heading == "RULE SEVERITY OPENED RESOLVED SUMMARY"
    assert worst.startswith("worse critical")
    assert other.startswith("dead warning")
    assert other.endswith("- 3 runs are dead: send_mail: Timeout (3)")


def test_an_alert_says_for_how_long_it_is_silenced(cli: Cli, sample: SampleStore):
    sample.add_alert([])
    assert cli("alerts", "silence", "dead", "--for", "1h").out == "dead is silenced for 1h.\n"
    assert "[silenced for 60 min] 3 runs are dead" in " ".join(cli("alerts").cells)
    assert cli("alerts", "silence", "dead", "--until-fixed").out == "dead is silenced until its alert is resolved.\n"
    sample.sql("update wakeboard.alert_rules set evaluated_at = now() - interval '4 minutes'")
    listed = " ".join(cli("alerts").cells)
    assert "[silenced until it is resolved] [no process evaluates its rule any more] 3 runs are dead" in listed
    assert cli("alerts", "unsilence", "dead").out == "dead is no longer silenced.\n"
    assert "silenced" not in cli("alerts").out
    assert "the name of a rule that a process evaluates" in cli("alerts", "silence", "ded", "--for", "1h").err


def test_a_file_with_rules_is_checked_without_a_database(bare_cli: Cli, tmp_path: Path):
    (tmp_path / "alerts.yaml").write_text(RULES)
    assert bare_cli("alerts", "check", "alerts.yaml").lines == [
        "billing: critical, failures 10, within 1h, queue billing",
        "silent: warning, noSuccessFor 26h, schedule billing/*",
        "alerts.yaml: 2 rules, no problems.",
    ]
    text = RULES.replace("severity: critical", "severity: critical, receivers: [team, me]")
    slack = "slack: {url: {$secret: hook}}"
    beats = "  heartbeats: [{name: watchdog, url: {$secret: beat}}]\n"
    (tmp_path / "alerts.yaml").write_text(
        f"{text}  receivers: [{{name: team, {slack}}}, {{name: me, {slack}}}]\n{beats}"
    )
    lines = bare_cli("alerts", "check", "alerts.yaml").lines
    assert lines[0].endswith(", queue billing, to team and me")
    assert lines[-2:] == [
        "Secrets of the process that delivers: hook, beat.",
        "alerts.yaml: 2 rules, 2 receivers, 1 heartbeat, no problems.",
    ]
    (tmp_path / "alerts.yaml").write_text(RULES.replace("60m", "sixty"))
    result = bare_cli("alerts", "check", "alerts.yaml")
    assert result.code == 1
    assert 'alerts.yaml:6: spec.rules.0.within is "sixty"; write a duration' in result.err


def test_a_test_message_that_failed_leaves_no_dead_run(cli: Cli, sample: SampleStore):
    delivery = Thread(target=fail_the_delivery, args=(sample,))
    delivery.start()
    result = cli("alerts", "test", "team")
    delivery.join()
    assert result.code == 1
    assert result.out == "Run 1 delivers it. Waiting for at most 90 s.\n"
    served, failed = result.err.splitlines()
    assert served == (
        "wakeboard: No worker has served the queue default in the last 10 minutes."
        " Without one, the leading operator delivers, if it has the alerts file."
    )
    assert "team did not get the notification (run 1): no receiver 'team'" in failed
    assert sample.value("select count(*) from wakeboard.job_runs") == 0


def test_a_test_message_to_an_unknown_receiver_is_refused_at_once(
    cli: Cli, sample: SampleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "alerts.yaml"
    file.write_text(f"{RULES}  receivers: [{{name: team, slack: {{url: 'https://example.com/hook'}}}}]\n")
    monkeypatch.setenv("WAKEBOARD_ALERTS_FILE", str(file))
    result = cli("alerts", "test", "taem")
    assert result.err == f"wakeboard: {file} has no receiver 'taem'; its receivers: team.\n"
    assert sample.value("select count(*) from wakeboard.job_runs") == 0


def fail_the_delivery(sample: SampleStore) -> None:
    for _ in range(1000):
        if runs := sample.sql("select id from wakeboard.job_runs, pg_sleep(0.02)"):
            sample.fail(runs[0][0], "no receiver 'team'", outcome="discarded")
            return
