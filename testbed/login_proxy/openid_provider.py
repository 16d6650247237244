"""An OpenID provider that logs every browser in as one user without a question, for a login proxy under test."""

from __future__ import annotations

import base64
import json
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Route

from testbed.board_server import serving_application

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from starlette.requests import Request

VALID_S = 300


@dataclass
class OpenIdProvider:
    """The authorization code flow, with tokens that a key of its own signs (RS256). `address` is the issuer."""

    email: str
    groups: Sequence[str]
    address: str = ""
    _nonces: list[str] = field(default_factory=list[str])  # a code is an index of this list
    _key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))

    @contextmanager
    def serving(self) -> Generator[str]:
        """Serves the provider on loopback inside the block. Yields its address."""
        routes = [
            Route("/.well-known/openid-configuration", self._configuration),
            Route("/authorize", self._authorize),
            Route("/token", self._token, methods=["POST"]),
            Route("/keys", self._keys),
        ]
        with serving_application(Starlette(routes=routes)) as self.address:
            yield self.address

    async def _configuration(self, _: Request) -> JSONResponse:
        return JSONResponse(
            {
                "issuer": self.address,
                "authorization_endpoint": f"{self.address}/authorize",
                "token_endpoint": f"{self.address}/token",
                "jwks_uri": f"{self.address}/keys",
                "id_token_signing_alg_values_supported": ["RS256"],
            }
        )

    async def _authorize(self, request: Request) -> RedirectResponse:
        self._nonces.append(request.query_params.get("nonce", ""))
        answer = {"code": len(self._nonces) - 1, "state": request.query_params["state"]}
        return RedirectResponse(f"{request.query_params['redirect_uri']}?{urlencode(answer)}", 302)

    async def _token(self, request: Request) -> JSONResponse:
        form = parse_qs((await request.body()).decode())
        now = int(time.time())
        claims = {
            "iss": self.address,
            "aud": "wakeboard",
            "sub": "1",
            "iat": now,
            "exp": now + VALID_S,
            "email": self.email,
            "email_verified": True,
            "groups": list(self.groups),
            "nonce": self._nonces[int(form["code"][0])],
        }
        signed = f"{_as_json({'alg': 'RS256', 'kid': 'key'})}.{_as_json(claims)}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        token = f"{signed}.{_as_base64(signature)}"
        return JSONResponse({"access_token": "a", "token_type": "Bearer", "expires_in": VALID_S, "id_token": token})

    async def _keys(self, _: Request) -> JSONResponse:
        numbers = self._key.public_key().public_numbers()
        public = {"n": _as_base64(numbers.n.to_bytes(256)), "e": _as_base64(numbers.e.to_bytes(3))}
        return JSONResponse({"keys": [{"kty": "RSA", "kid": "key", "alg": "RS256", "use": "sig", **public}]})


def _as_json(value: Any) -> str:
    return _as_base64(json.dumps(value).encode())


def _as_base64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
