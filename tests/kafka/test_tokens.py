"""Kafka with tokens: those of an OpenID provider, which librdkafka asks for, and those of AWS, which floe has signed."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.client import ClientLog, build, client_config
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.adapters.kafka.control.transactions import PipelineProducer
from framework.adapters.kafka.reader import CompiledReader, PartitionReader, PythonReader, compiled
from framework.adapters.kafka.tokens import plain_settings, token_of
from framework.commit.events.event_types import CommitRequested
from framework.config.settings.known import client
from framework.diagnose.secrets import is_secret_name
from framework.errors import SetupError
from framework.record.model import TaskRange
from testbed.servers.msk import owner_of
from testbed.servers.s3 import SIGNER, client_packages
from tests.token_broker import ACCESS_KEY, REGION, SECRET_KEY, TokenBroker

pytestmark = [pytest.mark.kafka]
RECORDS = 20
LIFETIME_S = 15.0  # the least that docs/security.md allows
READERS = (CompiledReader, PythonReader)


@pytest.fixture(scope="module")
def oidc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenBroker]:
    broker = TokenBroker(tmp_path_factory.mktemp("oidc"), LIFETIME_S)
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture(autouse=True)
def loaded() -> None:
    assert compiled(), "the compiled reader cannot be used"


@pytest.fixture
def provider_as_before(oidc: TokenBroker) -> Iterator[None]:
    yield
    oidc.identity.status = 200
    oidc.identity.silent.clear()
    oidc.identity.audience = "kafka"


@pytest.fixture(scope="module")
def msk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenBroker]:
    broker = TokenBroker(tmp_path_factory.mktemp("msk"), msk=True)
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def signer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """AWS's own, with credentials in the environment, and none of this machine's."""
    monkeypatch.syspath_prepend(str(client_packages()))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setattr("framework.adapters.kafka.tokens._made", {})
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    return MSKAuthTokenProvider


def read(reader: PartitionReader, task_range: TaskRange) -> int:
    """How many records the reader gives within ten seconds."""
    reader.assign(task_range, 1 << 20)
    deadline, held = time.monotonic() + 10, 0
    while held < task_range.end and time.monotonic() < deadline:
        held = reader.poll(task_range.end, 1 << 20, task_range.end, 0.05).records
    reader.unassign()
    return held


def filled(broker: TokenBroker) -> TaskRange:
    topic = broker.plain.new_topic("tokens")
    broker.plain.produce(topic, [{"n": n} for n in range(RECORDS)])
    facts = KafkaAdmin({"bootstrap.servers": broker.plain.bootstrap_servers}).topics([topic])[topic]
    return TaskRange(topic, facts.topic_id, 0, 0, RECORDS)


@pytest.mark.parametrize("reader_type", READERS)
def test_a_reader_that_rested_goes_on(oidc: TokenBroker, reader_type: Callable[[Any], PartitionReader]) -> None:
    """Between two task ranges nobody looks at a reader, and its token ends."""
    task_range, reader = filled(oidc), reader_type(oidc.settings())
    assert read(reader, task_range) == RECORDS
    time.sleep(LIFETIME_S * 1.5)
    begun = time.monotonic()
    assert read(reader, task_range) == RECORDS
    assert time.monotonic() - begun < 2
    assert reader.log.newest == ""


@pytest.mark.parametrize("trouble", ["wrong secret", "shut out", "gone", "another audience", "silent"])
@pytest.mark.usefixtures("provider_as_before")
def test_no_token_names_who_gave_none(oidc: TokenBroker, trouble: str) -> None:
    """The error comes soon, names the provider or, where that gave a token, the broker, and says what to look at; no secret
    is in it."""
    settings = {**oidc.settings(), "client.id": trouble.replace(" ", "-")}
    place, words = oidc.identity.uri, "sasl.oauthbearer.client.id"
    match trouble:
        case "wrong secret":
            settings["sasl.oauthbearer.client.secret"] = "not-the-secret-of-this-client"
        case "shut out":
            oidc.identity.status = 401
        case "gone":
            settings["sasl.oauthbearer.token.endpoint.url"] = place = "http://127.0.0.1:9/token"
        case "another audience":
            oidc.identity.audience = "somebody-else"
            place, words = oidc.address, "audience"
        case "silent":
            oidc.identity.silent.set()
            place, words = oidc.address, oidc.identity.uri
    begun = time.monotonic()
    with pytest.raises(SetupError) as raised:
        KafkaAdmin(settings).check()
    assert time.monotonic() - begun < 12
    assert raised.value.code == ("FLOE-E101" if trouble == "silent" else "FLOE-E115")
    assert raised.value.place == place
    assert words in raised.value.remedy
    assert settings["sasl.oauthbearer.client.secret"] not in f"{raised.value}{raised.value.remedy}"


def test_settings_of_tokens_that_hold_secrets() -> None:
    """Of all that librdkafka has for tokens, these hold a secret, and are never shown."""
    known = [key for key in client("librdkafka").values if key.startswith("sasl.oauthbearer.")]
    assert [key for key in known if is_secret_name(key)] == [
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.secret",
    ]


# ---- Amazon MSK


def test_a_token_is_a_url_that_aws_would_take(msk: TokenBroker, signer: ModuleType) -> None:
    """The signer's token, by its text: where it leads, what for, until when; its signature is the one of the secret key."""
    settings = msk.msk_settings()
    token = token_of(settings)
    url = urlsplit(base64.urlsafe_b64decode(token.value + "=" * (-len(token.value) % 4)).decode())
    said = parse_qs(url.query)
    assert (url.scheme, url.hostname) == ("https", f"kafka.{REGION}.amazonaws.com")
    assert (said["Action"], said["X-Amz-Expires"]) == (["kafka-cluster:Connect"], ["900"])
    assert 890 < token.ends_at_s - time.time() < 901
    assert 440 < token.renew_at_s - time.time() < 451
    assert owner_of(token.value, {ACCESS_KEY: SECRET_KEY}, time.time()) == (ACCESS_KEY, token.ends_at_s)
    assert owner_of(token.value, {ACCESS_KEY: "another"}, time.time()) is None
    assert token_of(settings) is token


