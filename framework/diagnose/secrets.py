"""Decides what is a secret, by the name of a setting or the shape of a value, and hides secrets in text.

In: keys, values, texts of clients and servers. Out: whether one is a secret, and the same text with `***` in its place.
All that floe prints, logs, writes into a plan or hands to another process passes through here. In doubt it hides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

# Anywhere in a name, whatever stands beside them.
_ANYWHERE = (
    "passw", "pwd", "passphrase", "secret", "token", "credential", "jaas", "authorization", "cookie", "connectionstring",
    "userinfo", "keypem", "saskey", "sastoken", "privatekey", "accesskey", "accountkey", "apikey", "secretkey", "sharedkey",
    "signingkey", "masterkey", "storekey", "encryptionkey", "authkey", "webhook",
)  # fmt: skip
# Only as a word of their own: inside of others they mean nothing.
_ALONE = frozenset({"pass", "pw", "sas", "pat", "pin", "dsn", "jwt", "bearer", "signature", "sig"})
# Also a word of their own, but where the setting is another system's, whose names say little.
_ALONE_ELSEWHERE = frozenset({"key", "auth"})
_ELSEWHERE = ("spark.hadoop.", "spark.executorenv.", "spark.yarn.appmasterenv.", "spark.kubernetes.driverenv.")
# Behind the word for a secret these say that the setting is about one: where it is, whose, how long, by which way.
_ABOUT = frozenset(
    {
        "alg", "algorithm", "algorithms", "alias", "bits", "buffer", "cache", "cachesize", "class", "command", "count", "delay",
        "duration", "enable", "enabled", "endpoint", "expires", "expiration", "expiry", "factory", "file", "files", "generator",
        "generation", "hash", "id", "impl", "interval", "issuer", "length", "lifetime", "limit", "location", "manager",
        "mechanism", "mechanisms", "method", "mode", "ms", "name", "path", "paths", "plugin", "provider", "providers",
        "reauth", "refresh", "renewal", "renewer", "required", "retries", "retry", "scope", "seconds", "services", "service",
        "size", "store", "timeout", "ttl", "type", "uri", "url", "urls", "window", "threshold", "username", "user", "audience",
        "exchange", "aud", "claim", "filter", "format", "resolver", "tracking", "auto", "fraction", "ratio", "identifiers",
        "dir", "secretkeyref", "keygen", "supplier", "kind", "ids", "skew", "nbf", "pattern", "regex", "at",
        "binding", "bitlength", "cipher", "conf", "domain", "local", "serialfilter", "validity",
    }
)  # fmt: skip
# Settings of Spark that name where a secret is kept, and hold none.
_NAMES_ONLY = re.compile(
    r"^spark\.kubernetes\.(driver|executor)\.(secrets|secretKeyRef)\.|^spark\..*File$"
    r"|^spark\.kubernetes\.(container\.image\.pullSecrets|kerberos\.tokenSecret\.)"
)
# Headers of a REST catalog that are no secret; every other may be one.
HEADERS = frozenset(
    {
        "accept", "content-type", "polaris-realm", "user-agent", "x-client-git-commit-short", "x-client-version",
        "x-goog-user-project", "x-iceberg-access-delegation", "x-project-id",
    }
)  # fmt: skip
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

# What stands for a secret inside of a value or a text: `name=value`, `"name": "value"`, `name: value`. Each name is read
# once, from its first character: texts are as long as records, and may be made to keep whoever reads them busy.
_NAMED = re.compile(r"(?<![A-Za-z0-9_.\-])([A-Za-z0-9_.\-]+)\\?[\"'`]?\s{0,4}[=:]\s{0,4}")
_NAME_OF_SECRET = re.compile(
    r"passw(?:or)?d|passphrase|pwd|secret|credential|access[_.\-]?key|account[_.\-]?key|api[_.\-]?key|private[_.\-]?key"
    r"|shared[_.\-]?key|session[_.\-]?token|sas[_.\-]?token|access[_.\-]?token|refresh[_.\-]?token|auth[_.\-]?token"
    r"|security[_.\-]?token|id[_.\-]?token|oauth[_.\-]?token|authorization|jaas"
    r"|\A(?:token|sig|pass|pw|x-amz-signature|x-amz-credential|x-goog-signature)\Z",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"(?:(?<==)>\s{0,4})?(\$\{[^}]{0,300}\}|\\\"[^\"]*\\\"|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
    r"|(?:Bearer|Basic)\s+[^\s,;&]+|[^\s,;&\"'{}\[\]()]+)",
    re.IGNORECASE,
)
_A_WORD = re.compile(
    r"pass|pwd|secret|credential|key|token|auth|jaas|sig|pw", re.IGNORECASE
)  # each of `_NAME_OF_SECRET` has one
_USER_IN_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]{0,40}:)?//[^/?#\s@\"'<>]*(?:@[^/?#\s@\"'<>]*)*@(?=[^\s/])")
_PASSWORD_IN_URL = re.compile(r"//[^/?#@:\s\"']*:[^/?#\s\"']+@")
_SHAPES = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]*-----END [A-Z ]*PRIVATE KEY-----|[\s\S]*)"
    r"|\beyJ[A-Za-z0-9_\-]{5,1000}\.[A-Za-z0-9_\-]{5,}(?:\.[A-Za-z0-9_\-]*)?"
    r"|\b(?:Bearer|Basic)\s+[A-Za-z0-9+/_.~\-]{8,}=*"
    r"|\b(?:ghp|gho|ghs|github_pat|glpat|hf|sk|xox[abp])[_\-][A-Za-z0-9_\-]{16,}"
)
_SHORTEST_SHAPE = len("eyJ") + 5 + len(".") + 5  # of those in `_SHAPES`
_REFERENCE = re.compile(r"[\"'`]?\$\{[^}]*\}?[\"'`]?")
HIDDEN = "***"
_FLOW_VALUE = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|[^\s\"'{\[,}\]][^,{}\[\]]*")
_KEY_IN_LINE = re.compile(r"(?<![A-Za-z0-9_.\-])[\"']?([A-Za-z0-9_.\-]+)[\"']?\s*:\s+(?=\S)")
_SAYS_NOTHING = re.compile(
    r"[\"']?(?:\$\{[^}]*\}|string|boolean|int|integer|long|bigint|float|double|date|time|timestamp\w*|uuid|binary|true|false|null)"
    r"[\"']?\s*(?:[,}\]#].*)?$"
)


@lru_cache(maxsize=1024)
def is_secret_name(key: str) -> bool:
    """Whether a setting or a field of this name holds a secret."""
    if _NAMES_ONLY.search(key) or key.lower().startswith("enable."):
        return False
    folded = key.lower()
    if folded.startswith("header."):
        return folded.removeprefix("header.") not in HEADERS
    words = [word.lower() for word in _PART.findall(key)]
    alone = _ALONE | _ALONE_ELSEWHERE if folded.startswith(_ELSEWHERE) else _ALONE
    last = _last_secret(words, alone)
    return last is not None and not (set(words[last + 1 : last + 3]) & _ABOUT)


def _last_secret(words: list[str], alone: frozenset[str]) -> int | None:
    """Where the last word for a secret ends: names of two words count at the second."""
    found = None
    for at, word in enumerate(words):
        pair = words[at - 1] + word if at else word
        if word in alone or any(each in word or (each in pair and pair.endswith(each)) for each in _ANYWHERE):
            found = at
    return found


def holds_secret(value: str) -> bool:
    """Whether a value, whatever its name is, has a secret in it: a password in an address, a query, an option or a
    header."""
    # The cheap questions come first: the patterns take longer than all else that is asked of a file.
    if len(value) >= _SHORTEST_SHAPE and _SHAPES.search(value):
        return True
    if "//" in value and _PASSWORD_IN_URL.search(value):
        return True
    if not (":" in value or "=" in value) or not _A_WORD.search(value):
        return False
    return any(not _REFERENCE.fullmatch(pair.value) and pair.value != HIDDEN for pair in _pairs(value))


def is_secret_setting(key: str, value: str) -> bool:
    """Whether a setting stands there as a secret in clear."""
    if value.lower() in ("true", "false", "none", ""):  # says whether, and holds nothing
        return False
    return is_secret_name(key) or holds_secret(value)


def redacted(text: str) -> str:
    """A text of any origin without the secrets that can be recognized by their shape or by the name before them."""
    text = _USER_IN_URL.sub(lambda found: f"{found[1] or ''}//{HIDDEN}@", text)
    text = _SHAPES.sub(HIDDEN, text)
    return _with_values(text, _hidden)


@dataclass(frozen=True)
class _Pair:
    """The value of a name of a secret, and where it is."""

    value: str
    start: int
    end: int


def _pairs(text: str) -> Iterator[_Pair]:
    at = 0
    while named := _NAMED.search(text, at):
        at = named.end()
        # `${secret:...}` is a reference and no secret; `${my_secret:...}` is none of floe's.
        first = 1 if text.endswith("${", 0, named.start()) else 0
        if _NAME_OF_SECRET.search(named[1], first) and (value := _VALUE.match(text, at)):
            at = value.end()
            yield _Pair(value[1], value.start(1), at)


def _with_values(text: str, shown: Callable[[str], str]) -> str:
    """The text with each value of a name of a secret as it is shown."""
    parts, at = [], 0
    for pair in _pairs(text):
        parts += [text[at : pair.start], shown(pair.value)]
        at = pair.end
    return "".join([*parts, text[at:]])


def _hidden(value: str) -> str:
    if _REFERENCE.fullmatch(value):
        return value
    quote = value[0] if value[0] in "\"'" else ""
    return f"{quote}{HIDDEN}{quote}"


def masked_line(line: str) -> str:
    """A line of a file as it may be shown, with `*` for each character of what stands behind a name of a secret, so
    that columns stay. Words that say a type stay, too, since a field may be named like a secret."""
    out = _USER_IN_URL.sub(
        lambda found: found[1] + "*" * (len(found[0]) - len(found[1] or "")) if found[1] else found[0], line
    )
    out = _SHAPES.sub(lambda found: "*" * len(found[0]), out)
    out = _with_values(out, lambda value: value if _SAYS_NOTHING.fullmatch(value) else "*" * len(value))
    for found in _KEY_IN_LINE.finditer(out):
        rest = out[found.end() :]
        if is_secret_name(found[1]) and not _SAYS_NOTHING.match(rest):
            # A plain value of a flow mapping ends at a comma or bracket; every other one may go on to the end of the
            # line.
            ends = _FLOW_VALUE.match(rest) if re.search(r"[{\[]", out[: found.start()]) else None
            length = len(ends[0]) if ends else len(rest)
            out = out[: found.end()] + re.sub(r"\S", "*", rest[:length]) + rest[length:]
    return out
