"""What a secret looks like: the names that it stands under, the shapes that keys have, and where it is in a text.

Names are those of HTTP headers, environment variables, connection strings and the SDKs; shapes are as the providers
document them, or as their keys are seen. Everything takes linear time, on any text. ASCII only: the Kelvin sign is a
"k" to ``lower()``, but not to who looks at bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

KindOf = Callable[[str], str | None]
"""Says which kind of secret stands under a name, or None."""

# ---- Names.

NAMES = {
    "authorization": ("authorization",),
    "cookie": ("cookie", "cookies"),
    "api-key": ("apikey", "apikeys", "authkey"),
    "secret-key": tuple(
        f"{word}key"
        for word in ("secret", "secretaccess", "access", "account", "signing", "encryption", "master", "subscription")
    ),
    "private-key": ("privatekey",),
    "secret": ("secret", "secrets"),
    "password": ("password", "passwords", "passwd", "passphrase", "pwd"),
    "credentials": ("credential", "credentials"),
    "access-token": (
        "bearer",
        *(
            f"{word}token"
            for word in (
                "access",
                "refresh",
                "auth",
                "bearer",
                "session",
                "security",
                "api",
                "bot",
                "oauth",
                "csrf",
                "xsrf",
            )
        ),
    ),
    "token": ("token",),
}
"""What a plain name ends with, by kind; digits may follow."""
UNSURE = "token"
"""The kind that is a secret only where the value looks like one: a token may also be a piece of text."""
_KINDS = {ending: kind for kind, endings in NAMES.items() for ending in endings}
_ENDINGS = tuple(sorted(_KINDS, key=len, reverse=True))
_NO_SECRET = tuple(
    f"{word}token"
    for word in (
        *("page", "next", "continuation", "sync", "cursor", "resume", "idempotency"),
        *("bos", "eos", "pad", "unk", "sep", "mask", "stop"),
    )
)
_PLAIN = {code: code + 32 for code in range(65, 91)} | dict.fromkeys(map(ord, "-_ ."))
_DIGITS = "0123456789"


def plain(name: str) -> str:
    """A name without what makes no difference: case, "-", "_", "." and blanks."""
    return name.translate(_PLAIN)


def kind_of(name: str) -> str | None:
    """The kind of secret that stands under a name by what the name ends with, or None."""
    word = name[-64:].translate(_PLAIN).rstrip(_DIGITS)
    if not word.endswith(_ENDINGS) or word.endswith(_NO_SECRET):
        return None
    return next(_KINDS[ending] for ending in _ENDINGS if word.endswith(ending))


# ---- Values that follow a name in a text.

_SIGN = re.compile(r"(?:(?P<option>--[A-Za-z][A-Za-z0-9_-]{1,40}[ \t](?=[ \t]*[^\s-]))|=>|:=|={1,3}|:|%3[Dd])\s{0,8}")
_BEFORE_SIGN = " \t\"'\\]"
_IDENTIFIERS = re.compile(r"([A-Za-z0-9_.-]+)(?: [A-Za-z0-9_.-]+)?")
"""The name before a sign, backwards, and the word before it."""

_QUOTE = re.compile(r"""(\\{0,64})(["'])""")
_CLOSING = {quote: re.compile(rf"(?<!\\)(\\*+){quote}|\n") for quote in "\"'"}
_UNQUOTED = re.compile(r"""(?:[^\s"'&;,<>\\]|\\(?![nrt"'\\]))+""")
_COOKIE = re.compile(r"""[^\s=;"'<\\]{1,256}=[^\r\n"'\\]*""")
_SCHEME = re.compile(
    r"""(?ai:(?:AWS4-HMAC-SHA256|Digest|Hawk|OAuth)\s[^\r\n"'\\]+"""
    r"""|(?:Bearer|Basic|Token|Negotiate|Api-?Key)(?:\s{1,3}|%20|\+)[^\s"'&;,<>\\]+)"""
)
_TEMPLATE = re.compile(r"\$?\{[^{}]*\}|\{\{[^{}]*\}\}|\$[A-Za-z_]\w*|%\(\w+\)s|%s|\*+|\.{3}|<[^<>]*>")
_CODE = re.compile(
    r"\$[({]|[{(\[]|(?ai:none|null|nil|true|false|undefined|str|string|bytes)\Z"
    r"|[A-Za-z_][\w.]*[(\[]|(?:os|self|this|process|env|config|settings|args|request|ctx)\.",
    re.ASCII,
)
"""What stands where a value would, in code: a call, a type, an attribute. Only where there are no quotes."""
_AFTER = ")]}.,:!?"
"""What follows a value in a sentence or a call."""
TOKEN_LIKE = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9._~+/=:|%-]{16,}+\Z", re.S)

