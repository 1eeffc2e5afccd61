-- What dpframe adds to a connection, as a table.

CREATE OR REPLACE TEMP MACRO dp_functions() AS TABLE
SELECT function_name AS name, parameters, comment AS description
FROM duckdb_functions()
WHERE function_type = 'table_macro' AND database_name = 'temp' AND starts_with(function_name, 'dp_')
ORDER BY function_name ASC NULLS LAST;

COMMENT ON MACRO TABLE dp_functions IS 'The table functions of dpframe on this connection: name, parameters, description';
