r"""What looks like a credential: the one list of rules by which workers in all languages mask texts.

`tools/generate_mask_rules.py` writes the list for the workers of clients/. The patterns therefore use only what the
engines of Python (with re.ASCII), JavaScript and Go (RE2) read alike: no look-around, no inline flags, no possessive
repeats, no repeats above 1,000, no dot, `^` or `$`. Conditions in the form of data replace look-around.

Any user may write the text, so each pattern must be linear in it: one with a required end, such as the "@" of a URL,
stops where its own beginning may come again, and the alternatives of a repeat begin with different characters.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Part = Literal["before", "name", "separator", "value", "after"]


class MaskRule(NamedTuple):
    """How to find one kind of credential.

    `words`: the rule is tried only if the lower-case text contains one of them. `pattern`: the last group that took
    part in a match is masked; a match without a group stays, and the search goes on behind it. `unless`: a match also
    stays if all patterns of one of these conditions fit the whole of their parts, in any letter case. The parts:
    `name` is group 1, `before` the character in front of it, `separator` group 2, `value` what would be masked, and
    `after` the five characters behind the match. A part that does not exist is empty.
    """

    words: tuple[str, ...]
    pattern: str
    ignore_case: bool = False
    unless: tuple[dict[Part, str], ...] = ()


_PUNCTUATION: Final = r"[\x00-/:-@\[-^\x60{-\x7f]"  # ASCII, without "_"; "`" cannot be in a literal of Go


def _without_scheme(excluded: str) -> str:
    """A text without `://` and the characters `excluded`. An alternative, not a look-ahead, says so."""
    colons = ":+(?:/:+)*"  # of ":/:" neither colon begins a "://"
    return rf"(?:[^:{excluded}]|{colons}/?[^:/{excluded}])*(?:{colons}/?)?"


_BEGIN, _END = (rf"-----{word} [A-Z ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----" for word in ("BEGIN", "END"))
# scheme://user:password@host. The password may hold raw "/", "@" or '"', but no "://".
_PASSWORD, _WITH_QUOTES = _without_scheme(r"\s\x22<>"), _without_scheme(r"\s<>")
_USERINFO: Final = rf"://[^\s:/?#@\[\]]{{0,255}}:(?:({_PASSWORD})@|({_WITH_QUOTES})@)"
_PORT_AND_PATH: Final = r"(?:[0-9]{1,5}[/?#][\s\S]*)?"
# scheme://token@host. A name has only parts that are short, words or numbers.
_USER: Final = r"""://([^\s:/?#@\[\]"'<>]{16,})@"""
_NAME_PART: Final = r"(?:[^_.-]{0,15}|[A-Za-z+=%~]{16,}|[0-9]{16,})"
_NAME: Final = rf"{_NAME_PART}(?:[_.-]{_NAME_PART})*"
_UUID: Final = r"://([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})@"
_HEADER: Final = (
    r"""\b(?:(?:proxy-)?authorization|(?:set-)?cookie|x-api-key)\\?["']?\s{0,3}[:=,]\s{0,3}"""
    r"""(?:b?\*\*\*|b?(\\?"[^"\r\n]+"?|\\?'[^'\r\n]+'?)|([^\s"'\r\n][^"'\r\n]*))"""
)
_SCHEME: Final = r"\b(?:Bearer|Basic|Digest|Token)\s{1,3}([0-9A-Za-z._~+/=-]{8,})"
_OPTION: Final = r"""--(?:[a-z]{1,20}-)?(?:password|passwd|token|secret|api-key)\s{1,3}([^\s"']+)"""
_WORDS_AFTER: Final[tuple[dict[Part, str], ...]] = (
    {"value": rf"(?:[A-Za-z]{{0,19}}|[0-9]){_PUNCTUATION}*"},
)  # a word, not a credential

# password=…, "token": "…", X-Api-Key: … The name may have anything before it (PGPASSWORD, client_secret). A value
# {$secret: NAME} is the name of a secret, and is shown. The name may also be that of a variable of a container
# ({"name": "TOKEN", "value": "…"}), or of a column in an error of PostgreSQL (Key (token)=(…)).
_NAMES: Final = (
    r"password|passwd|passphrase|passcode|pass|pwd|secret|token|credentials?|signature|\bsig"
    r"|(?:api|access|private|secret|account|encryption|master|shared|signing|subscription)[_-]?key|access[_-]?key[_-]?id"
)
_SEPARATOR: Final = (
    r"""\\?["']?\]?\s{0,3}(?:=>|[:=]|%3[AaDd])\s{0,3}|\)=\("""
    r"""|\\?["']\s?,\s{0,3}\\?["']value\\?["']\s?:\s{0,3}"""
)
_VALUE: Final = (
    r"""(\*\*\*|\{\\?["']?\$secret\b|\\"[^"\\\r\n]*(?:\\")?|"(?:[^"\\\r\n]|\\[^\n])*"?"""
    r"""|\\'[^'\\\r\n]*(?:\\')?|'(?:[^'\\\r\n]|\\[^\n])*'?|[^\s"'&][^\s&]*)"""
)
_NOT_NAMED: Final = (
    rf"\$(?:{_NAMES})|[a-z]pass(?:{_SEPARATOR})|pwd(?:{_SEPARATOR})[/.~]"  # {"$secret": …}, compass, a path
)
_NAMED: Final = rf"{_NOT_NAMED}|({_NAMES})({_SEPARATOR}){_VALUE}"
_CAMEL_PASS: Final = rf"[a-z](Pass)({_SEPARATOR}){_VALUE}"

