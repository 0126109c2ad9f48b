"""Who may ask, and under which name of the host: tokens with roles, and the names that a browser may have been led by.

In: the text of a token file, headers. Out: an `Identity` or None. Invariant: a token is compared by its digest, in
constant time, with all that there are; no token is kept, shown or logged.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from framework.config.rules.target.monitoring import is_loopback
from framework.errors import SetupError

SHORTEST = 24
MAKE_ONE = 'umask 077; echo "ann act $(openssl rand -hex 32)" >> FILE'
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}\Z")
_HASHED = re.compile(r"sha256:([0-9a-f]{64})\Z")


class Role(str, Enum):
    """What a token allows; who may act may also read."""

    READ = "read"
    ACT = "act"


@dataclass(frozen=True)
class Identity:
    """Who asks. `name` stands in the control log beside what was done; "" for anybody on this machine."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        return role is Role.READ or self.role is Role.ACT


@dataclass(frozen=True)
class Token:
    who: Identity
    digest: bytes


ANYBODY = Identity("", Role.READ)


def parse_tokens(text: str, place: str) -> tuple[Token, ...]:
    """The tokens of a file: on each line a name, a role and a token, or `sha256:` and the token's hash.

    Raises:
        SetupError: FLOE-E037, a line has another form, or there is none. The message repeats no token.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        words = line.split()
        if len(words) != 3 or not _NAME.match(words[0]) or words[1] not in (Role.READ.value, Role.ACT.value):
            raise refused(f"line {number} is not `NAME read|act TOKEN`", f"{place}:{number}")
        hashed = _HASHED.match(words[2])
        if hashed is None and len(words[2]) < SHORTEST:
            raise refused(f"the token of line {number} has fewer than {SHORTEST} characters", f"{place}:{number}")
        digest = bytes.fromhex(hashed[1]) if hashed else _digest(words[2])
        found.append(Token(Identity(words[0], Role(words[1])), digest))
    if not found:
        raise refused("there is no token in the file", place)
    return tuple(found)


def token_of(name: str, role: Role, token: str) -> Token:
    """A token that stands in no file."""
    return Token(Identity(name, role), _digest(token))


def refused(message: str, place: str, remedy: str = f"make one: `{MAKE_ONE}`") -> SetupError:
    return SetupError(message, code="FLOE-E037", place=place, remedy=remedy)


def who(authorization: str, tokens: Iterable[Token]) -> Identity | None:
    """Whose token the header brings; None for nobody's."""
    kind, _, given = authorization.partition(" ")
    digest = _digest(given.strip())
    found = None
    for token in tokens:  # all of them: the time says nothing about which one was nearly right
        if hmac.compare_digest(digest, token.digest):
            found = token.who
    return found if kind.lower() == "bearer" else None


def needs_tokens(host: str) -> bool:
    """Whether others can reach the address."""
    return not is_loopback(host)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


@dataclass(frozen=True)
class Access:
    """`tokens` gives those that count now; None: there is no token file, so that anybody may read and nobody act.
    `names` are what the host may be called beside addresses and `localhost`."""

    tokens: Callable[[], Sequence[Token]] | None = None
    names: tuple[str, ...] = ()

    def identity(self, authorization: str) -> Identity | None:
        return ANYBODY if self.tokens is None else who(authorization, self.tokens())
