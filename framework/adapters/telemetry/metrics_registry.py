"""Samples in the form of prometheus-client, which writes them as text.

In: a function that gives the samples of this moment. Out: a registry that asks it at each scrape. Nothing is kept
between two scrapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, groupby

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from framework.metrics.figures import Histogram
from framework.metrics.samples import MetricSample

Now = Callable[[], Sequence[MetricSample]]
_FAMILIES: dict[str, Callable[..., CounterMetricFamily | GaugeMetricFamily]] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
}


class _Samples(Collector):
    def __init__(self, now: Now) -> None:
        self._now = now

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry would ask for all samples to learn the names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        for metric, group in groupby(self._now(), key=lambda sample: sample.metric):
            labels = [label.value for label in metric.labels]
            if metric.bounds_s:
                yield _histogram(metric.name, metric.help, labels, list(group))
                continue
            family = _FAMILIES[metric.kind.value](metric.name, metric.help, labels=labels)
            for sample in group:
                assert not isinstance(sample.value, Histogram)
                family.add_metric(sample.labels, sample.value)
            yield family


def registry_of_samples(now: Now) -> CollectorRegistry:
    """A registry with these samples and nothing else."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Samples(now))
    return registry


def _histogram(name: str, help_: str, labels: list[str], group: list[MetricSample]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, help_, labels=labels)
    for sample in group:
        durations = sample.value
        assert isinstance(durations, Histogram)
        bounds = [*(repr(bound) for bound in durations.bounds_s), "+Inf"]
        counts = accumulate(durations.counts or (0,) * len(bounds))
        family.add_metric(sample.labels, list(zip(bounds, counts, strict=True)), sum_value=durations.sum_s)
    return family
