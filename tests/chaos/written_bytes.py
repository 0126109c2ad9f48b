"""All that a run leaves in writing, or shows while it lives, for a search by bytes.

In: a folder, a topic, an address, a process. Out: bytes by the place where they are: files, what a topic holds, the pages that a
server links to, command lines and environments. Nothing is left out because it looks harmless.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit

from confluent_kafka import Consumer, TopicPartition

from tests.chaos.harness import descendants, processes
from tests.conftest import Broker

_LINK = re.compile(r"""(?:href|src|action)=["']([^"'#]+)""")


def files_of(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_file())


def bytes_below(*roots: Path) -> dict[str, bytes]:
    """Every file that is there long enough to be read."""
    found = {}
    for path in (path for root in roots for path in files_of(root)):
        try:
            found[str(path)] = path.read_bytes()
        except OSError:
            continue  # it was removed meanwhile
    return found


def values_of(broker: Broker, topic: str) -> Iterator[bytes]:
    """Keys, values and headers of all that a topic holds."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reads-bytes"})
    for partition in consumer.list_topics(topic, timeout=30).topics[topic].partitions:
        at = TopicPartition(topic, partition, 0)
        _, end = consumer.get_watermark_offsets(at, timeout=30)
        consumer.assign([at])
        while consumer.position([at])[0].offset < end:
            message = consumer.poll(5)
            if message is None:
                break
            assert message.error() is None, message.error()
            headers = [value or b"" for _, value in message.headers() or ()]
            yield b"\n".join([message.key() or b"", message.value() or b"", *map(bytes, headers)])
    consumer.close()


def pages_from(*addresses: str, most: int = 150) -> dict[str, bytes]:
    """What is answered at the addresses, and at all that these pages link to on the same server, errors too."""
    todo, found = list(addresses), dict[str, bytes]()
    while todo and len(found) < most:
        address = todo.pop(0)
        if address in found or "/kill/" in address:
            continue
        try:
            with urllib.request.urlopen(address, timeout=20) as answer:
                found[address], address = answer.read(), answer.url
        except urllib.error.HTTPError as error:
            found[address] = error.read()
        links = (urldefrag(urljoin(address, link.replace("&amp;", "&")))[0] for link in _links(found.get(address, b"")))
        todo += [link for link in links if urlsplit(link)[:2] == urlsplit(address)[:2]]
    return found


def _links(page: bytes) -> Iterable[str]:
    return _LINK.findall(page.decode("utf-8", "replace"))


def command_lines() -> dict[str, bytes]:
    """Of every process of this machine, each once."""
    return {f"command line {each.command[:60]}": each.command.encode() for each in processes()}


def environments_below(pid: int) -> dict[str, bytes]:
    """Those with which a process and all below it began."""
    found = {}
    for number, command in [(pid, "itself"), *((each.pid, each.command) for each in descendants(pid))]:
        try:
            found[f"environment of {number} {command[:80]}"] = Path(f"/proc/{number}/environ").read_bytes()
        except OSError:
            continue
    return found


def places_with(places: Mapping[str, bytes], needles: Collection[str]) -> set[str]:
    """Where one of the needles stands, as it is or in two bytes a character, as Java's streams and UTF-16 have it."""
    wanted = [form for each in needles for form in (each.encode(), each.encode("utf-16-be"), each.encode("utf-16-le"))]
    return {place for place, text in places.items() if any(each in text for each in wanted)}
