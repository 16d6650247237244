"""Settings: read once at start from the environment (prefix WAKEBOARD_), checked, and passed on as values.

The name of a field is also the name of its variable and of its Helm value. docs/settings.md is generated from the
fields: each description says what the setting does and what an empty value means; type, bounds and default are added.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from wakeboard.errors import InvalidSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic.fields import FieldInfo

PREFIX: Final = "WAKEBOARD_"
# Read by the operator (its settings class needs libraries of its own), the command line and `up`.
ELSEWHERE: Final = frozenset(
    PREFIX + name
    for name in (
        *("ADOPT_FOREIGN_SCHEDULES", "LEADER_LEASE_SECONDS", "NAMESPACES", "OPERATOR_PORT", "RECONCILE_SECONDS"),
        *("LIMITS_FILE", "RELEASE", "SOURCE", "WATCH_WORKER_PODS"),
        *(
            "BOARD_ACTING_DSN",
            "BOARD_API_SERVER",
            "BOARD_API_SERVER_CA_FILE",
            "BOARD_BIND",
            "BOARD_HOSTS",
            "BOARD_LOGIN",
        ),
        *(
            "BOARD_NAME",
            "BOARD_ORIGIN",
            "BOARD_PORT",
            "BOARD_PREFIX",
            "BOARD_PROXY_GROUPS_HEADER",
            "BOARD_PROXY_SECRET_FILE",
        ),
        *("BOARD_PROXY_USER_HEADER", "BOARD_TOKENS_FILE", "BOARD_WATCH_ORIGINS", "BOARD_WATCH_SECRETS_FILE"),
        *("STATUS_ERRORS", "STATUS_MIN_INTERVAL_SECONDS", "STATUS_WRITES_PER_SECOND", "TENANCY"),
        *("DEBUG", "EFFECTS_DSN", "POD_UID", "UP_COMPANION", "WORKER_NAME", "ZONE"),
    )
)
# Secrets of handlers, variables of the tests, and those that Kubernetes sets for each Service named wakeboard….
_NOT_SETTINGS: Final = re.compile(
    r"WAKEBOARD_((SECRET|TEST)_.*|(.*_)?(SERVICE_(HOST|PORT.*)|PORT(_\d+_(TCP|UDP|SCTP).*)?))"
)

Names = Annotated[list[str], NoDecode]  # "a,b" in the environment
_Kind = TypeVar("_Kind", bound="Settings")


class AllowedCommand(BaseModel):
    """A program that `command` may run: its arguments, and the environment variables that a payload may set.

    `literal`: `{name}` in the arguments is text, not a placeholder.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    argv: list[str]
    env: list[str] = []
    literal: bool = False


