"""An S3-compatible server for tests: moto's, in an environment of its own, as a process on loopback.

In: a folder. Out: an endpoint with one bucket, addressed by path, which is a Glue catalog as well. The server's packages
are installed once for a machine, beside floe's own and never among them. It keeps objects in memory; multipart uploads,
listings and deletes are the real requests that a client makes.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import S3FileSystem

from framework.adapters.host.process import exclusive
from framework.adapters.project.files import cache_dir
from framework.local.broker import HOST, free_port

ROOT = Path(__file__).parents[2]
LOCK = ROOT / ".ci" / "servers.lock"
BUCKET = "lake"
SIGNER = "aws_msk_iam_sasl_signer"
ACCESS_KEY, SECRET_KEY, REGION = "tester", "not-in-any-log", "us-east-1"
_MAKE_USERS = """
import json, sys, boto3
iam = boto3.client("iam", endpoint_url=sys.argv[1], region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
made = {}
for name, policy in json.loads(sys.argv[2]).items():
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName="floe", PolicyDocument=json.dumps(policy))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    made[name] = (key["AccessKeyId"], key["SecretAccessKey"])
print(json.dumps(made))
"""
# By line: the arguments of a role that may do all below one prefix, and nothing else; its keys and when they end.
_LEND_KEYS = """
import json, sys, boto3
at = dict(zip(("endpoint_url", "aws_access_key_id", "aws_secret_access_key"), sys.argv[1:]), region_name="us-east-1")
iam, sts = boto3.client("iam", **at), boto3.client("sts", **at)
known = set()
trust = [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}]
for line in sys.stdin:
    bucket, prefix = json.loads(line)
    name = "lent-" + prefix.replace("/", "-")[-50:]
    if name not in known:
        document = json.dumps({"Version": "2012-10-17", "Statement": trust})
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)
        allowed = [
            {"Effect": "Allow", "Action": "s3:*", "Resource": f"arn:aws:s3:::{bucket}/{prefix}/*"},
            {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": f"arn:aws:s3:::{bucket}"},
        ]
        policy = json.dumps({"Version": "2012-10-17", "Statement": allowed})
        iam.put_role_policy(RoleName=name, PolicyName="lent", PolicyDocument=policy)
        known.add(name)
    role = f"arn:aws:iam::123456789012:role/{name}"
    found = sts.assume_role(RoleArn=role, RoleSessionName="floe")["Credentials"]
    print(json.dumps([found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"]]), flush=True)
"""


def moto_server() -> Path:
    """The server's program, installed if it is not there; skips the test where it cannot be had."""
    home = cache_dir() / f"test-s3-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"
    with exclusive(home.with_name(f"{home.name}.lock")):
        if not (home / "complete").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
            command = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
            answer = subprocess.run([*command, "--requirement", LOCK], capture_output=True, text=True, check=False)
            if answer.returncode != 0:
                pytest.skip(f"moto cannot be installed: {answer.stderr.strip().splitlines()[-1]}")
            (home / "complete").touch()
    return home / "bin" / "moto_server"


def client_packages() -> Path:
    """A folder for `PYTHONPATH`, with what PyIceberg needs beside itself to ask Glue or Hive, and the signer of tokens
    for MSK, of the server's environment."""
    program = moto_server()
    (packages,) = program.parents[1].glob("lib/python3*/site-packages")
    folder = program.parents[1] / "clients"
    folder.mkdir(exist_ok=True)
    names = ("boto3", "botocore", "dateutil", "jmespath", "s3transfer", "thrift", SIGNER)
    for name in (*names, *(path.name for path in packages.glob(f"{SIGNER}*.dist-info"))):
        with suppress(FileExistsError):
            (folder / name).symlink_to(packages / name)
    return folder


class S3Server:
    """One server with the bucket `lake`."""

    def __init__(self, folder: Path) -> None:
        program = moto_server()
        self.endpoint = f"http://{HOST}:{free_port()}"
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "s3.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(program), "-H", HOST, "-p", self.endpoint.rpartition(":")[2]],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait()
            self._make_bucket()
        except BaseException:
            self.stop()
            raise

    def settings(self) -> dict[str, str]:
        """The store's part of a catalog's settings; the secret key is not in it."""
        return {
            "warehouse": f"s3://{BUCKET}/warehouse",
            "s3.endpoint": self.endpoint,
            "s3.region": REGION,
            "s3.access-key-id": ACCESS_KEY,
            "s3.force-virtual-addressing": "false",
        }

    def users(self, policies: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
        """Users with these policies; the store's part of each one's settings, with its keys."""
        command = [str(moto_server().parent / "python"), "-c", _MAKE_USERS, self.endpoint, json.dumps(policies)]
        made = subprocess.run(command, capture_output=True, text=True, check=True)
        return {
            name: self.settings() | {"s3.access-key-id": key, "s3.secret-access-key": secret}
            for name, (key, secret) in json.loads(made.stdout).items()
        }

    def lender(self, user: Mapping[str, str]) -> subprocess.Popen[str]:
        """A process that lends keys: a line with bucket and prefix in, a line with the three parts of a key out. It asks as
        `user`, and ends with its input."""
        keys = (user["s3.access-key-id"], user["s3.secret-access-key"])
        command = [str(moto_server().parent / "python"), "-c", _LEND_KEYS, self.endpoint, *keys]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def enforce(self) -> None:
        """From now on users may do what their policies say."""
        asked = urllib.request.Request(f"{self.endpoint}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"})
        urllib.request.urlopen(asked, timeout=10).close()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _wait(self) -> None:
        limit = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{self.endpoint}/moto-api/", timeout=5).close()
                return
            except OSError:
                assert self._process.poll() is None, self.log.read_text()
                assert time.monotonic() < limit, self.log.read_text()
                time.sleep(0.2)

    def _make_bucket(self) -> None:
        store = S3FileSystem(
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            endpoint_override=self.endpoint,
            region=REGION,
            allow_bucket_creation=True,
        )
        store.create_dir(BUCKET)
