-- dp_explain needs no table and charges nothing.
SELECT value
FROM dp_explain(hierarchy := 'ip:src?version=4', epsilon := 1.0, delta := 1e-6, threshold := 500)
WHERE quantity IN ('threshold', 'certainly reported', 'never reported');
VALUES ('500'), ('571'), ('477');

-- With a table it says that the columns are there.
SELECT quantity
FROM dp_explain('plans', 'ip:src', epsilon := 1.0, delta := 1e-6)
LIMIT 3;
VALUES ('guarantee'), ('not shown'), ('shows more');

-- The promise, in one sentence.
SELECT value
FROM dp_explain('plans', 'ip:src', epsilon := 1.0, delta := 1e-6, user := 'src')
WHERE quantity = 'guarantee';
VALUES ('(1, 1e-06)-differential privacy for adding or removing one user (''src'') with all their records');

-- The plan of a prefix tree needs no table, but the number of users.
SELECT value
FROM dp_explain_prefix_tree("column" := 'src', epsilon := 1.0, delta := 1e-6, "user" := 'who',
    devices := 100000, segments := [20, 20, 20])
WHERE quantity IN ('devices', 'iterations', 'bits of an iteration', 'accountant');
VALUES ('100000'), ('3'), ('20, 20, 20'), ('aggregate');

-- A table of one row releases nothing about it.
SELECT prefix FROM dp_hhh('plans', 'ip:src', epsilon := 1.0, delta := 1e-6);
VALUES ('*');

-- The ledger holds one release by now.
SELECT accountant, spent_epsilon, spent_delta, left_epsilon, releases FROM dp_budget();
VALUES ('sum', 1.0, 1e-6::DOUBLE, 999.0, 1);

SELECT name FROM dp_functions();
VALUES
    ('dp_budget'), ('dp_change'), ('dp_explain'), ('dp_explain_heavy_hitters'),
    ('dp_explain_prefix_tree'), ('dp_explain_rollup'), ('dp_explain_synthesize'),
    ('dp_explain_tree_counts'), ('dp_functions'), ('dp_heavy_hitters'), ('dp_hhh'),
    ('dp_plan_series'), ('dp_prefix_tree'), ('dp_releases'), ('dp_rollup'), ('dp_synthesize'), ('dp_tree_counts');

-- The plan of tree counts needs no table either.
SELECT value
FROM dp_explain_tree_counts(hierarchy := 'columns:src,who', epsilon := 1.0, delta := 1e-6)
WHERE quantity IN ('counts', 'keys', 'adds up');
VALUES ('records'), ('unknown'), ('yes');

-- Listed keys need no delta.
SELECT value
FROM dp_explain_tree_counts('plans', ['src'], epsilon := 0.5, "keys" := ['10.0.0.1', '10.0.0.2'])
WHERE quantity IN ('guarantee', 'keys', 'computed delta');
VALUES
    ('0.5-differential privacy for adding or removing one record'), ('3 listed nodes'), ('0');

-- The plan of synthetic rows needs no table, and no delta.
SELECT value
FROM dp_explain_synthesize(columns := 'number:times?lower=0&upper=64', epsilon := 0.5, depth := 6)
WHERE quantity IN ('guarantee', 'depth', 'computed delta');
VALUES ('0.5-differential privacy for adding or removing one record'), ('6'), ('0');

-- Rows with the name and type of the column.
SELECT count(*), any_value(typeof(src)), min(src LIKE '%.%.%.%')
FROM dp_synthesize('plans', 'ip:src?version=4', n := 20, epsilon := 0.5);
VALUES (20, 'VARCHAR', true);
