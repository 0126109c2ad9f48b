"""`auth` and `ssl` of a REST catalog: what PyIceberg's own ways take can be written, as far as it is text, and nothing else."""

from __future__ import annotations

import inspect

import pytest
from pyiceberg.catalog import rest
from pyiceberg.catalog.rest.auth import AuthManagerFactory

from framework.adapters.catalog_auth import with_mappings
from framework.config.schema.document_schema import resolved
from framework.config.spec import SecretRef
from framework.diagnose.render import FORMATS, render
from tests.unit.config.in_memory import TARGET, load, over

SECRET = "hunter2-very-secret"
OAUTH2 = "client_id: floe, client_secret: '${secret:env:S}', token_url: 'https://login/token'"
# Ways that cannot be written as text, each refused by name.
REFUSED = {"legacyoauth2"}


def target(auth: str, others: str = "", kind: str = "rest") -> str:
    return over(
        TARGET,
        "connections:\n  kafka: {main: {bootstrap.servers: b:9092}}\n"
        f"  catalog: {{default: {{type: {kind}, uri: 'http://c'{others}, auth: {auth}}}}}",
    )


def findings(auth: str, others: str = "", kind: str = "rest", allow: str = "") -> list[tuple[str, str]]:
    text = target(auth, others, kind)
    if allow:
        text = over(text, f"allow: {{settings: [{allow}]}}")
    found = load(files={"targets/local.yaml": text}).diagnostics
    assert all(one.remedy or one.hint for one in found)
    return [(one.code, one.path.removeprefix("connections.catalog.default.")) for one in found]


def ways() -> dict[str, set[str]]:
    """The ways that the schema takes, each with its keys."""
    connections = resolved("target")["properties"]["connections"]["properties"]
    auth = connections["catalog"]["additionalProperties"]["properties"]["auth"]["properties"]
    return {way: set(auth.get(way, {}).get("properties", {})) for way in auth["type"]["enum"]}


def test_every_way_of_pyiceberg_is_taken_with_its_keys_or_refused() -> None:
    """A version of PyIceberg with another way, or another key of one, fails here until it is judged."""
    registered = AuthManagerFactory._registry
    assert set(registered) == set(ways()) | REFUSED
    for way, keys in ways().items():
        parameters = inspect.signature(registered[way].__init__).parameters.values()
        named = {one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD} - {"self"}
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters) and way != "noop"
        assert named <= keys if takes_any else named - {"args", "kwargs"} == keys, way


def test_each_value_stands_in_the_target_as_one_setting() -> None:
    """The secret is a reference until the driver reads it; numbers and lists are text, as all settings are."""
    files = {"targets/local.yaml": target(f"{{type: oauth2, oauth2: {{{OAUTH2}, refresh_margin: 5, x-note: mine}}}}")}
    pipeline = load(files=files).pipeline
    assert pipeline is not None
    settings = pipeline.target.catalogs["default"]
    assert {key: value for key, value in settings.items() if key.startswith("auth")} == {
        "auth.type": "oauth2",
        "auth.oauth2.client_id": "floe",
        "auth.oauth2.client_secret": SecretRef("env", "S"),
        "auth.oauth2.token_url": "https://login/token",
        "auth.oauth2.refresh_margin": "5",
    }
    files = {"targets/local.yaml": target("{type: google, google: {scopes: [a, b]}}")}
    pipeline = load(files=files).pipeline
    assert pipeline is not None
    assert pipeline.target.catalogs["default"]["auth.google.scopes"] == "a b"


@pytest.mark.parametrize(
    "auth",
    [
        "{type: noop}",
        "{type: basic, basic: {username: u, password: '${secret:env:P}'}}",
        f"{{type: oauth2, oauth2: {{{OAUTH2}, scope: 'a b', refresh_margin: 0, expires_in: 300}}}}",
        "{type: google}",
        "{type: google, google: {credentials_path: /etc/google.json, scopes: [a]}}",
        "{type: entra, entra: {managed_identity_client_id: x}}",
        "{type: '${env:HOW}', basic: {username: u, password: '${secret:env:P}'}}",
    ],
)
def test_what_can_be_written_is_taken(auth: str) -> None:
    """Each way in its shortest and its longest form."""
    files = {"targets/local.yaml": target(auth)}
    assert load(files=files, env={"HOW": "basic"}).ok


@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        ("{type: custom, impl: acme.Login}", ("FLOE-C713", "auth.type")),
        ("{type: os.system, os.system: {command: x}}", ("FLOE-C713", "auth.type")),
        ("{type: legacyoauth2, legacyoauth2: {credential: x}}", ("FLOE-C713", "auth.type")),
        ("{type: basik}", ("FLOE-C204", "auth.type")),
        ("{basic: {username: u, password: '${secret:env:P}'}}", ("FLOE-C202", "auth.type")),
        ("{type: basic}", ("FLOE-C713", "auth.basic")),
        ("{type: basic, basic: {username: u}}", ("FLOE-C202", "auth.basic.password")),
        ("{type: basic, basic: {username: u, passwort: '${secret:env:P}'}}", ("FLOE-C201", "auth.basic.passwort")),
        (f"{{type: noop, oauth2: {{{OAUTH2}}}}}", ("FLOE-C713", "auth.oauth2")),
        ("{type: noop, impl: acme.Login}", ("FLOE-C201", "auth.impl")),
        (f"{{type: oauth2, oauth2: {{{OAUTH2}, refresh_margin: soon}}}}", ("FLOE-C203", "auth.oauth2.refresh_margin")),
        ("{type: google, google: {scopes: [a b]}}", ("FLOE-C215", "auth.google.scopes[0]")),
        ("oauth2", ("FLOE-C203", "auth")),
    ],
)  # fmt: skip
def test_each_mistake_has_a_code_a_place_and_a_remedy(auth: str, expected: tuple[str, str]) -> None:
    """One finding, at the key or the value that is wrong."""
    assert findings(auth)[0] == expected
    assert len(findings(auth)) == 1 or expected[0] in ("FLOE-C202", "FLOE-C201")


