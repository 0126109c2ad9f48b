"""Which of Spark's settings may stand in a target file: those that name a secret's place, not those that hold one."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.config.load import World, load_target

TARGET = """\
apiVersion: floe/v1
kind: Target
metadata: {{name: prod}}
connections:
  kafka: {{main: {{bootstrap.servers: "k:9092"}}}}
  catalog: {{default: {{type: rest, uri: "https://catalog"}}}}
spark: {{master: "k8s://https://api", conf: {{{key}: "value"}}}}
"""


def codes(key: str) -> list[str]:
    world = World(env={}, local={}, read_file=lambda path: TARGET.format(key=key))
    return [finding.code for finding in load_target("prod.yaml", world, Path()).diagnostics]


@pytest.mark.parametrize(
    "key",
    [
        "spark.kubernetes.driver.secretKeyRef.KAFKA_PASSWORD",
        "spark.kubernetes.driver.secrets.kafka",
        "spark.kubernetes.executor.secrets.kafka",
        "spark.kubernetes.authenticate.submission.oauthTokenFile",
    ],
)
def test_the_place_of_a_secret_may_be_named(key: str) -> None:
    """Kubernetes gives a secret to the driver by its name, which is no secret."""
    assert codes(key) == []


@pytest.mark.parametrize(
    "key", ["spark.authenticate.secret", "spark.hadoop.fs.s3a.secret.key", "spark.ssl.keyPassword"]
)
def test_a_secret_itself_may_not_stand_in_spark_settings(key: str) -> None:
    """Spark shows its settings in its own pages and logs, so that a secret there is refused."""
    assert codes(key) == ["FLOE-C311"]