# ---- Shapes that are a secret wherever they stand.

_RUN = 18
"""Of every such key, so many characters in a row are letters, digits, - or _."""
_DISTINCT = {
    "sk-ant-": "anthropic-key",
    "sk-or-": "openrouter-key",
    "sk-lf-": "langfuse-key",
    **dict.fromkeys(("sk-proj-", "sk-svcacct-", "sk-admin-"), "openai-key"),
    **dict.fromkeys(("AIza", "GOCSPX-", "ya29."), "google-key"),
    **dict.fromkeys(("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"), "github-token"),
    **dict.fromkeys(("glpat-", "gldt-", "glrt-", "glptt-", "gloas-", "glcbt-"), "gitlab-token"),
    **dict.fromkeys(
        ("xoxa-", "xoxb-", "xoxe-", "xoxe.xoxp-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"), "slack-token"
    ),
    **dict.fromkeys(("sk_live_", "sk_test_", "rk_live_", "rk_test_"), "stripe-key"),
    "pypi-": "pypi-token",
    "lsv2_": "langsmith-key",
    "nvapi-": "nvidia-key",
    "tvly-": "tavily-key",
    "pcsk_": "pinecone-key",
}
"""Prefixes that mean a key, if what follows is long and not all small letters."""
_AMBIGUOUS = {
    "sk-": "openai-key",
    "hf_": "huggingface-token",
    "gsk_": "groq-key",
    "pplx-": "perplexity-key",
    "xai-": "xai-key",
    "r8_": "replicate-token",
    "npm_": "npm-token",
}
"""Prefixes that words have too: a key only with a long piece of letters and digits (not ``sk-learn-1-2-notes``)."""
_PREFIXES = _AMBIGUOUS | _DISTINCT
_ANY_PREFIX = "|".join(re.escape(prefix) for prefix in sorted(_PREFIXES, key=len, reverse=True))
_EDGE = r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[nrt])|(?<=\\u[0-9a-fA-F]{4}))"
"""Where a key may start: "task-" holds no "sk-"; an escape before it is no part of it."""
_KEY = re.compile(rf"{_EDGE}({_ANY_PREFIX})([A-Za-z0-9_-]{{10,}}+)(?:\.[A-Za-z0-9_-]{{2,}}+)*+")
_FIXED = re.compile(
    _EDGE + r"(?:(AKIA|ASIA)[A-Z0-9]{16}|dapi[0-9a-f]{32}|(AC|SK)[0-9a-f]{32}"
    r"|(SG)\.[A-Za-z0-9_-]{18,}+\.[A-Za-z0-9_-]{30,}+)(?![A-Za-z0-9])"
)
_AWS_SECRET = re.compile(r"(?<![A-Za-z0-9/+=])(?![a-f0-9]{40})[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_JWT = re.compile(_EDGE + r"eyJ[A-Za-z0-9_-]{15,}+((?:\.[A-Za-z0-9_-]*+){2,4})?")
_SVIX = re.compile(_EDGE + r"whsec_[A-Za-z0-9+/_-]{16,}+={0,2}")
_BEARER = re.compile(r"(?<![A-Za-z])([Bb]earer(?:\s{1,3}|%20|\+))([A-Za-z0-9._~+/=%-]{8,}+)")
_URL = re.compile(r"""(://[^\s/:@"'<>\\]*+:)(?![0-9]{1,5}[?#,;)])([^\s/"'<>\\]+)@""")
_SIGNATURE = re.compile(r"(?<![A-Za-z0-9])((?:sig|X-Amz-Signature|X-Goog-Signature)=)([A-Za-z0-9%+/=_-]{16,}+)")
_BEGIN, _END = (r"-----%s (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----" % word for word in ("BEGIN", "END"))  # noqa: UP031
_PEM = re.compile(rf"(?s:{_BEGIN}(?:.*?{_END}|.*))")
PLACEHOLDER = re.compile(r"(<scrubbed:[a-z0-9-]{1,64}>)")


# ---- The quick look: bytes without any of this cannot hold a secret.

_FOLD = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in range(256))
_DROP = bytes(byte for byte in range(256) if not 97 <= (byte | 32) <= 122 or byte > 127 or chr(byte | 32) in "aihlm")
"""Words are sought in a text without its blanks, signs and some frequent letters: the shorter, the quicker."""
_CLASS = bytes(97 if byte < 128 and (chr(byte).isalnum() or byte in b"-_") else 32 for byte in range(256))
_LONG_RUN = b"a" * _RUN
_RUN_KEY = re.compile(rf"{_ANY_PREFIX}|SG\.|AKIA|ASIA|eyJ|dapi|AC[0-9a-f]{{8}}|SK[0-9a-f]{{8}}".encode())


