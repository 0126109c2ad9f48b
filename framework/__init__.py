"""floe: a declarative framework that lands Kafka streams in Apache Iceberg tables, exactly once.

Follow the folders in the order of a record's journey: `config` reads the pipeline file, `plan` compiles it, `record`
decodes, routes and converts, `table` decides how tables change, `commit` is the protocol; all of them are pure.
`adapters` touch the world, `runtime` joins the two, `cli` has the verbs by task. Other programs use `framework.api`.
"""

__all__ = ["__version__", "api", "errors"]

__version__ = "0.1.0"
