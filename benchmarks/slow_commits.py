"""A command of floe whose SQL catalog takes as long for a commit as a catalog far away.

In: from how many to how many seconds a commit takes, and the command. Out: what the command does. The catalog is the real
one; each commit waits before it begins, as it would for an answer, while others go on.

    python -m benchmarks.slow_commits 5.2 9.7 coordinator --target prod
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

from framework.adapters.iceberg.private.sql import FlatSqlCatalog
from framework.cli.main import main


def slow_down(least_s: float, most_s: float) -> None:
    """Let each commit of this process take so much longer."""
    commit = FlatSqlCatalog.commit_table

    def slow(self: FlatSqlCatalog, *arguments: Any, **more: Any) -> Any:
        time.sleep(random.uniform(least_s, most_s))
        return commit(self, *arguments, **more)

    FlatSqlCatalog.commit_table = slow  # type: ignore[method-assign]


if __name__ == "__main__":
    slow_down(float(sys.argv[1]), float(sys.argv[2]))
    main(sys.argv[3:])
