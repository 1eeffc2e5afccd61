"""Every call into DuckDB."""

from duckdb import DuckDBPyConnection, DuckDBPyRelation

from dpframe._duck.connection_checks import check_collation
from dpframe._duck.connections import (
    add_functions,
    connection_in,
    describe_relation,
    is_default,
    is_one_select,
    is_open,
    run_script,
    sees_function,
    type_name,
)
from dpframe._duck.databases import create_database, open_database, select_from_database
from dpframe._duck.guards import guard_named_type
from dpframe._duck.process_database import one_task
from dpframe._duck.relations import (
    VIEW,
    GivenRelation,
    OwnRelation,
    Relation,
    join_batches,
    register_table,
    scan,
    second_connection_relation,
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
    "check_collation",
    "connection_in",
    "create_database",
    "describe_relation",
    "guard_named_type",
    "is_default",
    "is_one_select",
    "is_open",
    "join_batches",
    "one_task",
    "open_database",
    "register_table",
    "run_script",
    "scan",
    "second_connection_relation",
    "sees_function",
    "select_from_database",
    "type_name",
    "without_views",
]
