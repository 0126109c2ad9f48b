"""Everybody who reads what floe writes: files, plans, command lines, the control topic, messages: they want a secret.

What is a secret is a rule by class, so the lists here are what libraries offer, not what the rule knows: each setting
that librdkafka, PyIceberg, Hadoop and Spark have is asked, and a new version that offers another one is judged or
fails.
"""

from __future__ import annotations

import ast
import ctypes
import json
import re
import zipfile
from pathlib import Path

import confluent_kafka
import pyiceberg
import pyspark
import pytest

from framework.adapters.secrets import _KNOWN, hidden, resolve
from framework.cli.main import run_main
from framework.config.spec import SecretRef
from framework.diagnose.render import FORMATS, render
from framework.diagnose.secrets import HEADERS, holds_secret, is_secret_name, masked_line, redacted
from framework.errors import SetupError
from framework.ops.doctor.model import ask, ok
from tests.unit.config.in_memory import PIPELINE, TARGET, codes, load, over

SECRET = "hunter2-very-secret"

# ---- by name: what each library calls a secret ----------------------------------------------------------------------

KAFKA = {
    "ssl.key.password", "ssl.key.pem", "ssl.keystore.password", "sasl.password", "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.private.key.pem",
}  # fmt: skip
ICEBERG = {
    "adls.account-key", "adls.client-secret", "adls.connection-string", "adls.credential", "adls.sas-token", "adls.token",
    "client.secret-access-key", "client.session-token", "credential", "dynamodb.secret-access-key", "dynamodb.session-token",
    "gcp.bigquery.credentials-info", "gcs.oauth2.token", "glue.secret-access-key", "glue.session-token", "hf.token",
    "s3.secret-access-key", "s3.session-token", "token",
}  # fmt: skip
# No settings: a header's name, words of a grant, and a value of a header.
ICEBERG_WORDS = {"Authorization", "Bearer", "client_credentials", "client_secret", "header.", "vended-credentials"}
HADOOP = {
    "fs.adl.oauth2.credential", "fs.adl.oauth2.refresh.token", "fs.s3a.access.key", "fs.s3a.encryption.key",
    "fs.s3a.proxy.password", "fs.s3a.secret.key", "fs.s3a.session.token", "ha.zookeeper.auth", "hadoop.zk.auth",
    "hadoop.security.group.mapping.ldap.bind.password", "hadoop.security.group.mapping.ldap.ssl.keystore.password",
    "hadoop.zk.ssl.keystore.password", "hadoop.zk.ssl.truststore.password",
}  # fmt: skip
# Named like a secret, and refused in clear as well: whoever needs one gives it to the cluster's own configuration.
HADOOP_REFUSED = {
    "fs.azure.authorization", "fs.azure.saskey.usecontainersaskeyforallaccess", "hadoop.registry.jaas.context",
    "hadoop.security.authorization", "hadoop.security.credential.clear-text-fallback",
    "hadoop.security.service.user.name.key", "hadoop.tokens", "ipc.client.fallback-to-simple-auth-allowed",
    "mapreduce.job.complete.cancel.delegation.tokens", "security.service.authorization.default.acl",
    "security.service.authorization.default.acl.blocked", "yarn.app.mapreduce.am.webapp.https.client.auth",
    "yarn.resourcemanager.delegation-token.always-cancel", "yarn.resourcemanager.delegation-token.max-conf-size-bytes",
    "yarn.resourcemanager.delegation.token.remove-scan-interval",
    "yarn.resourcemanager.zk-delegation-token-node.split-index",
}  # fmt: skip
# Of modules that Spark's own jars do not bring; their documents call them secrets.
FURTHER = {
    "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net", "spark.hadoop.fs.azure.sas.box.lake.blob.core.windows.net",
    "spark.hadoop.fs.azure.account.oauth2.client.secret.lake.dfs.core.windows.net",
    "spark.hadoop.fs.azure.sas.fixed.token.lake.dfs.core.windows.net", "spark.hadoop.fs.oss.accessKeySecret",
    "spark.hadoop.fs.oss.securityToken", "spark.hadoop.fs.obs.secret.key", "spark.hadoop.fs.cosn.userinfo.secretKey",
    "spark.hadoop.fs.gs.auth.service.account.private.key", "spark.hadoop.fs.gs.auth.client.secret",
    "spark.hadoop.fs.gs.encryption.key", "spark.hadoop.fs.gs.proxy.password", "spark.hadoop.fs.s3a.bucket.lake.secret.key",
    "spark.hadoop.javax.jdo.option.ConnectionPassword", "spark.hadoop.fs.swift.service.x.apikey",
    "spark.hadoop.fs.s3a.server-side-encryption.key", "spark.sql.catalog.lake.token", "spark.sql.catalog.lake.credential",
    "spark.sql.catalog.lake.s3.secret-access-key", "spark.sql.catalog.lake.jdbc.password", "spark.mesos.principal.secret",
    "spark.executorEnv.AWS_SECRET_ACCESS_KEY", "spark.executorEnv.AWS_SESSION_TOKEN", "spark.executorEnv.DB_PASS",
    "spark.executorEnv.API_KEY", "spark.executorEnv.SERVICE_KEY", "spark.yarn.appMasterEnv.GITHUB_PAT",
    "spark.kubernetes.driverEnv.REDIS_AUTH", "spark.kubernetes.authenticate.driver.oauthToken",
    "spark.kubernetes.authenticate.submission.oauthToken", "spark.ssl.keyPassword", "spark.ssl.historyServer.keyStorePassword",
    "header.Authorization", "header.X-Api-Key", "header.Cookie", "header.X-Whatever", "sasl.jaas.config", "SASL.Password",
    "basic.auth.user.info", "bearer.auth.token", "schema.registry.basic.auth.user.info", "adls.sas-token.lake",
    "s3.sse-c.customer.key.secret", "client_secret", "clientSecret", "CLIENT_SECRET", "dbPassword", "passwd", "passphrase",
}  # fmt: skip
NO_SECRETS = {
    "sasl.username", "sasl.mechanisms", "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.id", "ssl.key.location",
    "ssl.certificate.pem", "ssl.ca.pem", "ssl.keystore.location", "sasl.kerberos.keytab", "s3.access-key-id", "oauth2-server-uri",
    "client.access-key-id", "gcs.oauth2.token-expires-at", "s3.sse-kms-key-id", "token-refresh-enabled", "header.User-Agent",
    "header.X-Iceberg-Access-Delegation", "warehouse", "uri", "key.deserializer", "spark.authenticate", "adls.account-name",
    "spark.kubernetes.driver.secretKeyRef.KAFKA_PASSWORD", "spark.kubernetes.driver.secrets.kafka",
    "spark.kubernetes.executor.secrets.kafka", "spark.kubernetes.authenticate.submission.oauthTokenFile",
    "spark.hadoop.fs.s3a.aws.credentials.provider", "spark.hadoop.hadoop.security.credential.provider.path",
    "spark.hadoop.fs.azure.account.auth.type.lake.dfs.core.windows.net", "spark.io.encryption.keySizeBits",
    "spark.hadoop.fs.azure.account.oauth.provider.type.lake.dfs.core.windows.net", "spark.kerberos.keytab",
    "spark.hadoop.fs.azure.account.oauth2.client.endpoint.lake.dfs.core.windows.net", "spark.executorEnv.AWS_ACCESS_KEY_ID",
    "spark.executorEnv.PYTHONPATH", "spark.executorEnv.OMP_NUM_THREADS", "spark.kubernetes.container.image.pullSecrets",
    "compass", "passenger_count", "bypass", "monkey", "keyboard", "tokenizer_type", "order_id", "author", "spinner",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FURTHER))
