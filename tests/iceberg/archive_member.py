"""A coordinator's archive as a process: `archive_member.py BOOTSTRAP TOPIC CATALOG_SETTINGS_JSON TABLE ROUNDS` does rounds and
prints how many rows each added; a test arms where it dies."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.adapters.iceberg.tables import IcebergTables
from framework.config.spec import LogArchiveSpec
from framework.runtime.coordinator import log_archive

bootstrap, topic, settings, table, rounds = sys.argv[1:]
log_archive.PIECE_ROWS = 7  # several commits a round
tables = IcebergTables.over({"default": IcebergCatalog(json.loads(settings), "default")})
archive = log_archive.LogArchive({"bootstrap.servers": bootstrap}, topic, tables, LogArchiveSpec(table), print)
for _ in range(int(rounds)):
    try:
        print(archive.round(), flush=True)
    except Exception as error:
        print(f"refused: {error}", flush=True)
