"""Dangerous changes since the last deployment, refused before anything is started.

In: pipelines, and the codes that a person allowed. Out: nothing, or an error that names each change and its code.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.config.spec import LoadedPipeline
from framework.deploy.history import changes_since
from framework.deploy.last_deployed import read_histories
from framework.plan.diff.consent import check_consent


def check_breaking_changes(pipelines: Sequence[LoadedPipeline], allowed: frozenset[str]) -> None:
    """Compare with what was deployed.

    Raises:
        ConfigError: a dangerous change that nobody has allowed.
        SetupError: the broker cannot be asked.
    """
    history = read_histories(pipelines)
    held = {pipeline.spec.name for pipeline in pipelines}
    check_consent({p.spec.name: changes_since(p, history, held) or () for p in pipelines}, allowed)