class Settings(BaseSettings):
    """All settings of workers and commands."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    # database
    dsn: SecretStr = Field(
        SecretStr(""), description="Postgres connection string or URL. Empty: libpq's own PG* variables."
    )
    read_dsn: SecretStr = Field(
        SecretStr(""),
        description="Postgres connection string of a hot standby, from which the board and commands that only read"
        " read. While it is more than 5 seconds behind, cannot be reached, or is no standby of `WAKEBOARD_DSN`, they"
        " read from `WAKEBOARD_DSN`. Empty: always. Commands with another `--dsn` do not use it.",
    )
    prepared_statements: bool = Field(
        default=False,
        description="Prepare statements on the server. Requires a direct connection; set it to `false` behind PgBouncer"
        " in transaction mode.",
    )
    listen: bool = Field(
        default=True,
        description="Receive notifications of new runs, in addition to polling. Requires a direct connection; set it to"
        " `false` behind PgBouncer.",
    )

    # worker
    handlers: Names = Field([], description="Python modules that declare handlers, e.g. `myapp.jobs,myapp.billing`.")
    pool: str = Field(
        "default", description="Name of the worker's pool: the workers with the same image, queues and settings."
    )
    queues: Names = Field(["default"], min_length=1, description="Queues from which the worker claims runs.")
    concurrency: int = Field(
        100, ge=1, le=10_000, description="Maximum number of async handlers that run at the same time in one worker."
    )
    threads: int = Field(8, ge=1, le=1000, description="Threads for handlers that are plain functions.")
    lease_seconds: int = Field(
        60,
        ge=2,
        le=3600,
        description="Seconds until the lease of a run expires if the worker does not renew it. Other workers execute"
        " the runs of a crashed worker after this time.",
    )
    grace_seconds: int = Field(
        25,
        ge=0,
        le=3600,
        description="Seconds that runs may continue after SIGTERM. Then the worker stops them and releases them.",
    )
    poll_seconds: float = Field(
        1.0,
        ge=0.005,
        le=60,
        description="Seconds between two queries for due runs while a worker with `--forever` or `--linger` is idle.",
    )
    drain_lookahead_seconds: int = Field(
        15, ge=0, le=300, description="A draining worker waits for runs that become due within this many seconds."
    )
    max_lifetime_seconds: int = Field(
        600, ge=1, le=86_400, description="Seconds after its start when a draining worker stops claiming runs."
    )
    max_timeout_seconds: int = Field(
        3600, ge=1, le=2_678_400, description="The pool claims only runs with at most this timeout, in seconds."
    )
    max_workers: int | None = Field(
        None, ge=1, description="Exit at start if the pool already has this many workers. Empty: unlimited."
    )
    ready_file: str = Field(
        "",
        description="File that exists while the worker is ready: registered, its handlers loaded, and not stopping. For"
        " readiness probes. Empty: none.",
    )

    # built-in handlers
    http_allowed_hosts: Names = Field(
        [],
        description="Hosts that `http` may call: `api.example.com`, `*.example.com`, `host:port`. Empty: none.",
    )
    http_allowed_private_networks: Names = Field(
        [],
        description="Private and link-local networks that `http` may connect to, e.g. `10.1.0.0/16,127.0.0.1/32`."
        " Empty: public addresses only.",
    )
    http_max_body_bytes: int = Field(
        65_536, ge=0, le=10_485_760, description="Maximum number of bytes that `http` reads from a response."
    )
    commands: Annotated[dict[str, AllowedCommand], NoDecode] = Field(
        {},
        description='Programs that `command` may run, as JSON: `{"backup": ["/usr/bin/pg_dump", "--file={path}"]}`. To'
        ' let the payload set environment variables, name them: `{"backup": {"argv": […], "env": ["PGPASSWORD"]}}`.'
        " `literal: true` takes braces in the arguments as text.",
    )
    secrets_dir: str = Field(
        "", description='Directory with one file for each secret that a payload may use as `{"$secret": "NAME"}`.'
    )
    jobs_namespaces: Names = Field(
        [], description="Namespaces whose CronJobs `job` may run; `*`: all namespaces. Empty: none."
    )
    jobs_allow_overrides: bool = Field(
        default=False, description="Let the payloads of `job` set `env` and `args` of the CronJob's container."
    )
    jobs_per_second: float = Field(
        30.0, gt=0, le=1000, description="Maximum number of Kubernetes Jobs that one worker creates per second."
    )
    jobs_start_seconds: int = Field(
        600,
        ge=1,
        le=86_400,
        description="Seconds within which the pod of a Job must start. Then the Job is deleted, and the attempt fails"
        " with what the cluster says, such as `FailedScheduling`.",
    )
    jobs_ttl_seconds: int = Field(
        3600,
        ge=60,
        le=2_678_400,
        description="Seconds for which a finished Job stays in the cluster, if its CronJob names no time. It stays "
        "for a minute at least.",
    )
    jobs_api_server: str = Field(
        "", description="URL of the API server for `job`. Empty: that of the cluster in which the worker runs."
    )
    jobs_ca_file: str = Field(
        "",
        description="Certificates that the server of `WAKEBOARD_JOBS_API_SERVER` is trusted by. Empty: the system's.",
    )
    jobs_token_file: str = Field(
        "", description="File with the token for the API server. Empty: that of the pod's service account."
    )

    # logs of runs
    run_logs: Literal["all", "failed", "off"] = Field(
        "all",
        description="Which runs' logs are kept in the database: `all`, those of attempts that fail (`failed`), or none"
        " (`off`).",
    )
    run_log_level: Literal["debug", "info", "warning", "error"] = Field(
        "debug",
        description="Minimum level of the log records that are kept. Records below `WAKEBOARD_LOG_LEVEL` do not exist.",
    )
    run_log_max_bytes: int = Field(
        1_048_576,
        ge=16_384,
        le=67_108_864,
        description="Characters of the log of one attempt that are kept: the first quarter and the last three quarters."
        " The lines between them are counted.",
    )
    log_link: str = Field(
        "",
        description="Address of a run's log in another system, such as `https://logs.example.com/?run={run_uuid}`, for"
        " the board and the command line. `{run_id}` and `{schedule}` are replaced, too. Empty: no link.",
    )

    # schedules and retention
    misfire_grace_seconds: int = Field(
        300,
        ge=1,
        le=86_400,
        description="If the oldest due tick of a schedule is later than this many seconds, there was an outage or a "
        "pause: `catchUp` decides which of its due ticks run. After a shorter delay each of them runs. If it is"
        " set, the operator, `up` and `migrate` store it, for the ticks that are due when an application edits a"
        " schedule.",
    )
    history_retention_days: int = Field(
        30,
        ge=1,
        le=3650,
        description="Days after which finished runs are deleted. The operator, `up` and `migrate` set this and the next"
        " three for the installation; the settings of a worker can only lengthen them.",
    )
    idempotency_key_retention_days: int = Field(
        7,
        ge=0,
        le=3650,
        description="Days after the end of a run in which its idempotency key still prevents a second run. At most the"
        " history retention.",
    )
    dead_retention_days: int | None = Field(
        None, ge=1, le=3650, description="Days after which dead runs are discarded. Empty: never."
    )
    effect_retention_days: int | None = Field(
        None,
        ge=1,
        le=3650,
        description='Days after which an effect with `once="forever"` is forgotten, so that it can happen again. Empty:'
        " never. Set as the ones before; workers ignore it.",
    )
    log_retention_days: int = Field(
        7,
        ge=1,
        le=3650,
        description="Days after which the logs of runs are deleted. The operator, `up` and `migrate` set this for the"
        " installation; workers ignore it.",
    )
    audit_retention_days: int = Field(
        400,
        ge=1,
        le=3650,
        description="Days after which rows of the audit log are deleted. `migrate` and `up` set this for the"
        " installation. An operator whose role does not own the schema can only lengthen it; workers ignore it.",
    )

    # alerts
    alerts_file: str = Field(
        "",
        description="YAML file with alert rules (`kind: AlertRules`), which this process evaluates. It is read again"
        " when it changes. Empty: none; `up` reads `alerts.yaml` of its folder.",
    )
    board_url: str = Field(
        "",
        max_length=1000,
        pattern=r"^(https?://[A-Za-z0-9.:\[\]_-]+(/[A-Za-z0-9._~-]+)*/?)?$",
        description="Address under which users open the board, such as `https://jobs.example.com/tools/wakeboard`."
        " Messages about alerts link to the page with what is behind them. Empty: no links; `up` sets the address"
        " of the board that it serves.",
    )

    # logs
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="Format of log records. `auto`: `console` on a terminal, otherwise `json`."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="The lowest level to log.")

    # database roles for `wakeboard migrate`
    owner_role: str | None = Field(
        None,
        description="Role that owns the schema. Only `migrate --print-roles` uses it, and prints how to create it.",
    )
    operator_role: str | None = Field(
        None, description="Role to which `migrate` grants what an operator needs. Empty: grants do not change."
    )
    worker_role: str | None = Field(None, description="The same for workers.")
    client_role: str | None = Field(None, description="The same for applications that enqueue.")
    viewer_role: str | None = Field(None, description="The same for users and dashboards that only read.")
    scaler_role: str | None = Field(None, description="The same for an autoscaler, which may only call `backlog`.")
    scheduler_role: str | None = Field(None, description="The same for applications that create schedules.")

    @property
    def misfire_grace(self) -> timedelta:
        """How late the oldest due tick may be before `catchUp` decides about all of them."""
        return timedelta(seconds=self.misfire_grace_seconds)

    @property
    def has_misfire_grace(self) -> bool:
        """Whether `misfire_grace_seconds` was given. The default changes no stored value."""
        return "misfire_grace_seconds" in self.model_fields_set

    @field_validator(
        "handlers", "queues", "http_allowed_hosts", "http_allowed_private_networks", "jobs_namespaces", mode="before"
    )
    @classmethod
    def _split(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("commands", mode="before")
    @classmethod
    def _parse_commands(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            found = json.loads(value or "{}")
        except json.JSONDecodeError as exc:
            raise ValueError(f"must be a JSON object ({exc.msg})") from exc
        if not isinstance(found, dict):
            raise ValueError("must be a JSON object")  # noqa: TRY004 - pydantic reports ValueErrors as sentences
        commands = cast("dict[str, Any]", found)
        return {name: _command(given) for name, given in commands.items()}

    @field_validator(
        "max_workers",
        "dead_retention_days",
        "effect_retention_days",
        "owner_role",
        "operator_role",
        "worker_role",
        "client_role",
        "viewer_role",
        "scaler_role",
        "scheduler_role",
        mode="before",
    )
    @classmethod
    def _empty_is_unset(cls, value: Any) -> Any:
        return None if value == "" else value

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if len(set(self.queues)) != len(self.queues):
            raise ValueError("WAKEBOARD_QUEUES contains a queue twice")
        if self.idempotency_key_retention_days > self.history_retention_days:
            raise ValueError(
                f"WAKEBOARD_IDEMPOTENCY_KEY_RETENTION_DAYS is {self.idempotency_key_retention_days}, more than"
                f" WAKEBOARD_HISTORY_RETENTION_DAYS"
                f" {self.history_retention_days}: a key is deleted with its run; write the same number for both"
            )
        return self


def _command(given: Any) -> Any:
    """A command in its full form: a text is split into arguments, a list is the arguments."""
    if isinstance(given, dict):
        command = cast("dict[str, Any]", given)
        return {**command, "argv": _words(command.get("argv"))}
    return {"argv": _words(given)}


def _words(given: Any) -> Any:
    return shlex.split(given) if isinstance(given, str) else given


def read_settings(**given: Any) -> Settings:
    """Settings from the environment. `given` (from the command line) overrides them; None means not given.

    Raises InvalidSettings with one sentence for each invalid variable.
    """
    return read_settings_as(Settings, given)


def read_settings_as(kind: type[_Kind], given: Mapping[str, Any]) -> _Kind:
    """As `read_settings`, for a subclass with more settings."""
    try:
        return kind(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as exc:
        raise InvalidSettings("\n".join(_sentence(kind, problem) for problem in exc.errors())) from exc


def _sentence(kind: type[Settings], problem: Any) -> str:
    if not problem["loc"]:
        return f"{problem['ctx']['error']}."
    field = str(problem["loc"][0])
    name = PREFIX + field.upper()
    value = "" if name.endswith("_DSN") or name not in os.environ else f"={os.environ[name]!r}"
    error = problem.get("ctx", {}).get("error")
    return f"{name}{value}: {error or _instruction(kind.model_fields[field], problem['msg'])}."


def _instruction(field: FieldInfo, otherwise: str) -> str:
    """What to write, from a field's type and bounds; `otherwise` for a field without."""
    kinds = set(get_args(field.annotation)) or {field.annotation}
    if choices := [choice for choice in get_args(field.annotation) if isinstance(choice, str)]:
        return f"write {', '.join(choices[:-1])} or {choices[-1]}"
    if bool in kinds:
        return "write true or false"
    if not kinds & {int, float}:
        return otherwise
    number = "a whole number" if int in kinds else "a number"
    low, high, above = (_bound(field, name) for name in ("ge", "le", "gt"))
    if high is not None:
        return f"write {number} from {low} to {high}" if above is None else f"write {number} above {above}, to {high}"
    return f"write {number}" + (f" of at least {low}" if low is not None else "")


def _bound(field: FieldInfo, name: str) -> float | None:
    return next((getattr(each, name) for each in field.metadata if hasattr(each, name)), None)


# -- unknown names -----------------------------------------------------------------------------------------------------


def unknown_settings(environment: Iterable[str]) -> list[str]:
    """One sentence for each name that has the prefix of a setting and is none: it may be misspelled."""
    known = {PREFIX + name.upper() for name in Settings.model_fields} | ELSEWHERE
    return [
        f"{name} is not a setting and has no effect{_suggestion(name, known)}"
        for name in environment
        if name.startswith(PREFIX) and name not in known and not _NOT_SETTINGS.fullmatch(name)
    ]


def _suggestion(name: str, known: Iterable[str]) -> str:
    from wakeboard.text.similar_names import closest

    near = closest(name.removeprefix(PREFIX), {each.removeprefix(PREFIX): each for each in known}, cutoff=0.75)
    return f"; did you mean {near}?" if near else "."
