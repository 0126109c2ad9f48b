"""Templates of an installed package are found by `package:name`, as the page about templates shows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from framework.adapters.host.plugins import offered
from framework.adapters.project.files import real_world
from framework.config.load import LoadResult, load_pipeline

LoadPipeline = Callable[[str], LoadResult]
PAGE = (Path(__file__).parents[3] / "docs" / "templates.md").read_text(encoding="utf-8")
ENTRY_POINT = re.search(r'entry-points."floe.templates"]\n(.+)\n', PAGE)[1].replace('"', "")  # type: ignore[index]
TEMPLATE = next(block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "kind: Template" in block)
PIPELINE = """\
apiVersion: floe/v1
kind: Pipeline
metadata: {name: orders}
template: {name: "acme:%s", version: "1", parameters: {topic: %s}}
"""


def _install(site: Path, name: str, entry_point: str) -> None:
    folder = site / f"{name.replace('-', '_')}-1.0.0.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n")
    (folder / "entry_points.txt").write_text(f"[floe.templates]\n{entry_point}\n")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the page's package is, as an installer leaves it."""
    site = tmp_path_factory.mktemp("site")
    (site / "acme_templates").mkdir()
    (site / "acme_templates" / "__init__.py").touch()
    (site / "acme_templates" / "landing.yaml").write_text(TEMPLATE)
    _install(site, "acme-templates", ENTRY_POINT)
    return site


@pytest.fixture
def load(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoadPipeline]:
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.chdir(tmp_path)
    offered.cache_clear()

    def of(text: str) -> LoadResult:
        Path("orders.yaml").write_text(text)
        return load_pipeline("orders.yaml", None, real_world(offline=True))

    yield of
    offered.cache_clear()


def test_a_template_of_a_package_is_found(load: LoadPipeline) -> None:
    """A pipeline is made with the template of the package that offers the name."""
    result = load(PIPELINE % ("landing", "orders"))

    assert result.diagnostics == ()
    assert result.spec is not None
    assert [rule.table for rule in result.spec.routes.rules] == ["shop.orders"]


def test_what_a_package_does_not_have_is_reported(load: LoadPipeline) -> None:
    """A name that the package lacks is told at the pipeline's line."""
    (finding,) = load(PIPELINE % ("landnig", "orders")).diagnostics

    assert (finding.code, finding.span and finding.span.line) == ("FLOE-C605", 4)


def test_a_template_cannot_leave_its_package(load: LoadPipeline, installed: Path) -> None:
    """A name with `..` reaches no file beside the package."""
    (installed / "outside.yaml").write_text(TEMPLATE)

    (finding,) = load(PIPELINE % ("../outside", "orders")).diagnostics

    assert finding.code == "FLOE-C605"
    assert "its package" in finding.message


def test_a_package_that_cannot_be_imported_is_reported(load: LoadPipeline, installed: Path) -> None:
    """A broken package is a finding at the pipeline's line, and ends no command."""
    _install(installed, "broken", "broken = no_such_module_of_acme")

    (finding,) = load((PIPELINE % ("landing", "orders")).replace("acme:", "broken:")).diagnostics

    assert finding.code == "FLOE-C605"
    assert "no_such_module_of_acme" in finding.message
