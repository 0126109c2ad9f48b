"""Nothing is kept that nobody uses."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Called by others: Spark, Jinja, click, PyIceberg and the standard library know these by their names.
BY_OTHERS = {
    "framework/adapters/store/private.py": {"open_input_stream"},
    "framework/adapters/telemetry/metrics_server.py": {"handle_error", "log_message", "readinto"},
    "framework/adapters/parquet/partition.py": {"to_path"},
    "framework/adapters/telemetry/safe_output.py": {"writelines"},
    "framework/adapters/spark/source.py": {"initialOffset", "latestOffset", "streamReader"},
    "framework/cli/main.py": {"format_commands"},
    "framework/web/serve.py": {"connection_made", "connection_lost", "on_response_complete"},
    "framework/config/templates/sandbox.py": {"visit_Concat", "wrap_str_format", "concat", "join_path"},
}
# Used by tests alone, which compare what the field says with what floe does.
BY_TESTS = {
    "framework/record/convert/iso_time.py": {"check_format"},
}


def test_every_function_and_class_is_used() -> None:
    """The name of each function, method and class of framework/ is written somewhere else in it, or somebody else calls
    it."""
    files = {path: path.read_text() for path in sorted((ROOT / "framework").rglob("*.py"))}
    written = Counter(word for text in files.values() for word in re.findall(r"\w+", text))
    unused = []
    for path, text in files.items():
        name = str(path.relative_to(ROOT))
        allowed = BY_OTHERS.get(name, set()) | BY_TESTS.get(name, set())
        unused += [
            f"{name}:{node.lineno}: {node.name}"
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and written[node.name] == 1
            and not node.decorator_list
            and node.name not in allowed
            and not node.name.startswith("__")
        ]
    assert unused == []
