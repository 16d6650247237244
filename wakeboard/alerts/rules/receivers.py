"""Receivers of alerts as a file declares them. Secrets are names, which only the delivering worker resolves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, cast, get_args

from pydantic import BeforeValidator, Field, ValidationInfo, create_model, model_validator
from pydantic.alias_generators import to_camel

from wakeboard.declared.model import Declared
from wakeboard.declared.validation_messages import refusal
from wakeboard.text.name_patterns import SUBDOMAIN

_SECRET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")
_ADDRESS: Final = re.compile(r"[^\s@<>,;]{1,64}@[^\s@<>,;]{1,255}")


def _is_secret(written: object) -> bool:
    if not isinstance(written, Mapping):
        return False
    fields = cast("Mapping[object, object]", written)
    return (
        set(fields) == {"$secret"} and isinstance(fields["$secret"], str) and bool(_SECRET.fullmatch(fields["$secret"]))
    )


def _secret(written: object, info: ValidationInfo) -> object:
    if _is_secret(written):
        return written
    name = to_camel(info.field_name or "")
    raise refusal(f"{name} must be the name of a secret; write for example {name}: {{$secret: alerts-{name.lower()}}}")


def _url(written: object, info: ValidationInfo) -> object:
    if _is_secret(written) or (isinstance(written, str) and re.fullmatch(r"https?://[^\s/]+[^\s]*", written)):
        return written
    name = to_camel(info.field_name or "")
    raise refusal(f"{name} must be an http or https url, or the name of a secret: {name}: {{$secret: alerts-{name}}}")


def _address(written: object, info: ValidationInfo) -> object:
    if isinstance(written, str) and _ADDRESS.fullmatch(written):
        return written
    name = "from" if info.field_name == "sender" else "to"
    raise refusal(f"{name} must be an e-mail address, for example ops@example.com")


Secret = Annotated[Any, BeforeValidator(_secret)]
Url = Annotated[Any, BeforeValidator(_url)]
Address = Annotated[str, BeforeValidator(_address)]


class Slack(Declared):
    """An incoming webhook of Slack, Mattermost or another service that accepts {"text": …}."""

    url: Url = Field(examples=[{"$secret": "alerts-slack"}])


class Webhook(Declared):
    """A JSON document to any service, signed with HMAC-SHA256 if there is a key."""

    url: Url = Field(examples=["https://ops.example.com/alerts"])
    signing_key: Secret | None = None


class Email(Declared):
    """An SMTP server and who gets the mail."""

    host: str = Field(min_length=1, max_length=253, examples=["smtp.example.com"])
    port: int = Field(default=587, ge=1, le=65_535)
    tls: Literal["starttls", "tls", "none"] = "starttls"
    user: Annotated[str, Field(max_length=253)] | None = None
    password: Secret | None = None
    sender: Address = Field(alias="from", examples=["wakeboard@example.com"])
    to: list[Address] = Field(min_length=1, examples=[["ops@example.com"]])


class PagerDuty(Declared):
    """The Events API v2."""

    routing_key: Secret = Field(examples=[{"$secret": "alerts-pagerduty"}])
    url: Url = "https://events.pagerduty.com/v2/enqueue"


class Opsgenie(Declared):
    """The Alert API."""

    api_key: Secret = Field(examples=[{"$secret": "alerts-opsgenie"}])
    url: Url = "https://api.opsgenie.com/v2/alerts"


class HeartbeatSpec(Declared):
    """A url that is called while no alert is open. The service behind it alerts when the calls stop."""

    name: Annotated[str, Field(max_length=63, pattern=SUBDOMAIN)] = Field(examples=["watchdog"])
    url: Url = Field(examples=[{"$secret": "alerts-watchdog"}])
    every_seconds: int = Field(default=300, ge=30, le=86_400)


def secret_names(declared: Iterable[Declared]) -> list[str]:
    """The names of the secrets that receivers and heartbeats need, in order, each once."""
    return list(dict.fromkeys(name for each in declared for name in _names_in(each.model_dump())))


def _names_in(value: Any) -> Iterator[str]:
    if _is_secret(value):
        yield value["$secret"]
    elif isinstance(value, Mapping):
        for part in cast("Mapping[str, Any]", value).values():
            yield from _names_in(part)


Service: TypeAlias = Slack | Webhook | Email | PagerDuty | Opsgenie
SERVICES: Final = {kind.__name__.lower(): kind for kind in get_args(Service)}
_FIELDS: Final[dict[str, Any]] = {name: (kind | None, None) for name, kind in SERVICES.items()}
_Services = create_model("_Services", __base__=Declared, **_FIELDS)


class Receiver(_Services):
    """One receiver: its name, and exactly one service."""

    name: Annotated[str, Field(max_length=63, pattern=SUBDOMAIN)] = Field(examples=["team"])

    @property
    def service(self) -> Service:
        """Its service."""
        return self._services()[0]

    def _services(self) -> list[Service]:
        return [found for name in SERVICES if (found := getattr(self, name)) is not None]

    @model_validator(mode="after")
    def _has_one_service(self) -> Self:
        if len(self._services()) != 1:
            raise refusal(f"{self.name} has no service or several; write exactly one of {', '.join(SERVICES)}")
        return self
