"""Every call into DuckDB."""

from duckdb import DuckDBPyConnection, DuckDBPyRelation

from dpframe._duck.checks import check_collation
from dpframe._duck.connections import (
    add_functions,
    connection_in,
    describe,
    is_default,
    is_one_select,
    is_open,
    run_script,
    sees_function,
    type_name,
)
from dpframe._duck.databases import create_database, opened, selected
from dpframe._duck.guards import guarded_as
from dpframe._duck.own import one_task
from dpframe._duck.relations import (
    VIEW,
    GivenRelation,
    OwnRelation,
    Relation,
    beside,
    register,
    scan,
    together,
    without_views,
)

__all__ = [
    "VIEW",
    "DuckDBPyConnection",
    "DuckDBPyRelation",
    "GivenRelation",
    "OwnRelation",
    "Relation",
    "add_functions",
    "beside",
    "check_collation",
    "connection_in",
    "create_database",
    "describe",
    "guarded_as",
    "is_default",
    "is_one_select",
    "is_open",
    "one_task",
    "opened",
    "register",
    "run_script",
    "scan",
    "sees_function",
    "selected",
    "together",
    "type_name",
    "without_views",
]
