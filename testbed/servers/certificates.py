"""A certificate authority for tests, made with the `openssl` command: PEM files that Kafka and its clients read."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Authority:
    """One CA in a folder. Names become common names; servers are valid for 127.0.0.1."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.certificate = folder / "ca.pem"
        self._key = folder / "ca.key"
        _openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=floe test authority"),
            *("-keyout", self._key, "-out", self.certificate),
        )

    def issue(self, name: str) -> tuple[Path, Path]:
        """A certificate for `name`, signed by this authority: (certificate file, key file)."""
        key, request, certificate = (self.folder / f"{name}.{kind}" for kind in ("key", "csr", "pem"))
        extensions = self.folder / "extensions.cnf"
        extensions.write_text("subjectAltName=IP:127.0.0.1\n")
        _openssl(
            *("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request),
        )
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial"),
            *("-days", "2", "-extfile", extensions, "-out", certificate),
        )
        return certificate, key

    def bundle(self, name: str) -> Path:
        """Key and certificate in one file, as a Kafka broker reads them."""
        certificate, key = self.issue(name)
        both = self.folder / f"{name}.both.pem"
        both.write_text(key.read_text() + certificate.read_text())
        return both


def _openssl(*words: object) -> None:
    answer = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