def squeezed(word: str) -> bytes:
    """A word as the quick look seeks it."""
    return word.encode("utf-8", "surrogatepass").translate(_FOLD, _DROP)


_WORDS = tuple(
    map(squeezed, ("authorization", "cookie", "bearer", "secret", "passw", "pwd", "passphrase", "credential", "whsec"))
)
_KEY_WORDS = tuple(squeezed(ending) for ending in _ENDINGS if ending.endswith("key") and "secret" not in ending)
_THE_KEY, _THE_TOKEN = squeezed("key"), squeezed("token")


WORD = re.compile(r"[A-Za-z0-9_-]{0,17}")
"""Too short for a key, and nothing else in it: most names and many values."""


def is_clean(data: bytes, more: tuple[bytes, ...] = ()) -> bool:
    """Whether there is certainly no secret in a text or JSON text; ``more`` are further words, squeezed.

    Nearly all that is recorded ends here, so it has to be quick: a search for a literal is, an expression is not.
    """
    words = data.translate(_FOLD, _DROP)
    for word in _WORDS:
        if word in words:
            return False
    if more and any(word in words for word in more):
        return False
    if _THE_KEY in words and any(word in words for word in _KEY_WORDS):
        return False
    if _THE_TOKEN in words:
        lower = data.lower()
        if lower.count(b"token") != lower.count(b"tokens"):
            return False
    if b"\\" in data and b"\\u" in data:  # any letter may hide behind it
        return False
    if b"@" in data and (b"://" in data or b":\\/" in data):
        return False
    if b"=" in data and (b"sig=" in data or b"Signature=" in data):
        return False
    return not _may_hold_key(data)


def _may_hold_key(data: bytes) -> bool:
    """Whether some long run of letters and digits has to do with what keys start with."""
    classes = data.translate(_CLASS)
    start = classes.find(_LONG_RUN)
    while start >= 0:
        end = classes.find(b" ", start + _RUN)
        end = len(data) if end < 0 else end
        if _RUN_KEY.search(data, max(0, start - 5), end):
            return True
        start = classes.find(_LONG_RUN, end)
    return False


# ---- The rules over a text.


def placeholder(kind: str) -> str:
    """What stands where a secret of this kind was."""
    return f"<scrubbed:{kind}>"


def scrub_text(text: str, kind_of: KindOf) -> str:
    """One pass of all rules over a text. Names go first, so that a whole value goes, not only what looks like a key."""
    if "PRIVATE KEY" in text:
        text = _PEM.sub(placeholder("private-key"), text)
    text = _scrub_named(text, kind_of)
    if "earer" in text:
        text = _BEARER.sub(lambda m: m[1] + placeholder("bearer") if _is_mixed(m[2]) else m[0], text)
    if "://" in text and "@" in text:
        text = _URL.sub(lambda m: m[0] if _TEMPLATE.fullmatch(m[2]) else f"{m[1]}{placeholder('password')}@", text)
    if "sig=" in text or "Signature=" in text:
        text = _SIGNATURE.sub(rf"\1{placeholder('signature')}", text)
    if "whsec_" in text:
        text = _SVIX.sub(placeholder("webhook-secret"), text)
    if _may_hold_key(text.encode("utf-8", "surrogatepass")):
        text = _JWT.sub(lambda m: placeholder("jwt") if m[1] else m[0], text)
        text = _FIXED.sub(_fixed, _KEY.sub(_provided, text))
    if placeholder("aws-key-id") in text:  # the secret has no mark but the id next to it
        text = _AWS_SECRET.sub(lambda m: placeholder("aws-secret-key") if _is_mixed(m[0]) else m[0], text)
    return text