def test_settings_of_msk_are_those_of_tls() -> None:
    """Without a word of the target tokens travel encrypted; nothing of `auth` reaches librdkafka."""
    settings = {"bootstrap.servers": "b:9098", "auth.type": "msk_iam", "auth.msk_iam.region": REGION}
    expected = {"bootstrap.servers": "b:9098", "security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"}
    assert plain_settings(settings) == expected


@pytest.mark.slow
@pytest.mark.parametrize("reader_type", READERS)
def test_everything_that_talks_to_msk_renews(
    msk: TokenBroker,
    signer: ModuleType,
    reader_type: Callable[[Any], PartitionReader],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tokens end every half minute: an admin client, a transactional producer and a reader go on, each with new ones."""
    monkeypatch.setattr(signer, "DEFAULT_TOKEN_EXPIRY_SECONDS", 30)
    settings, task_range, before = msk.msk_settings(), filled(msk), len(msk.msk.seen)
    control = f"control-{reader_type.__name__}"
    ensure_control_topic(KafkaAdmin(settings), control)
    producer = PipelineProducer(settings, control, control, control)
    producer.start()
    admin, reader = KafkaAdmin(settings), reader_type(settings)
    longest, number, end = 0.0, 0, time.monotonic() + 50
    while time.monotonic() < end:
        begun, number = time.monotonic(), number + 1
        assert read(reader, task_range) == RECORDS
        producer.announce((CommitRequested("r", "orders", 1),), {(task_range.topic, 0): (number, "")})
        assert admin.topics([task_range.topic])
        longest = max(longest, time.monotonic() - begun)
        time.sleep(1)
    producer.close()
    assert longest < 3
    assert len(msk.msk.seen) - before >= 3
    assert msk.msk.refused == 0


def test_no_credentials_of_aws_are_told(msk: TokenBroker, signer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, with what to type, and before librdkafka waits for a token."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    begun = time.monotonic()
    with pytest.raises(SetupError, match="no credentials were found") as raised:
        KafkaAdmin(msk.msk_settings()).check()
    assert (raised.value.code, raised.value.place) == ("FLOE-E115", f"AWS IAM, {REGION}")
    assert "aws sts get-caller-identity" in raised.value.remedy
    assert time.monotonic() - begun < 5


def test_a_key_that_aws_does_not_know_is_refused_by_the_broker(
    msk: TokenBroker, signer: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signed with another key: the broker is named, and no key is shown."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-key-that-nobody-gave")
    with pytest.raises(SetupError, match="did not take the token") as raised:
        KafkaAdmin({**msk.msk_settings(), "client.id": "unknown-key"}).check()
    assert (raised.value.code, raised.value.place) == ("FLOE-E115", msk.address)
    assert "a-key-that-nobody-gave" not in str(raised.value)
    msk.msk.refused = 0


def test_an_old_token_is_used_to_its_end(msk: TokenBroker, signer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS is away while a token is good: nothing fails until that ends, and then it is said why."""
    monkeypatch.setattr(signer, "DEFAULT_TOKEN_EXPIRY_SECONDS", 3)
    settings = msk.msk_settings()
    old = token_of(settings)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    while time.time() < old.renew_at_s + 0.2:
        time.sleep(0.1)
    assert token_of(settings).value == old.value
    while time.time() < old.ends_at_s:
        time.sleep(0.1)
    with pytest.raises(SetupError, match="no credentials were found"):
        token_of(settings)


def test_a_missing_signer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, SIGNER, None)
    settings = {"bootstrap.servers": "b:9098", "auth.type": "msk_iam", "auth.msk_iam.region": REGION}
    with pytest.raises(SetupError) as raised:
        build(dict, settings, client_config(settings, ClientLog()))
    assert raised.value.code == "FLOE-E115"
    assert raised.value.remedy.startswith("pip install aws-msk-iam-sasl-signer-python")


