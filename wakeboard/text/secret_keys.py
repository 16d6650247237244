"""Which keys of JSON objects hold credentials. It goes by the words of the key, and in doubt a key is secret.

The workers of clients/ have the same words and parts (tools/generate_mask_rules.py).
"""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
SECRET_WORDS: Final = frozenset(
    {
        "auth", "authorization", "bearer", "cookie", "cookies", "credential", "credentials", "cvc", "cvv",
        "otp", "passcode", "passphrase", "passwd", "password", "passwords", "pin", "pwd", "secret", "secrets",
        "sig", "signature", "ssn", "token", "tokens",
    }
)  # fmt: skip
SECRET_PARTS: Final = ("accesskey", "apikey", "credential", "passphrase", "passwd", "password", "privatekey", "secret")
SECRET_ENDINGS: Final = (
    *("connectionstring", "dsn", "token", "signingkey", "encryptionkey", "accountkey", "masterkey", "sharedkey"),
    "subscriptionkey",
)
_ALL: Final = SECRET_WORDS | {*SECRET_PARTS, *SECRET_ENDINGS, "pass"}
# Each secret key contains one of them, without what is between its words.
_MARKS: Final = [mark.encode() for mark in _ALL if not any(other in mark for other in _ALL - {mark})]
_NO_LETTER: Final = bytes(code for code in range(256) if not (code < 128 and chr(code).isalnum()))  # noqa: PLR2004 - ASCII


def may_hold_secret_keys(texts: bytes) -> bool:
    """False if no JSON object in these texts has a key of which `is_secret_key` is true; a twentieth of its time."""
    if b"\\" in texts:  # a key may have an escaped character between its letters
        return True
    letters = texts.lower().translate(None, _NO_LETTER)
    return any(map(letters.__contains__, _MARKS))


def is_secret_key(key: str) -> bool:
    """Whether values of this key are masked: password, apiKey, client_secret, X-Auth-Token."""
    words = [word.lower() for word in _WORDS.findall(key)]
    whole = "".join(words)
    return (
        any(word in SECRET_WORDS for word in words)
        or any(part in whole for part in SECRET_PARTS)
        or whole.endswith(SECRET_ENDINGS)
        or (len(words) > 1 and words[-1] == "pass")  # alone it is often the result of a test
    )
