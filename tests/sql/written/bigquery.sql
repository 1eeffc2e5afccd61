-- # BigQuery

-- Rows by a column, with options
-- by: country
-- of: rows
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 10, delta = 1e-6) country, COUNT(*) AS orders FROM sales GROUP BY country;

-- A privacy unit
-- by: category
-- of: rows; people
-- only: user
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 10, delta = 1e-6, privacy_unit_column = customer_id) category, COUNT(*) AS orders, COUNT(DISTINCT customer_id) AS customers FROM sales GROUP BY category;

-- Bounds within an aggregate
-- by: country
-- of: sum (0, 8000) amount
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 10, delta = 1e-6) country, SUM(amount, contribution_bounds_per_group => (0, 8000)) AS revenue FROM sales GROUP BY country;

-- Bounds of a mean
-- by: country
-- of: mean (0, 8000) amount
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 10, delta = 1e-6) country, AVG(amount, contribution_bounds_per_group => (0, 8000)) AS mean_amount FROM sales GROUP BY country;

-- A quantile with bounds of each row
-- by: country
-- of: quantile 0.5 (0, 8000) amount
-- near: 0.05
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 10, delta = 1e-6) country, PERCENTILE_CONT(amount, 0.5, contribution_bounds_per_row => (0, 8000)) AS median_amount FROM sales GROUP BY country;

-- A clause without options
-- by: country
-- of: rows
SELECT WITH DIFFERENTIAL_PRIVACY country, COUNT(*) AS orders FROM sales GROUP BY country;

-- COUNTIF
-- by: category
-- of: rows if amount > 100
SELECT category, COUNTIF(amount > 100) AS large FROM sales GROUP BY category;

-- A name of project and dataset, without backticks
-- by: country
-- of: rows
SELECT country, COUNT(*) AS orders FROM shop.sales GROUP BY country ORDER BY orders DESC LIMIT 3;

-- People, counted nearly
-- by: country
-- of: people
SELECT country, APPROX_COUNT_DISTINCT(customer_id) AS customers FROM sales GROUP BY country;

-- A range of dates with DATE
-- by: month = date_trunc('month', ordered_at)
-- of: sum amount
-- where: ordered_at >= '2026-03-01' AND ordered_at < '2026-09-01'
SELECT DATE_TRUNC('month', ordered_at) AS month, SUM(amount) AS revenue FROM sales WHERE ordered_at >= DATE '2026-03-01' AND ordered_at < DATE '2026-09-01' GROUP BY month;

-- The differentially private rows, in an outer query
-- by: country; category
-- of: rows
SELECT country, SUM(orders) AS orders FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 10, delta = 1e-6) country, category, COUNT(*) AS orders FROM sales GROUP BY country, category) GROUP BY country;

-- ROLLUP, which BigQuery itself refuses with the clause
-- by: country; category
-- levels: rollup
-- of: rows; sum amount
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 10, delta = 1e-6) country, category, COUNT(*) AS orders, SUM(amount) AS revenue FROM sales GROUP BY ROLLUP (country, category);

-- A joined public table
-- by: region
-- of: rows
-- from: sales JOIN stores USING (store_id)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 10, delta = 1e-6) region, COUNT(*) AS orders FROM sales INNER JOIN stores USING (store_id) GROUP BY region;

-- QUALIFY over the result
-- by: country
-- of: sum amount
SELECT country, SUM(amount) AS revenue FROM sales GROUP BY country QUALIFY RANK() OVER (ORDER BY SUM(amount) DESC) <= 3;

-- IF as a key
-- by: size = CASE WHEN amount > 100 THEN 'large' ELSE 'small' END
-- of: rows
SELECT IF(amount > 100, 'large', 'small') AS size, COUNT(*) AS orders FROM sales GROUP BY size;

-- SAFE_CAST
-- refused: query cannot be parsed: syntax error at or near "AS" (line 1, column 27).
SELECT SAFE_CAST(quantity AS STRING) AS quantity, COUNT(*) FROM sales GROUP BY 1;

-- An option that follows from the plan here
-- refused: option 'max_groups_contributed' is not read. It has: epsilon, delta, privacy_unit_column, intervals.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 10, delta = 1e-6, max_groups_contributed = 2, privacy_unit_column = customer_id) country, COUNT(*) FROM sales GROUP BY country;

-- A variance
-- refused: VAR_POP(amount, contribution_bounds_p... (line 1, column 79): a spread is not measured. Ask for quantiles: quantile_cont(column, 0.9).
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 10, delta = 1e-6) country, VAR_POP(amount, contribution_bounds_per_row => (0, 8000)) FROM sales GROUP BY country;

-- The older clause
-- refused: query cannot be parsed: syntax error at or near "WITH" (line 1, column 8).
SELECT WITH ANONYMIZATION OPTIONS(epsilon = 10, delta = 1e-6) country, ANON_COUNT(*) FROM sales GROUP BY country;

-- Names in backticks
-- by: country
-- of: rows
SELECT country, COUNT(*) FROM `shop.sales` GROUP BY country;

-- Quantiles as a list
-- refused: query cannot be bound: Catalog Error: Scalar Function with name approx_quantiles does not exist.
SELECT country, APPROX_QUANTILES(amount, 4) FROM sales GROUP BY country;
