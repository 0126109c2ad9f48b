"""Tokens of OAuth2 for a REST catalog: asked for in bounded time, ahead of their end, and anew after one was refused.

In: PyIceberg's provider of tokens, as it made it of `auth`. Out: tokens, or `NoToken`, whose words hold no secret. Goes when
PyIceberg bounds these requests and drops a token that the catalog refuses.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import requests
from pydantic import ValidationError
from pyiceberg.catalog.rest.auth import OAuth2TokenProvider
from pyiceberg.catalog.rest.response import OAuthErrorResponse, TokenResponse
from typing_extensions import override

from framework.adapters.secrets import hidden


class NoToken(Exception):
    """The server of tokens does not answer, or gives none."""


class BoundedTokens(OAuth2TokenProvider):
    """As PyIceberg's, with an end to each request. Safe for threads.

    Args:
        on_failure: called where no token is given, before `NoToken` is raised.
        authorities: a file with those whose servers are trusted; True: as always.
    """

    def __init__(
        self,
        of: OAuth2TokenProvider,
        timeout_s: tuple[float, float],
        on_failure: Callable[[], None],
        authorities: str | bool | None = True,
    ) -> None:
        super().__init__(of.client_id, of.client_secret, of.token_url, of.scope, of.refresh_margin, of.expires_in)
        self._timeout_s = timeout_s
        self._authorities = authorities
        self._on_failure = on_failure

    def forget(self) -> None:
        """The catalog has refused the token: the next request asks for another."""
        with self._lock:
            self._token = None

    @override
    def _refresh_token(self) -> None:
        try:
            found = self._asked_for()
        except (requests.RequestException, ValueError) as error:
            self._on_failure()
            raise self._none(_words(error)) from error
        lives_s = found.expires_in or self.expires_in
        if lives_s is None:
            self._on_failure()
            raise self._none("neither its answer nor `expires_in` of `auth.oauth2` says how long one lives")
        self._token = found.access_token
        # A token that lives for less than the margin would be asked for with every request.
        self._expires_at = time.monotonic() + lives_s - min(self.refresh_margin, lives_s / 2)  # type: ignore[assignment]

    def _none(self, why: str) -> NoToken:
        # No `token:` stands before the reason, which would be hidden like a token.
        return NoToken(f"{hidden(self.token_url)} gives no token ({why})")

    def _asked_for(self) -> TokenResponse:
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        headers = {"Authorization": self._client_secret_header}
        answer = requests.post(
            self.token_url, data=form, headers=headers, timeout=self._timeout_s, verify=self._authorities
        )
        answer.raise_for_status()
        return TokenResponse.model_validate_json(answer.text)


def _words(error: Exception) -> str:
    """What a server said, by the standard's own words where it has them. An answer that is no token may hold one, so
    nothing of it is repeated."""
    response = getattr(error, "response", None)
    if response is not None:
        try:
            said = OAuthErrorResponse.model_validate_json(response.text)
            return hidden(f"{response.status_code} {said.error}: {said.error_description or 'no further words'}")
        except ValidationError:
            return f"{response.status_code} {response.reason}"
    if isinstance(error, requests.RequestException):
        return hidden(str(error).splitlines()[0] if str(error) else type(error).__name__)
    return "its answer is no token"