def test_a_setting_of_this_class_is_a_secret(name: str) -> None:
    """Siblings that no list of ours holds are found by their words, however they are spelled."""
    assert is_secret_name(name)


@pytest.mark.parametrize("name", sorted(NO_SECRETS))
def test_what_only_speaks_of_a_secret_is_none(name: str) -> None:
    """Names of places, people and ways may stand in clear."""
    assert not is_secret_name(name)


def _librdkafka_settings(tmp_path: Path) -> set[str]:
    """Every setting of the library that runs here, as itself lists them."""
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    library, libc = ctypes.CDLL(str(next(folder.glob("librdkafka*")))), ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(libc.fopen(str(tmp_path / "conf").encode(), b"w"))
    library.rd_kafka_conf_properties_show(stream)
    libc.fclose(stream)
    names = (line.split("|")[0].strip() for line in (tmp_path / "conf").read_text().splitlines() if "|" in line)
    return {name for name in names if re.fullmatch(r"[a-z0-9._]+", name)}


def test_every_setting_of_librdkafka_is_judged(tmp_path: Path) -> None:
    """What librdkafka offers, and which of it is a secret. A version that offers another secret fails here."""
    settings = _librdkafka_settings(tmp_path)
    assert len(settings) > 150
    assert {name for name in settings if is_secret_name(name)} == KAFKA