_ALONE: Final = "[^0-9A-Za-z_-]?"  # before a name that is no part of a longer one
_NOTHING: Final = rf"{_PUNCTUATION}*(?:(?:none|null|nil|true|false|undefined){_PUNCTUATION}*)?"
_CODE: Final = (
    rf"[A-Za-z_.]+[(\[][^0-9]*|[A-Za-z_]+\.(?:\.*[A-Za-z_]+(?:\.+[A-Za-z_]+)*{_PUNCTUATION}*|\.{_PUNCTUATION}*)"
)
_WORD: Final = rf"[A-Za-z]{{1,15}}{_PUNCTUATION}{{0,2}}"
_COUNT: Final = rf"[0-9]{{1,5}}(?:[./][0-9]{{1,5}})?%?{_PUNCTUATION}?"
_COLON: Final = r"[^:]*:\s+"
_PROSE: Final[tuple[dict[Part, str], ...]] = (
    {"value": _NOTHING},
    {"value": r"""\{\\?["']?\$secret"""},
    {"before": _ALONE, "name": "pass", "value": _COUNT},  # `pass=3`, `pass: ok`: the result of a test
    {"before": _ALONE, "name": "pass", "separator": r"[\s\S]*\s", "value": rf"[A-Za-z]{{1,5}}{_PUNCTUATION}{{0,2}}"},
    {"separator": r"[\s\S]*\s", "value": _CODE},
    # `password: must be longer`: a word after a colon. After the name of a password it ends no line, after a name of
    # several words, such as `client_secret`, another word follows.
    {"separator": _COLON, "value": _WORD, "after": r" {1,3}\(?[A-Za-z][\s\S]*"},
    {"before": _ALONE, "name": "[a-z]+", "separator": _COLON, "value": _WORD, "after": r"[^\r\n][\s\S]*"},
    {"before": _ALONE, "name": "(?:[a-oq-z]|p[b-z])[a-z]+", "separator": _COLON, "value": _WORD},
)
_NAMED_WORDS: Final = ("pass", "pwd", "secret", "token", "key", "credential", "sig")

_ELEMENT: Final = r"<[\w:.-]{0,40}(?:password|passwd|token|secret)>([^<]+)"
_WEBHOOK: Final = (
    r"""(?:hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/|api\.telegram\.org/bot)"""
    r"""([^\s"'<>]+)"""
)
_KNOWN_SHAPES: Final = (
    r"\b((?:AKIA|ASIA)[0-9A-Z]{16}"  # AWS
    r"|gh[oprsu]_[0-9A-Za-z]{20,}|github_pat_[0-9A-Za-z_]{20,}|glpat-[0-9A-Za-z_-]{16,}"
    r"|xox[abeoprs]-[0-9A-Za-z-]{10,}|(?:sk|rk|pk)_(?:live|test)_[0-9A-Za-z]{10,}|sk-[0-9A-Za-z_-]{20,}"
    r"|AIza[0-9A-Za-z_-]{30,}|SG\.[0-9A-Za-z_-]{16,40}\.[0-9A-Za-z_-]{16,}|(?:npm|pypi|hf|dop_v1)[_-][0-9A-Za-z_-]{20,}"
    r"|hv[sbr]\.[0-9A-Za-z_-]{20,})"  # Vault
)
_SHAPE_WORDS: Final = (
    *(
        "akia",
        "asia",
        "gh",
        "glpat-",
        "xox",
        "sk-",
        "k_live",
        "k_test",
        "aiza",
        "sg.",
        "npm",
        "pypi",
        "hf",
        "dop_v1",
        "hv",
    ),
)
# A JWT. A run without a dot is matched, too, so that it is not searched again from a later start.
_JWT: Final = r"\b(eyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_-]{8,}(?:\.[0-9A-Za-z_-]*)?)|\beyJ[0-9A-Za-z_-]+"

MASK_RULES: Final = (
    MaskRule(("-----begin",), rf"({_BEGIN}(?:[\s\S]*?{_END}|[\s\S]*))"),
    MaskRule(("://",), _USERINFO, unless=({"value": _PORT_AND_PATH},)),
    MaskRule(("://",), _UUID, ignore_case=True),
    MaskRule(("://",), _USER, unless=({"value": _NAME},)),
    MaskRule(("authorization", "cookie", "x-api-key"), _HEADER, ignore_case=True),
    MaskRule(("bearer", "basic", "digest", "token"), _SCHEME, ignore_case=True, unless=_WORDS_AFTER),
    MaskRule(("pass",), _CAMEL_PASS, unless=_PROSE),
    MaskRule(_NAMED_WORDS, _NAMED, ignore_case=True, unless=_PROSE),
    MaskRule(("--",), _OPTION, ignore_case=True, unless=_WORDS_AFTER),
    MaskRule(("password>", "passwd>", "token>", "secret>"), _ELEMENT, ignore_case=True),
    MaskRule(("hooks.slack.com", "discord", "telegram"), _WEBHOOK),
    MaskRule(_SHAPE_WORDS, _KNOWN_SHAPES),
    MaskRule(("eyj",), _JWT),
)
