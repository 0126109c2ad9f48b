"""The files of a new project, as `floe init --project` writes them.

In: nothing. Out: texts by the path that they get. Each is a file beside this one, so that it can be read and checked as
what it is; names that begin with a dot are kept without it.
"""

from __future__ import annotations

from importlib.resources import files

PATHS = {
    "README.md": "README.md",
    "gitignore": ".gitignore",
    "requirements.txt": "requirements.txt",
    "orders.yaml": "pipelines/orders.yaml",
    "landing.yaml": "pipelines/templates/landing.yaml",
    "local.yaml": "pipelines/targets/local.yaml",
    "prod.yaml": "pipelines/targets/prod.yaml",
}
CI = {
    "github": ("github.yml", ".github/workflows/pipelines.yml"),
    "gitlab": ("gitlab.yml", ".gitlab-ci.yml"),
}
SCHEMAS = tuple(f"{kind}.v1.schema.json" for kind in ("pipeline", "target", "template"))


def project_files(ci: str | None) -> dict[str, str]:
    """The texts by their paths.

    Args:
        ci: one of `CI`, or None for no job.
    """
    here = files(__name__)
    paths = [*PATHS.items(), *([CI[ci]] if ci else [])]
    texts = {path: here.joinpath(name).read_text(encoding="utf-8") for name, path in paths}
    schemas = {f"schemas/{name}": files("schemas").joinpath(name).read_text(encoding="utf-8") for name in SCHEMAS}
    return {**texts, **schemas}