def _scrub_named(text: str, kind_of: KindOf) -> str:
    """Values that follow a telling name: ``password=..``, ``"api_key": ".."``, ``--token ..``, ``Cookie: ..``."""
    done = 0
    parts: list[str] = []
    for match in _SIGN.finditer(text):
        if match.start() < done:
            continue
        before = match["option"] or text[max(0, match.start() - 64) : match.start()]
        words = _IDENTIFIERS.match(before.rstrip(_BEFORE_SIGN)[::-1])
        name = words[1][::-1] if words else ""
        if words and plain(name) in ("key", "keys"):
            name = words[0][::-1]
        kind = kind_of(name)
        if kind is None:
            continue
        span = _value_span(text, match.end(), kind, name, "" if match["option"] else match[0].strip())
        if span:
            parts += (text[done : span[0]], placeholder(kind))
            done = span[1]
    return "".join((*parts, text[done:])) if parts else text


def _is_mixed(token: str) -> bool:
    """Whether letters are mixed with digits, or, in a long one, small letters with capitals: no word of a language."""
    letters = [char for char in token if char.isalpha()]
    if any(char.isdigit() for char in token):
        return bool(letters)
    return len(token) >= 20 and any(map(str.isupper, letters)) and any(map(str.islower, letters))


def _provided(match: re.Match[str]) -> str:
    """What replaces a text that starts like the key of a provider."""
    prefix, rest = match[1], match[2]
    if len(prefix.rpartition(".")[2]) + len(rest) < _RUN:
        return match[0]
    if prefix in _DISTINCT:
        secret = sum(char.isdigit() or char.isupper() for char in rest) >= 2
    else:
        pieces = rest.replace("-", "_").split("_")
        secret = any(len(piece) >= 16 and _is_random(piece) for piece in pieces)
    return placeholder(_PREFIXES[prefix]) if secret else match[0]


def _is_random(piece: str) -> bool:
    """Whether a long piece of letters and digits has a digit, or more capitals than camelCase has."""
    return any(map(str.isdigit, piece)) or 5 * sum(map(str.isupper, piece)) >= len(piece) > sum(map(str.isupper, piece))


def _fixed(match: re.Match[str]) -> str:
    kinds = ("databricks-token", "aws-key-id", "twilio-key", "sendgrid-key")
    return placeholder(kinds[match.lastindex or 0])


def _value_span(text: str, start: int, kind: str, name: str, sign: str) -> tuple[int, int] | None:
    """From where to where the value of a telling name goes that starts at ``start``; None where it is no secret."""
    quote = _QUOTE.match(text, start)
    if quote:
        end = _closing(text, quote.end(), len(quote[1]), quote[2])
        value = text[quote.end() : end]
        if not value or PLACEHOLDER.fullmatch(value) or _TEMPLATE.fullmatch(value):
            return None
        return (quote.end(), end) if kind != UNSURE or TOKEN_LIKE.match(value) else None
    if kind == "authorization" and (scheme := _SCHEME.match(text, start)):
        return None if _TEMPLATE.fullmatch(scheme[0].rpartition(" ")[2]) else scheme.span()
    prose = sign in (":", "==", "===")
    if kind == "cookie" and prose:
        cookies = _COOKIE.match(text, start)
        return cookies.span() if cookies else None
    probe = _UNQUOTED.match(text, start, start + 512)  # a bounded look: what is refused here is looked at again
    value = probe[0].rstrip(_AFTER) if probe else ""
    if not value or _CODE.match(value) or _TEMPLATE.fullmatch(value):
        return None
    name = name.rpartition(".")[2]
    if value == name or value.endswith((f"_{name}", f".{name}")):  # api_key=api_key
        return None
    if kind == UNSURE and not TOKEN_LIKE.match(value):
        return None
    if (prose or not sign) and (len(value) < 6 or not any(map(str.isdigit, value))):
        return None
    whole = _UNQUOTED.match(text, start)
    return (start, start + len(whole[0].rstrip(_AFTER))) if whole else None


def _closing(text: str, start: int, escaped: int, quote: str) -> int:
    """Where a quoted text ends that was opened with ``escaped`` backslashes: in JSON inside JSON quotes have some."""
    for run in _CLOSING[quote].finditer(text, start):
        if run[1] is None:  # a line ends before the quote does
            return run.start()
        if escaped == 0 and len(run[1]) % 2 == 0:
            return run.end() - 1
        if 0 < len(run[1]) <= escaped or (escaped and not run[1]):
            return run.start()
    return len(text)