def test_every_setting_of_pyiceberg_is_judged() -> None:
    """Each constant of PyIceberg that names a setting, of every catalog and FileIO, also of those that are not
    installed."""
    constants = {
        node.value.value
        for path in Path(pyiceberg.__file__).parent.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper()
    }  # fmt: skip
    assert {name for name in constants if is_secret_name(name)} == ICEBERG | ICEBERG_WORDS


def _in_jars() -> tuple[set[str], set[str]]:
    """The settings that Hadoop's defaults name, and those that Spark's classes do."""
    hadoop: set[str] = set()
    spark: set[str] = set()
    for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar"):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith("-default.xml"):
                    hadoop |= set(re.findall(r"<name>\s*([^<\s]+)\s*</name>", archive.read(name).decode()))
                elif jar.name.startswith("spark-") and name.endswith(".class"):
                    found = re.findall(rb"\x01..(spark\.[A-Za-z0-9._-]{3,80})", archive.read(name), re.DOTALL)
                    spark |= {each.decode() for each in found}
    return hadoop, spark


def test_every_setting_of_hadoop_and_spark_is_judged() -> None:
    """What the jars of this Spark name. A version that names another secret fails here until it is judged."""
    hadoop, spark = _in_jars()
    assert len(hadoop) > 1_000
    assert len(spark) > 1_000
    named = {name for name in hadoop if is_secret_name(f"spark.hadoop.{name}")}
    assert named - HADOOP_REFUSED == HADOOP
    assert {name for name in spark if is_secret_name(name)} >= {
        "spark.authenticate.secret", "spark.ssl.rpc.keyPassword", "spark.ssl.rpc.keyStorePassword",
        "spark.ssl.rpc.privateKeyPassword", "spark.ssl.rpc.trustStorePassword", "spark.connect.authenticate.token",
    }  # fmt: skip
    plain = {name for name in spark if re.search("password|secret|token", name.lower()) and not is_secret_name(name)}
    assert not [
        name for name in plain if not re.search("file|name|conf|length|secrets|keyref|itemkey|ratio", name.lower())
    ]


# ---- by shape: what stands in values and texts ----------------------------------------------------------------------

