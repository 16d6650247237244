"""Prints charts/wakeboard/values.schema.json, by which Helm refuses wrong values before it renders, above all typos.

Types come from the defaults in values.yaml, descriptions from its comments, and bounds from the settings of the same
name. This module adds what these sources do not contain.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic.alias_generators import to_camel

from tools.chart_values import Value, read_values
from wakeboard.board.settings import BoardSettings
from wakeboard_operator.settings import OperatorSettings
from wakeboard_operator.tenancy import Tenant

if TYPE_CHECKING:
    from collections.abc import Mapping

Schema: TypeAlias = dict[str, Any]

BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "maxLength", "pattern", "minItems")
SETTING_GROUPS: Final = {
    "operator": "",
    "worker": "",
    "maintenance": "",
    "database": "",
    "log": "log_",
    "board": "board_",
}
"""Groups of values that hold settings, and how those settings' names begin."""

TEXT: Final[Schema] = {"type": "string"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
PORT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 65535}
TEXTS: Final[Schema] = {"type": "array", "items": TEXT}
NAMES: Final[Schema] = {"type": "array", "items": {"type": "string", "minLength": 1}, "uniqueItems": True}
OBJECTS: Final[Schema] = {"type": "array", "items": {"type": "object"}}
NAMED: Final[Schema] = {"type": "array", "items": {"type": "object", "required": ["name"]}}
MAP_OF_TEXTS: Final[Schema] = {"type": "object", "additionalProperties": TEXT}
ANYTHING: Final[Schema] = {"type": "object"}
TEXT_MAPS: Final = re.compile("(?i)(annotations|labels|nodeSelector)$")  # names of maps of texts

BY_NAME: Final[Mapping[str, Schema]] = {  # the last word of a value's path
    "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "extraEnv": NAMED,
    "extraObjects": {"type": "array", "items": {"type": ["object", "string"]}},
    "initContainers": NAMED,
    "ipFamilies": {"type": "array", "items": {"enum": ["IPv4", "IPv6"]}, "maxItems": 2, "uniqueItems": True},
    "ipFamilyPolicy": {"enum": ["", "SingleStack", "PreferDualStack", "RequireDualStack"]},
    "interval": {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"},
    "podSecurityContext": ANYTHING,
    "podTemplate": ANYTHING,
    "ports": {"type": "array", "items": PORT, "minItems": 1},
    "pullSecrets": NAMED,
    "resources": {
        "type": "object",
        "properties": {"claims": OBJECTS, "limits": ANYTHING, "requests": ANYTHING},
        "additionalProperties": False,
    },
    "securityContext": ANYTHING,
    "strategy": {
        "type": "object",
        "properties": {"type": {"enum": ["RollingUpdate", "Recreate"]}, "rollingUpdate": {"type": ["object", "null"]}},
        "additionalProperties": False,
    },
    "volumeMounts": NAMED,
    "volumes": NAMED,
}
LOGINS: Final = ("tokens", "kubernetes", "proxy")
REACHABLE: Final = ("service", "ingress", "httpRoute")
"""Parts of the board through which others than the users of `kubectl port-forward` reach it."""

BY_TYPE: Final[Mapping[type, Schema]] = {  # of a value's default
    bool: {"type": "boolean"},
    int: COUNT,
    float: {"type": "number", "minimum": 0},
    str: TEXT,
}
HOST: Final[Schema] = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"}  # no port, no wildcard
LIMIT: Final[Schema] = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": False,
    "properties": {
        "rate": TEXT,
        "burst": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
        "atOnce": {"type": "integer", "minimum": 0, "maximum": 1_000_000},
    },
}
POLICIES: Final = ["Always", "IfNotPresent", "Never"]
BY_PATH: Final[Mapping[str, Schema]] = {
    "board.hosts": {**NAMES, "items": HOST},
    "board.httpRoute.hostnames": {**NAMES, "items": HOST},
    "board.imagePullPolicy": {"enum": ["", *POLICIES]},
    "board.login": {"type": "string", "enum": ["none", "tokens", "kubernetes", "proxy"]},  # `address` is for loopback
    "board.ingress.host": {**HOST, "pattern": f"{HOST['pattern']}|^$"},
    "board.origin": {"type": "string", "pattern": "^(https?://[^/]+/?)?$"},
    "board.service.port": PORT,
    "devDatabase.runAsUser": {"type": "integer", "minimum": 1},
    "image.pullPolicy": {"enum": POLICIES},
    "database.tls.mode": {"enum": ["require", "verify-ca", "verify-full"]},
    "database.url": {"type": "string", "pattern": "^(postgres(ql)?://.+|.*=.*)?$"},
    "limits": {"type": "object", "additionalProperties": LIMIT},
    "migrations.mode": {"enum": ["initContainer", "hook", "none"]},
    "migrations.waitSeconds": {"type": "integer", "minimum": 1, "maximum": 3600},
    "monitoring.rules.severities": MAP_OF_TEXTS,
    "monitoring.rules.disabled": NAMES,
    "networkPolicy.database.port": PORT,
    "openTelemetry.endpoint": {"type": "string", "pattern": "^(https?://[^/]+.*)?$"},
    "openTelemetry.variables": {**MAP_OF_TEXTS, "propertyNames": {"pattern": "^OTEL_[A-Z_]+$"}},
    "operator.namespaces": NAMES,
    "tests.timeoutSeconds": {"type": "integer", "minimum": 1},
    "worker.activeDeadlineSeconds": {"type": ["integer", "null"], "minimum": 1},
    "worker.commands": {
        "type": "object",
        "additionalProperties": {
            "type": ["string", "array", "object"],
            "items": TEXT,
            "required": ["argv"],
            "additionalProperties": False,
            "properties": {
                "argv": {"type": ["string", "array"], "items": TEXT},
                "env": NAMES,
                "literal": {"type": "boolean"},
            },
        },
    },
    "worker.handlers": NAMES,
    "worker.httpAllowedPrivateNetworks": NAMES,
    "worker.httpAllowedHosts": NAMES,
    "worker.jobs.namespaces": NAMES,
    "worker.jobs.perSecond": {"type": "number", "exclusiveMinimum": 0, "maximum": 1000},
    "worker.jobs.startSeconds": {"type": "integer", "minimum": 1, "maximum": 86_400},
    "worker.jobs.ttlSeconds": {"type": "integer", "minimum": 60, "maximum": 2_678_400},
    "operator.imagePullPolicy": {"enum": ["", *POLICIES]},
    "worker.imagePullPolicy": {"enum": ["", *POLICIES]},
    "worker.mode": {"enum": ["cronjob", "forever"]},
    "worker.queues": {**NAMES, "minItems": 1},
    "worker.readinessProbe": {"type": ["object", "null"]},
    "worker.replicas": {"type": ["integer", "null"], "minimum": 0},
    "worker.scaling.leadSeconds": {"type": "integer", "minimum": 0, "maximum": 300},
    "worker.scaling.maxReplicas": {"type": "integer", "minimum": 1},
    "worker.scaling.runsPerWorker": {"type": ["integer", "null"], "minimum": 1},
    "worker.schedule": {"type": "string", "minLength": 1},
    "worker.startDeadlineSeconds": {"type": ["integer", "null"], "minimum": 30},
}


