"""Which keys of JSON objects hold credentials. It goes by the words of the key, and in doubt a key is secret."""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS: Final = frozenset(
    {
        "auth", "authorization", "bearer", "cookie", "cookies", "credential", "credentials", "cvc", "cvv",
        "otp", "passcode", "passphrase", "passwd", "password", "passwords", "pin", "pwd", "secret", "secrets",
        "sig", "signature", "ssn", "token", "tokens",
    }
)  # fmt: skip
_SECRET_PARTS: Final = ("accesskey", "apikey", "credential", "passphrase", "passwd", "password", "privatekey", "secret")
_SECRET_ENDINGS: Final = (
    *("connectionstring", "dsn", "token", "signingkey", "encryptionkey", "accountkey", "masterkey", "sharedkey"),
    "subscriptionkey",
)


def is_secret_key(key: str) -> bool:
    """Whether values of this key are masked: password, apiKey, client_secret, X-Auth-Token."""
    words = [word.lower() for word in _WORDS.findall(key)]
    whole = "".join(words)
    return (
        any(word in _SECRET_WORDS for word in words)
        or any(part in whole for part in _SECRET_PARTS)
        or whole.endswith(_SECRET_ENDINGS)
        or (len(words) > 1 and words[-1] == "pass")  # alone it is often the result of a test
    )
