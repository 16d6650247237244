"""Values of the chart and settings of the processes: one name, one unit, one default; and what other files say too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml
from pydantic.alias_generators import to_camel

from tests.chart.rendering import CHART, NotRendered, environment, named, pod_specs, rendered
from tools.chart_values import Uncommented, read_values
from tools.generate_chart_schema import schema
from wakeboard import __version__
from wakeboard.board.access import Permission
from wakeboard.board.access.reviews import attributes
from wakeboard.board.settings import BoardSettings, read_board_settings
from wakeboard.settings import Settings, read_settings
from wakeboard_operator.settings import OperatorSettings, read_operator_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX = "WAKEBOARD_"
LINK = "https://logs.example.com/?run={run_uuid}"
MAINTENANCE = {
    "misfire_grace_seconds": 301,
    "history_retention_days": 31,
    "idempotency_key_retention_days": 8,
    "dead_retention_days": 9,
    "effect_retention_days": 12,
    "log_retention_days": 14,
    "audit_retention_days": 500,
}
WORKER: Mapping[str, Any] = {
    "handlers": ["app.jobs", "app.more"],
    "queues": ["mail", "reports"],
    "concurrency": 7,
    "threads": 3,
    "lease_seconds": 30,
    "grace_seconds": 0,
    "poll_seconds": 0.25,
    "drain_lookahead_seconds": 0,
    "max_lifetime_seconds": 86_400,
    "max_timeout_seconds": 2_678_400,
    "max_workers": 4,
    "http_allowed_hosts": ["api.example.com", "*.example.org"],
    "http_allowed_private_networks": ["10.0.0.0/8"],
    "http_max_body_bytes": 10_485_760,
    "run_logs": "failed",
    "run_log_level": "warning",
    "run_log_max_bytes": 65_536,
    "commands": {
        "backup": {"argv": ["/usr/bin/pg_dump", "--file={path}", "a, b"], "env": ["PGPASSWORD"], "literal": True}
    },
    "secrets_dir": "/run/secrets/mine",
}
OPERATOR: Mapping[str, Any] = {
    "source": "k8s:blue",
    "namespaces": ["shop", "billing"],
    "tenancy": [{"namespaces": ["billing"], "queues": ["billing"], "jobTypes": ["*"]}],
    "adopt_foreign_schedules": True,
    "reconcile_seconds": 12.5,
    "status_writes_per_second": 0.5,
    "status_min_interval_seconds": 0,
    "status_errors": "type-only",
    "leader_lease_seconds": 20,
    "watch_worker_pods": False,
}
BOARD: Mapping[str, Any] = {
    "board_name": "Staging",
    "board_login": "proxy",
    "board_hosts": ["jobs.example.com", "jobs.internal"],
    "board_origin": "https://jobs.example.com",
    "board_prefix": "/tools/wakeboard",
    "board_watch_origins": ["https://app.example.com"],
    "board_proxy_user_header": "x-auth-user",
    "board_proxy_groups_header": "x-auth-groups",
}
BOARD_SET_BY_THE_CHART: Mapping[str, Any] = {
    "board_bind": "*",
    "board_port": 8686,
    "board_proxy_secret_file": "/etc/wakeboard/login/secret",
    "board_watch_secrets_file": "/etc/wakeboard/watch/secrets",
}
# The connection string of a Secret, the file of another login, and what only a board outside of a cluster needs.
BOARD_OTHERS = {"board_acting_dsn", "board_tokens_file", "board_api_server", "board_api_server_ca_file"}
SET_BY_THE_CHART = {
    "alerts_file",
    "board_url",
    "dsn",
    "limits_file",
    "pool",
    "operator_port",
    "read_dsn",
    "ready_file",
    "release",
}
JOBS: Mapping[str, Any] = {
    "jobs_namespaces": ["shop", "billing"],
    "jobs_allow_overrides": True,
    "jobs_per_second": 12.5,
    "jobs_start_seconds": 60,
    "jobs_ttl_seconds": 7200,
}
JOBS_VALUES = {to_camel(name.removeprefix("jobs_")): value for name, value in JOBS.items()}
OF_JOBS = JOBS.keys() | {"jobs_api_server", "jobs_ca_file", "jobs_token_file"}  # the last three: outside of a cluster
OF_MIGRATIONS = {"operator_role", "worker_role", "client_role", "viewer_role", "scaler_role", "scheduler_role"}
OF_ADMINISTRATORS = {"owner_role"}  # of the database, who run `wakeboard migrate --print-roles`


def camel(values: Mapping[str, Any]) -> dict[str, Any]:
    return {to_camel(name): value for name, value in values.items()}


@pytest.fixture
def documents() -> list[dict[str, Any]]:
    return rendered(
        {
            "worker": camel(WORKER),
            "pools": {"mail": {}, "stay": {"mode": "forever"}, "boxes": {"jobs": {"enabled": True, **JOBS_VALUES}}},
            "operator": camel(OPERATOR),
            "board": {
                "enabled": True,
                "proxySecretName": "shared",
                "watchSecretName": "run-token-secrets",
                **camel({name.removeprefix("board_"): value for name, value in BOARD.items()}),
            },
            "maintenance": camel(MAINTENANCE),
            "log": {"format": "console", "level": "debug", "link": LINK},
            "database": {
                "existingSecret": "store",
                "listen": False,
                "preparedStatements": True,
                "roles": {"operator": "wb_o", "worker": "wb_w", "client": "wb_c", "viewer": "wb_v", "scaler": "wb_s"}
                | {"scheduler": "wb_a"},
            },
        }
    )


def set_in(monkeypatch: pytest.MonkeyPatch, container: dict[str, Any]) -> None:
    for name, value in environment(container).items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("pod", ["CronJob/wakeboard-wake-mail", "Deployment/wakeboard-worker-stay"])
def test_every_setting_of_a_worker_can_be_set_and_arrives(
    documents: list[dict[str, Any]], pod: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_in(monkeypatch, dict(pod_specs(documents))[pod]["containers"][0])
    arrived = read_settings().model_dump()
    others = {"listen": False, "prepared_statements": True, "log_format": "console", "log_level": "debug"}
    others |= {"log_link": LINK}
    expected = {**WORKER, **MAINTENANCE, **others}
    assert {name: arrived[name] for name in expected} == expected
    assert arrived["pool"] == pod.rpartition("-")[2]
    given = expected.keys() | SET_BY_THE_CHART & arrived.keys()
    assert Settings.model_fields.keys() == given | OF_MIGRATIONS | OF_ADMINISTRATORS | OF_JOBS


def test_every_setting_of_a_pool_with_jobs_can_be_set_and_arrives(
    documents: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_in(monkeypatch, dict(pod_specs(documents))["Deployment/wakeboard-worker-boxes"]["containers"][0])
    arrived = read_settings().model_dump()
    assert {name: arrived[name] for name in JOBS} == JOBS


def test_the_defaults_of_jobs_are_the_defaults_of_settings() -> None:
    defaults = read_settings().model_dump()
    (worker,) = (value for value in read_values() if value.path == ("worker",))
    found = {each.path[-1]: each.default for each in worker.leaves() if each.path[1] == "jobs"}
    assert {name: found[to_camel(name.removeprefix("jobs_"))] for name in JOBS} == {
        name: defaults[name] for name in JOBS
    }


def test_every_setting_of_an_operator_can_be_set_and_arrives(
    documents: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_in(monkeypatch, dict(pod_specs(documents))["Deployment/wakeboard-operator"]["containers"][0])
    arrived = read_operator_settings().model_dump(by_alias=True)
    others = {"prepared_statements": True, "log_format": "console", "log_level": "debug"}
    others |= {"log_link": LINK}
    expected = {**OPERATOR, **MAINTENANCE, **others, "operator_port": 8080, "release": "jobs/wakeboard"}
    assert {name: arrived[name] for name in expected} == expected
    own = OperatorSettings.model_fields.keys() - Settings.model_fields.keys()
    assert own == OPERATOR.keys() | SET_BY_THE_CHART & own


def test_every_setting_of_a_board_can_be_set_and_arrives(
    documents: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_in(monkeypatch, dict(pod_specs(documents))["Deployment/wakeboard-board"]["containers"][0])
    arrived = read_board_settings().model_dump()
    expected = {**BOARD, **BOARD_SET_BY_THE_CHART, "listen": False}
    assert {name: arrived[name] for name in expected} == expected
    own = BoardSettings.model_fields.keys() - Settings.model_fields.keys()
    assert own == BOARD.keys() | BOARD_SET_BY_THE_CHART.keys() | BOARD_OTHERS


def test_the_boards_roles_and_their_page_name_every_permission() -> None:
    asked = {f"jobschedules/{attributes(permission, None)['subresource']}" for permission in Permission}
    role = named(
        rendered({"board": {"enabled": True, "login": "kubernetes"}}), "ClusterRole", "wakeboard-board-act:jobs"
    )
    assert {resource for rule in role["rules"] for resource in rule["resources"]} == asked
    page = (CHART.parents[1] / "docs" / "production.md").read_text()
    assert set(re.findall(r"\| `(jobschedules/\w+)` \|", page)) == asked


def test_an_open_board_needs_a_login_even_without_the_schema() -> None:
    for part in ("service", "ingress", "httpRoute"):
        with pytest.raises(NotRendered, match=r"so it needs a login: set board\.login to tokens, kubernetes or proxy"):
            rendered({"board": {"enabled": True, part: {"enabled": True}}}, "--skip-schema-validation")


def test_the_roles_arrive_at_migrations(documents: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    set_in(monkeypatch, dict(pod_specs(documents))["Deployment/wakeboard-operator"]["initContainers"][0])
    arrived = read_settings()
    assert [getattr(arrived, name) for name in sorted(OF_MIGRATIONS)] == [
        "wb_c",
        "wb_o",
        "wb_s",
        "wb_a",
        "wb_v",
        "wb_w",
    ]


def test_the_chart_writes_no_unknown_variable(documents: list[dict[str, Any]]) -> None:
    known = {PREFIX + name.upper() for name in OperatorSettings.model_fields.keys() | BoardSettings.model_fields.keys()}
    known |= {"WAKEBOARD_POD_UID"}  # a fact of the pod, from the downward API
    for pod, spec in pod_specs(documents):
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            ours = {each["name"] for each in container.get("env", []) if each["name"].startswith(PREFIX)}
            assert ours <= known, pod


def test_the_defaults_of_values_are_the_defaults_of_settings() -> None:
    # A pod's log is not a terminal, and only `kubectl port-forward` reaches the loopback address of a pod.
    differ = {"log_format": "json", "board_login": "none"}
    board_defaults = {name: value for name, value in read_board_settings().model_dump().items() if name in BOARD}
    defaults = read_operator_settings().model_dump() | board_defaults | differ
    seen: set[str] = set()
    for value in (leaf for top in read_values() for leaf in top.leaves()):
        group, name = value.path[0], value.path[-1]
        for setting, default in defaults.items():
            prefix = {"log": "log_", "board": "board_"}.get(group, "")
            wanted = setting.startswith(prefix) and to_camel(setting.removeprefix(prefix)) == name
            if (
                wanted
                and group in {"worker", "operator", "board", "maintenance", "database", "log"}
                and len(value.path) == 2
            ):
                assert value.default == default, value.name
                seen.add(setting)
    others = SET_BY_THE_CHART | OF_MIGRATIONS | OF_ADMINISTRATORS | OF_JOBS
    expected = (OperatorSettings.model_fields.keys() | BOARD.keys()) - others
    assert seen == expected | {"board_url"}


def test_behind_pgbouncer_workers_do_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rendered({"database": {"url": "postgresql://pooler/db", "pgbouncer": True}})
    set_in(monkeypatch, dict(pod_specs(found))["CronJob/wakeboard-wake-default"]["containers"][0])
    assert (read_settings().listen, read_settings().prepared_statements) == (False, False)


def test_a_pool_overrides_the_defaults_also_with_an_empty_value() -> None:
    below: dict[str, Any] = {
        "graceSeconds": 9,
        "suspend": True,
        "handlers": ["app"],
        "resources": {"limits": {"memory": "1Gi"}},
    }
    above: dict[str, Any] = {
        "graceSeconds": 0,
        "suspend": False,
        "handlers": [],
        "resources": {"requests": {"cpu": "1"}},
    }
    found = rendered({"worker": below, "pools": {"default": above, "other": {}}})
    pods = dict(pod_specs(found))
    mine, other = (pods[f"CronJob/wakeboard-wake-{name}"]["containers"][0] for name in ("default", "other"))
    assert environment(mine)["WAKEBOARD_GRACE_SECONDS"] == "0"
    assert "WAKEBOARD_HANDLERS" not in environment(mine)
    assert environment(other)["WAKEBOARD_HANDLERS"] == "app"
    assert mine["resources"]["limits"]["memory"] == "1Gi"
    assert (mine["resources"]["requests"]["cpu"], other["resources"]["requests"]["cpu"]) == ("1", "50m")
    assert named(found, "CronJob", "wakeboard-wake-default")["spec"]["suspend"] is False


ROOT = Path(__file__).resolve().parents[2]
Rule = tuple[tuple[str, ...], ...]


def rules(role: dict[str, Any]) -> set[Rule]:
    parts = ("apiGroups", "resources", "resourceNames", "verbs")
    return {tuple(tuple(sorted(rule.get(part, []))) for part in parts) for rule in role["rules"]}


def test_the_operators_rights_are_those_of_deploy() -> None:
    by_hand = yaml.safe_load_all((ROOT / "deploy" / "rbac.yaml").read_text())
    wanted = {rule for each in by_hand if each["kind"] == "ClusterRole" for rule in rules(each)}
    assert rules(named(rendered({}), "ClusterRole", "wakeboard-operator:jobs")) == wanted


def test_the_chart_installs_this_release() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__


def test_every_value_has_a_comment_and_a_place_in_the_schema() -> None:
    properties = schema()["properties"]
    for value in (leaf for top in read_values() for leaf in top.leaves()):
        place: dict[str, Any] = {"properties": properties}
        for word in value.path:
            place = place["properties"][word]
        assert place["description"], value.name


def test_a_value_without_a_comment_stops_the_generators(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("# -- A section --\n\n# Said.\nfirst: 1\nsecond: 2\n")
    monkeypatch.setattr("tools.chart_values.CHART", tmp_path)
    with pytest.raises(Uncommented, match="second"):
        read_values()


def test_every_image_of_the_chart_is_named_and_can_be_built() -> None:
    files = [CHART / "values.yaml", *CHART.glob("templates/**/*.tpl"), *CHART.glob("templates/**/*.yaml")]
    images = {name for file in files for name in re.findall(r"repository: ([\w/-]+)", file.read_text())}
    ours = {name.removeprefix("wakeboard/") for name in images if name.startswith("wakeboard/")}
    assert ours == {"operator", "worker", "board", "jobs"}
    listed = yaml.safe_load(yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]["artifacthub.io/images"])
    assert {each["image"].rpartition(":")[0] for each in listed} == images
    targets = set(re.findall(r"^FROM \S+ AS (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    assert ours <= targets
    for page in ("install", "worker-image"):
        assert ours <= set(re.findall(r"docker build --target (\S+)", (ROOT / "docs" / f"{page}.md").read_text())), page


def templates_in(value: Any) -> Iterator[dict[str, Any]]:
    """The metadata of each Job and pod that an object makes."""
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    for name, inner in fields.items():
        if name in {"template", "jobTemplate", "jobTargetRef"} and "spec" in inner:
            yield inner.get("metadata", {})
        yield from templates_in(inner)


def test_common_labels_and_annotations_are_on_every_object_job_and_pod() -> None:
    common = {"commonAnnotations": {"example.com/cost": "42"}, "commonLabels": {"team": "platform"}}
    pools = {"wake": {}, "stay": {"mode": "forever"}, "boxes": {"jobs": {"enabled": True, "allNamespaces": True}}}
    values = {"pools": pools, "board": {"enabled": True}, "migrations": {"mode": "hook"}, **common}
    for document in rendered(values):
        for metadata in (document["metadata"], *templates_in(document.get("spec", {}))):
            where = f"{document['kind']}/{document['metadata']['name']}"
            assert metadata.get("annotations", {}).get("example.com/cost") == "42", where
            assert metadata["labels"]["team"] == "platform", where