_FORGOTTEN_CLIENT = """
import gc, sys, time
from confluent_kafka.admin import AdminClient
from framework.adapters.kafka import client
from framework.adapters.kafka.tokens import BrokerToken

asked = []

def token_of(settings):
    if asked:  # in librdkafka's thread: collects what nobody refers to, as a signer that makes many objects does
        gc.set_threshold(1)
        keep = [[number] for number in range(5000)]
        gc.set_threshold(100_000)
    asked.append(None)

    return BrokerToken("token", time.time() + 1, time.time() + 1)

client.token_of = token_of
gc.set_threshold(100_000)
settings = {"bootstrap.servers": "127.0.0.1:1", "auth.type": "msk_iam", "auth.msk_iam.region": "eu-west-1"}
ring = [client.build(AdminClient, settings, client.client_config(settings, client.ClientLog()))]
ring.append(ring)
del ring
time.sleep(4)
assert len(asked) > 2, "librdkafka has asked for no token"
assert gc.isenabled()
"""


def test_a_client_that_nobody_refers_to_is_not_ended_by_its_own_thread() -> None:
    """Where Python collects garbage while librdkafka asks for a token, in a thread of the client's own, it ends no client
    there: librdkafka would abort the whole process."""
    done = subprocess.run(
        [sys.executable, "-c", _FORGOTTEN_CLIENT], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_tokens_alone_are_asked_for_in_threads_of_a_client() -> None:
    """Errors are told to whoever polls. Any other callback has to say here whose thread it is called in."""
    framework = Path(__file__).parents[2] / "framework"
    found = {name for path in framework.rglob("*.py") for name in re.findall(r'"(\w+_cb)"', path.read_text())}
    assert found == {"error_cb", "oauth_cb"}