VALUES = [
    f"https://user:{SECRET}@host/x", f"https://:{SECRET}@host", f"postgresql+psycopg2://u:{SECRET}@h:5432/db",
    f"jdbc:postgresql://h/db?user=u&password={SECRET}", f"jdbc:sqlserver://h;user=u;password={SECRET};x=1",
    f"https://h/x?sig={SECRET}", f"https://h/x?sv=1&sig={SECRET}&se=2", f"https://h/x?token={SECRET}", f"https://h?api_key={SECRET}",
    f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={SECRET}==;EndpointSuffix=core.windows.net",
    f"Endpoint=sb://x/;SharedAccessKeyName=k;SharedAccessKey={SECRET}", f"-Djavax.net.ssl.keyStorePassword={SECRET} -Dx=1",
    f'org.apache.kafka.PlainLoginModule required username="u" password="{SECRET}";', f"Bearer {SECRET}", f"Basic {SECRET}=",
    f'{{"password": "{SECRET}"}}', f"{{'client_secret': '{SECRET}'}}", f"password => '{SECRET}'",
    f"s3.secret-access-key={SECRET}", f"X-Amz-Signature={SECRET}", f"host=h password='{SECRET}' dbname=x",
    f"Authorization: Bearer {SECRET}",
    f'{{\\"password\\": \\"{SECRET}\\"}}', f"hf_{'a' * 20}{SECRET}", f"eyJhbGciOi.{SECRET}.{SECRET}",
    f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----", f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}",
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_a_secret_is_known_by_its_shape(value: str) -> None:
    """Wanted: a secret under a harmless name, or inside of a longer text. Got: it is refused in files and hidden in
    texts."""
    assert holds_secret(value)
    for text in (redacted(value), redacted(f"ERROR could not connect to {value} now"), masked_line(f"x: {value}")):
        assert SECRET not in text
    assert redacted(redacted(value)) == redacted(value)


@pytest.mark.parametrize(
    "value",
    [
        "https://host:8181/catalog", "file:///data/lake", "s3://lake/a", "broker-1:9092,broker-2:9092", "user@example.org",
        "https://h/v1/oauth/tokens", "SASL_SSL", "PRINCIPAL_ROLE:ALL", "vended-credentials", "postgresql://u@h/db", "",
        "write `${secret:env:KAFKA_PASSWORD}` or `${secret:file:/path}`", "password=${secret:env:X}", "mailto:a@b",
        "the secret ${secret:vault:a} of `sasl.password` cannot be read", "`sasl.password` is a secret and is written in clear",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(value: str) -> None:
    """Addresses, names and floe's own sentences are shown as they are."""
    assert not holds_secret(value)


def test_a_secret_that_was_read_is_hidden_wherever_it_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wanted: a client's exception that repeats a password without any sign of it. Got: it is known, and hidden."""
    monkeypatch.setattr("framework.adapters.secrets._KNOWN", set(_KNOWN))
    monkeypatch.setenv("FLOE_X", SECRET)
    resolve({"uri": SecretRef("env", "FLOE_X")})
    assert hidden(f"no such host: {SECRET}:9092, tried {SECRET}") == "no such host: ***:9092, tried ***"


# ---- files ----------------------------------------------------------------------------------------------------------

CONNECTIONS = """\
connections:
  kafka: {{main: {{bootstrap.servers: "b:1"{}}}}}
  catalog: {{default: {{type: rest, uri: "{}"{}}}}}
spark: {{conf: {{{}}}}}
"""


@pytest.mark.parametrize(
    "target",
    [
        CONNECTIONS.format(f", ssl.key.password: {SECRET}", "http://c", "", ""),
        CONNECTIONS.format(f", ssl.key.pem: {SECRET}", "http://c", "", ""),
        CONNECTIONS.format("", f"http://c?password={SECRET}", "", ""),
        CONNECTIONS.format("", f"http://u:{SECRET}@c", "", ""),
        CONNECTIONS.format("", "http://c", f", header.Authorization: {SECRET}", ""),
        CONNECTIONS.format("", "http://c", f", header.X-Mine: {SECRET}", ""),
        CONNECTIONS.format("", "http://c", f", adls.connection-string: {SECRET}", ""),
        CONNECTIONS.format("", "http://c", "", f"spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net: {SECRET}"),
        CONNECTIONS.format("", "http://c", "", f"spark.executorEnv.DB_PASS: {SECRET}"),
        CONNECTIONS.format("", "http://c", "", f'spark.driver.extraJavaOptions: "-Dx.password={SECRET}"'),
        CONNECTIONS.format("", "${env:URI}", "", ""),
        CONNECTIONS.format("", "http://c", "", 'spark.driver.extraJavaOptions: "${env:OPTIONS}"'),
    ],
)
def test_a_target_holds_no_secret_in_clear(target: str) -> None:
    """Wanted: a secret in a file, on a command line, in a plan. Got: FLOE-C311, and no form of what is said repeats
    it."""
    given = {"URI": f"http://u:{SECRET}@c", "OPTIONS": f"-Dx.password={SECRET}"}
    result = load(files={"targets/local.yaml": over(TARGET, target), "base.yaml": PIPELINE}, env=given)
    assert "FLOE-C311" in codes(result)
    assert all(SECRET not in render(result.diagnostics, name) for name in FORMATS)


@pytest.mark.parametrize(
    "text",
    [
        f"source: {{kafka: {{sasl.password: {SECRET}}}}}", f"source: {{kafka: {{sasl.password: [{SECRET}]}}}}",
        f"source:\n  kafka:\n    sasl.password: {SECRET}\n", f"sasl.password: {SECRET}", f"x-token: {SECRET}",
        f"variables: {{password: {{type: string, default: {SECRET}}}}}", f"source: {{kafka: {{topics: ['https://u:{SECRET}@h']}}}}",
        f"tables: {{defaults: {{create: {{properties: {{comment: 'password={SECRET}'}}}}}}}}", f"a: [\npassword: {SECRET}",
        f"tables: {{defaults: {{create: {{properties: {{s3.secret-access-key: {SECRET}}}}}}}}}", f"errors: {{token: {SECRET}}}",
        f"source: {{kafka: {{connection: main, uri: 'jdbc:x?password={SECRET}'}}}}",
    f"commit: {{secret: '{SECRET}', interval: 1x}}",
    ],
)  # fmt: skip
def test_no_message_about_a_pipeline_file_repeats_a_secret(text: str) -> None:
    """Wanted: FLOE-C201 and its siblings echo the line that they are about. Got: the value beside such a name is
    stars."""
    result = load(text)
    assert not result.ok
    assert all(SECRET not in render(result.diagnostics, name) for name in FORMATS)


def test_a_template_lies_near_the_pipeline_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wanted: another project's file as a template, by `..`, by an absolute path, by a link. Got: FLOE-C605."""
    outside = tmp_path / "outside.yaml"
    outside.write_text(f"x-stolen: {SECRET}\n")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "link.yaml").symlink_to(outside)
    monkeypatch.chdir(folder)
    for name in ("../outside.yaml", "../../x", str(outside), "./link.yaml", "./a/../../outside.yaml"):
        (folder / "a.yaml").write_text(
            f"apiVersion: floe/v1\nkind: Pipeline\nmetadata: {{name: a}}\ntemplate: {{name: {name}, version: '1'}}\n"
        )
        assert run_main(["validate", "a.yaml"]) == 2
        said = "".join(capsys.readouterr())
        assert "FLOE-C605" in said
        assert "stolen" not in said


# ---- what is printed ------------------------------------------------------------------------------------------------


def test_doctor_shows_no_secret() -> None:
    """Wanted: an address with a password in what doctor finds, or in an exception that it reports. Got: `***`."""

    def question() -> object:
        yield ok("catalog", f"postgresql://u:{SECRET}@h/db answers")
        raise SetupError(f"cannot reach jdbc:x?password={SECRET}", place=f"https://u:{SECRET}@h", remedy="x")

    found = ask("x", question)  # type: ignore[arg-type]
    found += ask("y", lambda: (_ for _ in ()).throw(ValueError(f"bad: Bearer {SECRET}")))
    assert len(found) == 3
    assert SECRET not in json.dumps([finding.to_json() for finding in found])


def test_no_header_that_may_be_written_in_clear_has_the_name_of_a_secret() -> None:
    """The list of headers that may be written in clear names none that counts as a secret."""
    assert {name for name in HEADERS if is_secret_name(f"header.{name}")} == set()
