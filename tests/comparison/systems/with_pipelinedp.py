"""PipelineDP on its local backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import Any

Rows = Iterable[tuple[Any, ...]]


def prepared(file: str, given: dict[str, Any]) -> tuple[str, dict[str, Callable[[], Rows]]]:
    """Return the version, and what answers each question."""
    import pipeline_dp
    import pyarrow.parquet
    from pipeline_dp import AggregateParams, Metrics

    table = pyarrow.parquet.read_table(file, columns=["unit", "kind", "item", "amount"])
    data = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    rows, kinds = given["rows"], given["kinds"]

    def ask(
        metric: Any,
        part: Callable[[Any], Any],
        public: Sequence[Any] | None,
        *,
        delta: float = 1e-12,
        **limits: Any,
    ) -> list[tuple[Any, ...]]:
        accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=given["epsilon"], total_delta=delta)
        engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
        extractors = pipeline_dp.DataExtractors(
            privacy_id_extractor=lambda row: row[0],
            partition_extractor=part,
            value_extractor=lambda row: row[3],
        )
        parameters = AggregateParams(noise_kind=pipeline_dp.NoiseKind.LAPLACE, metrics=[metric], **limits)
        result = engine.aggregate(data, parameters, extractors, public_partitions=public)
        accountant.compute_budgets()
        return [(key, metrics[0]) for key, metrics in result]

    def whole(_: Any) -> str:
        return "0"

    def kind(row: Any) -> Any:
        return row[1]

    def item(row: Any) -> Any:
        return row[2]

    one: dict[str, Any] = {"max_partitions_contributed": 1}
    bounds = {"min_value": 0, "max_value": given["high"]}
    each_row = one | {"max_contributions_per_partition": rows}

    def units(part: Callable[[Any], Any], limit: int, public: Sequence[Any] | None, **delta: float) -> Rows:
        limits = {"max_partitions_contributed": limit, "max_contributions_per_partition": 1}
        return ask(Metrics.PRIVACY_ID_COUNT, part, public, **limits, **delta)

    def top() -> Rows:
        """Take the largest of all noisy counts: it has no selection."""
        found = sorted(units(item, given["items_of_unit"], given["items"]), key=lambda each: -each[1])
        return found[:5]

    return version("pipeline-dp"), {
        "rows": lambda: ask(Metrics.COUNT, whole, ["0"], **each_row),
        "units": lambda: units(whole, 1, ["0"]),
        "units_by_kind": lambda: units(kind, given["kinds_of_unit"], kinds),
        "rows_by_kind": lambda: ask(Metrics.COUNT, kind, kinds, max_contributions=rows),
        "total": lambda: ask(Metrics.SUM, whole, ["0"], **each_row, **bounds),
        "total_by_kind": lambda: ask(Metrics.SUM, kind, kinds, max_contributions=rows, **bounds),
        "average": lambda: ask(Metrics.MEAN, whole, ["0"], **each_row, **bounds),
        "median": lambda: ask(Metrics.PERCENTILE(50), whole, ["0"], **each_row, **bounds),
        "top": top,
        "undeclared": lambda: units(item, given["items_of_unit"], None, delta=given["delta"]),
    }
