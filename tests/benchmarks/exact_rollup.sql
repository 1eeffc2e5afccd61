-- The reference of the speed benchmark: DuckDB's own exact rollup of four levels, not private.
SELECT a, b, c, d, count(*) AS n
FROM read_parquet($file)
GROUP BY ROLLUP (a, b, c, d)
HAVING count(*) >= $threshold