def test_an_address_of_tokens_is_one_of_http() -> None:
    """A token's address that no client takes is found before a run."""
    wrong = OAUTH2.replace("https://login/token", "login/token")
    assert findings(f"{{type: oauth2, oauth2: {{{wrong}}}}}") == [("FLOE-C709", "auth.oauth2.token_url")]


@pytest.mark.parametrize("name", ["credential", "token", "oauth2-server-uri", "scope", "audience", "resource"])
def test_what_pyiceberg_passes_over_beside_auth_is_told(name: str) -> None:
    """A secret that is read by nobody helps nobody."""
    assert findings("{type: noop}", f", {name}: '${{secret:env:X}}'") == [("FLOE-C713", name)]


def test_it_is_for_pyicebergs_rest_catalog_alone() -> None:
    """Other kinds pass over it, and a class of one's own gets its own settings."""
    assert findings("{type: noop}", kind="glue") == [("FLOE-C713", "auth")]
    assert findings("{type: noop}", ", py-catalog-impl: acme.Rest") == [("FLOE-C713", "auth")]


@pytest.mark.parametrize("key", ["auth.type", "auth.impl", "auth.custom.x"])
def test_no_target_lets_a_class_through(key: str) -> None:
    """`allow.settings` names settings that floe does not know; none of them names a class for a way in."""
    assert ("FLOE-C713", "auth.type") in findings("{type: custom, impl: os.system}", allow='auth, "auth.*"')
    found = findings("{type: noop}", f", {key}: os.system", allow='auth, "auth.*"')
    assert ("FLOE-C713", key) in found


@pytest.mark.parametrize("way", sorted(ways()))
def test_no_secret_of_any_way_is_written_in_clear_or_shown(way: str) -> None:
    """Each key that PyIceberg keeps a secret in is refused in clear, and no format of a finding repeats it."""
    secrets = [key for key in ways()[way] if key in ("password", "client_secret")]
    assert bool(secrets) == (way in ("basic", "oauth2"))
    for broken in ("", ", typo", ", type: noop"):
        for key in secrets:
            text = target(f"{{type: {way}, {way}: {{{key}: {SECRET}{broken}}}}}")
            result = load(files={"targets/local.yaml": text})
            assert not result.ok
            assert broken == ", typo" or "FLOE-C311" in [one.code for one in result.diagnostics]
            assert all(SECRET not in render(result.diagnostics, name) for name in FORMATS)
    text = target(f"{{type: {way}, {way}: {{scope: x}}, oauth2: {{client_secret: ['{SECRET}', {{a: {SECRET}}}]}}}}")
    found = load(files={"targets/local.yaml": text}).diagnostics
    assert all(SECRET not in render(found, name) for name in FORMATS)


def test_every_certificate_that_pyiceberg_takes_can_be_written() -> None:
    """With its names: a version of PyIceberg with others fails here until they are judged."""
    connections = resolved("target")["properties"]["connections"]["properties"]
    found = connections["catalog"]["additionalProperties"]["properties"]["ssl"]["properties"]
    assert set(found) == {rest.CA_BUNDLE, rest.CLIENT}
    assert set(found[rest.CLIENT]["properties"]) == {rest.CERT, rest.KEY}
    files = {"targets/local.yaml": target("{type: noop}", ", ssl: {cabundle: /ca, client: {cert: /c, key: /k}}")}
    pipeline = load(files=files).pipeline
    assert pipeline is not None
    settings = pipeline.target.catalogs["default"]
    plain = {key: str(value) for key, value in settings.items()}
    assert with_mappings(plain)[rest.SSL] == {"cabundle": "/ca", "client": {"cert": "/c", "key": "/k"}}


@pytest.mark.parametrize(
    ("others", "kind", "found"),
    [
        (", ssl: {cabundle: /ca}", "sql", {("FLOE-C713", "ssl"), ("FLOE-C713", "auth")}),
        (", ssl: {cabundel: /ca}", "rest", {("FLOE-C201", "ssl.cabundel")}),
        (", ssl: {client: {key: /k}}", "rest", {("FLOE-C202", "ssl.client.cert")}),
        (", ssl.cabundle: /ca", "rest", {("FLOE-C713", "ssl.cabundle")}),
    ],
)
def test_certificates_that_are_not_read_are_told(others: str, kind: str, found: set[tuple[str, str]]) -> None:
    """Misspelt, incomplete, written flat, or of a catalog that is not asked over HTTP."""
    assert found <= set(findings("{type: noop}", others, kind))
