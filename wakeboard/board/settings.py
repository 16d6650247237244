"""Settings of `wakeboard board`: those of the core, and its own. docs/settings.md is generated from the fields."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from wakeboard.board.access import AddressAccess, KubernetesAccess, LocalAccess, ProxyAccess, TokenAccess
from wakeboard.board.access.proxy import ProxyHeaders
from wakeboard.board.access.reviews import Reviews
from wakeboard.board.access.run_tokens import RunTokenAccess
from wakeboard.board.access.tokens import new_token
from wakeboard.board.state import LOOPBACK_HOSTS, BoardOptions
from wakeboard.errors import InvalidSettings
from wakeboard.kube.api_server import ApiServer
from wakeboard.settings import Names, Settings, read_settings_as

if TYPE_CHECKING:
    from wakeboard.board.access.viewer import Access


class BoardSettings(Settings):
    """All settings of a board."""

    # board
    board_bind: str = Field(
        "127.0.0.1",
        description="Address that the board listens on. `*`: every address of IPv4 and IPv6. Any other than loopback"
        " requires a login (`WAKEBOARD_BOARD_LOGIN`).",
    )
    board_port: int = Field(8686, ge=0, le=65_535, description="Port of the board. 0: any free port.")
    board_name: str = Field(
        "wakeboard", min_length=1, max_length=60, description="Name of the installation in the header of each page."
    )
    board_login: Literal["address", "none", "tokens", "kubernetes", "proxy"] = Field(
        "address",
        description="How users log in. `address`: with the address that the board prints, which has a new token at each"
        " start, on loopback only. `none`: not at all, on loopback only. Every user of the machine may then do"
        " everything, so it is for a pod or container of its own. `tokens`: with the tokens of a file."
        " `kubernetes`: the user's own token of the cluster. `proxy`: the headers of an authenticating proxy.",
    )
    board_hosts: Names = Field(
        [],
        description="Host names under which browsers reach the board, besides those of loopback: `jobs.example.com`.",
    )
    board_origin: str = Field(
        "",
        description="Public origin of the board behind a proxy that ends TLS, such as `https://jobs.example.com`."
        " Empty: that of the request.",
    )
    board_prefix: str = Field(
        "",
        pattern=r"^(/[A-Za-z0-9._~-]+)*$",
        description="Path under which a proxy shows the board, such as `/tools/wakeboard`. It may strip it or not.",
    )
    board_acting_dsn: SecretStr = Field(
        SecretStr(""),
        description="Postgres connection string of the role that executes actions (the operator's role). Then the role"
        " of `WAKEBOARD_DSN` only reads (the viewer's role). Empty: the same as `WAKEBOARD_DSN`.",
    )
    board_tokens_file: str = Field(
        "", description="File of `WAKEBOARD_BOARD_LOGIN=tokens`: a name, a role and a hash on each line."
    )
    board_proxy_secret_file: str = Field(
        "",
        description="File with the secret that the proxy sends in `X-Wakeboard-Proxy-Secret`; at least 16 characters.",
    )
    board_proxy_user_header: str = Field("x-forwarded-user", description="Header in which the proxy names the user.")
    board_proxy_groups_header: str = Field(
        "x-forwarded-groups", description="Header in which the proxy lists the user's groups, separated by commas."
    )
    board_api_server: str = Field(
        "", description="Address of the Kubernetes API server. Empty: that of the cluster in which the board runs."
    )
    board_api_server_ca_file: str = Field(
        "", description="File with the certificate authority of that API server. Empty: the system's authorities."
    )

    board_watch_secrets_file: str = Field(
        "",
        description="File with the secrets of run tokens, one on each line, of 32 characters or more. The board accepts"
        " tokens that any of them signed; applications sign with the first. Empty: none; `up` makes one and sets this"
        " for its companion process.",
    )
    board_watch_origins: Names = Field(
        [],
        description="Origins of the pages that may read a run with a run token: `https://app.example.com`. Empty: only"
        " those of the board itself.",
    )

    @field_validator("board_hosts", "board_watch_origins", mode="before")
    @classmethod
    def _split_names(cls, value: Any) -> Any:
        return [part.strip().lower() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("board_origin")
    @classmethod
    def _is_an_origin(cls, value: str) -> str:
        return _checked_origin(value) if value else ""

    @field_validator("board_watch_origins")
    @classmethod
    def _are_origins(cls, value: list[str]) -> list[str]:
        return [_checked_origin(each) for each in value]

    @model_validator(mode="after")
    def _a_reachable_board_has_a_login(self) -> BoardSettings:
        if self.board_login in {"address", "none"} and not is_loopback(self.board_bind):
            raise ValueError(
                f"WAKEBOARD_BOARD_BIND={self.board_bind} can be reached by other machines, so the board needs a login:"
                " set WAKEBOARD_BOARD_LOGIN to tokens, kubernetes or proxy"
            )
        needed = {"tokens": "board_tokens_file", "proxy": "board_proxy_secret_file"}.get(self.board_login)
        if needed and not getattr(self, needed):
            raise ValueError(f"WAKEBOARD_BOARD_LOGIN={self.board_login} needs WAKEBOARD_{needed.upper()}")
        return self


def _checked_origin(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/"):
        raise ValueError("write a scheme and a host, such as https://jobs.example.com")
    return text.rstrip("/")


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an address."""
    if address == "localhost":
        return True
    try:
        return ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


def read_board_settings(**given: Any) -> BoardSettings:
    """Settings from the environment; `given` overrides them. Raises InvalidSettings with a sentence for each."""
    return read_settings_as(BoardSettings, given)


def board_options(settings: BoardSettings, dsn: str) -> BoardOptions:
    """The options of a board. Raises InvalidSettings for files that cannot be read."""
    public = {urlsplit(settings.board_origin).hostname} if settings.board_origin else set[str]()
    return BoardOptions(
        dsn=dsn,
        read_dsn=settings.read_dsn.get_secret_value(),
        acting_dsn=settings.board_acting_dsn.get_secret_value(),
        name=settings.board_name,
        access=_access(settings),
        hosts=frozenset({*LOOPBACK_HOSTS, *settings.board_hosts, *(host for host in public if host)}),
        origin=settings.board_origin,
        prefix=settings.board_prefix,
        listen=settings.listen,
        log_link=settings.log_link,
        run_tokens=RunTokenAccess(Path(settings.board_watch_secrets_file), settings.board_watch_origins)
        if settings.board_watch_secrets_file
        else None,
    )


def _access(settings: BoardSettings) -> Access:
    match settings.board_login:
        case "address":
            return AddressAccess(new_token(), "The board printed its address with the token when it started.")
        case "none":
            return LocalAccess()
        case "tokens":
            return TokenAccess(Path(settings.board_tokens_file))
        case "kubernetes":
            return KubernetesAccess(_reviews(settings))
        case "proxy":
            headers = ProxyHeaders(
                user=settings.board_proxy_user_header.lower(), groups=settings.board_proxy_groups_header.lower()
            )
            secret = _read_secret(Path(settings.board_proxy_secret_file))
            return ProxyAccess(_reviews(settings), secret=secret, headers=headers)


def _reviews(settings: BoardSettings) -> Reviews:
    otherwise = (
        "this login needs a Kubernetes API server: run the board in a cluster, or name one in"
        " WAKEBOARD_BOARD_API_SERVER."
    )
    return Reviews(ApiServer.from_settings(settings.board_api_server, settings.board_api_server_ca_file, otherwise))


def _read_secret(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeError) as exc:
        raise InvalidSettings(f"the secret of the proxy in {path} cannot be read: {exc}.") from exc