class Unclear(Exception):
    """The type of a value cannot be derived from its default. Add it to tools/generate_chart_schema.py."""


def schema() -> Schema:
    """The whole."""
    values = read_values()
    properties = {value.path[0]: _of(value) for value in values if value.path != ("pools",)}
    properties["board"]["allOf"] = [_requires_login(part) for part in REACHABLE]
    pools = next(value for value in values if value.path == ("pools",))
    pool = {**properties["worker"], "type": ["object", "null"]}
    properties["pools"] = {
        "description": pools.comment,
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/pool"},
    }
    properties["global"] = {"description": "What a chart above this one shares with its parts.", "type": "object"}
    properties["enabled"] = {"description": "For the condition of a chart above this one.", "type": "boolean"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Values of the chart wakeboard",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "$defs": {"pool": pool},
    }


def _of(value: Value) -> Schema:
    described: Schema = {"description": value.comment} if value.comment else {}
    if value.inner:
        inner = {each.path[-1]: _of(each) for each in value.inner}
        return {**described, "type": "object", "additionalProperties": False, "properties": inner}
    return {**described, **_type(value)}


def _requires_login(part: str) -> Schema:
    enabled = {"type": "object", "properties": {"enabled": {"const": True}}, "required": ["enabled"]}
    return {
        "if": {"properties": {part: enabled}, "required": [part]},
        "then": {"properties": {"login": {"enum": list(LOGINS)}}},
    }


def _type(value: Value) -> Schema:
    setting = _setting(value)
    if value.name in BY_PATH:
        return {**BY_PATH[value.name], **{key: setting[key] for key in BOUNDS if key in setting}}
    if value.name == "operator.tenancy":
        return {"type": "array", "items": _tenant()}
    if setting:
        return setting
    return BY_NAME.get(value.path[-1]) or _by_default(value)


def _setting(value: Value) -> Schema:
    """What the setting of the same name allows; {}: the value is none."""
    if len(value.path) != 2 or value.path[0] not in SETTING_GROUPS:  # noqa: PLR2004 - group and setting
        return {}
    prefix = SETTING_GROUPS[value.path[0]]
    settings = BoardSettings if value.path[0] == "board" else OperatorSettings
    for name, found in settings.model_json_schema()["properties"].items():
        if to_camel(name.removeprefix(prefix)) == value.path[1] and name.startswith(prefix):
            return _allowed(found)
    return {}


def _allowed(found: Schema) -> Schema:
    options = [option for option in found.get("anyOf", [found]) if option.get("type") != "null"]
    assert len(options) == 1, found
    kept = {key: options[0][key] for key in ("type", "enum", *BOUNDS) if key in options[0]}
    if "anyOf" in found:
        kept["type"] = [kept["type"], "null"]
    return kept


def _tenant() -> Schema:
    found = Tenant.model_json_schema()
    return {
        "type": "object",
        "additionalProperties": False,
        "required": found["required"],
        "properties": {name: {**TEXTS, "minItems": 1} for name in found["properties"]},
    }


def _by_default(value: Value) -> Schema:
    if type(value.default) in BY_TYPE:
        return BY_TYPE[type(value.default)]
    if TEXT_MAPS.search(value.path[-1]):
        return MAP_OF_TEXTS
    if value.default in ([], {}):
        return ANYTHING if value.default == {} else OBJECTS
    raise Unclear(f"{value.name} is {value.default!r} by default; say its type in {__name__}.")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n")
