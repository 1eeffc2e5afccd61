-- # Superset

-- A table chart over a dataset
-- by: country
-- of: rows
SELECT country AS country, COUNT(*) AS count FROM public.sales GROUP BY country ORDER BY count DESC LIMIT 10000;

-- A bar chart over a virtual dataset
-- by: category
-- of: sum amount
SELECT category AS category, sum(amount) AS "SUM(amount)" FROM (SELECT * FROM sales) AS virtual_table GROUP BY category ORDER BY "SUM(amount)" DESC LIMIT 10000;

-- A virtual dataset that filters and joins
-- by: region
-- of: rows; sum amount
-- from: sales JOIN stores USING (store_id)
-- where: channel = 'store'
SELECT region AS region, COUNT(*) AS count, SUM(amount) AS "SUM(amount)" FROM (SELECT s.*, t.region FROM sales AS s JOIN stores AS t ON s.store_id = t.store_id WHERE s.channel = 'store') AS virtual_table GROUP BY region ORDER BY count DESC LIMIT 10000;

-- A time series by day
-- by: __timestamp = date_trunc('day', ordered_at)
-- of: rows
-- where: ordered_at >= '2026-09-01' AND ordered_at < '2026-10-01'
SELECT DATE_TRUNC('DAY', ordered_at) AS __timestamp, COUNT(*) AS count FROM public.sales WHERE ordered_at >= '2026-09-01 00:00:00.000000' AND ordered_at < '2026-10-01 00:00:00.000000' GROUP BY DATE_TRUNC('DAY', ordered_at) ORDER BY count DESC, __timestamp LIMIT 50000;

-- A time series with a breakdown
-- by: __timestamp = date_trunc('month', ordered_at); category
-- of: sum amount
-- where: ordered_at >= '2026-01-01'
SELECT DATE_TRUNC('MONTH', ordered_at) AS __timestamp, category AS category, SUM(amount) AS "SUM(amount)" FROM public.sales WHERE ordered_at >= CAST('2026-01-01 00:00:00.000000' AS TIMESTAMP) GROUP BY DATE_TRUNC('MONTH', ordered_at), category ORDER BY "SUM(amount)" DESC LIMIT 10000;

-- Weeks
-- by: __timestamp = date_trunc('week', ordered_at)
-- of: people
SELECT DATE_TRUNC('WEEK', ordered_at) AS __timestamp, COUNT(DISTINCT customer_id) AS "COUNT_DISTINCT(customer_id)" FROM public.sales GROUP BY DATE_TRUNC('WEEK', ordered_at) ORDER BY __timestamp LIMIT 50000;

-- A big number
-- of: sum amount
SELECT SUM(amount) AS "SUM(amount)" FROM public.sales WHERE TRUE LIMIT 50000;

-- Filters of a dashboard
-- by: product
-- of: rows
-- where: country IN ('FR', 'US') AND category NOT IN ('toys')
SELECT product AS product, COUNT(*) AS count FROM public.sales WHERE country IN ('FR', 'US') AND (category NOT IN ('toys')) GROUP BY product ORDER BY count DESC LIMIT 100;

-- A measure of the dataset, as SQL
-- by: country
-- of: sum amount; rows
SELECT country AS country, SUM(amount) / COUNT(*) AS "Average ticket" FROM public.sales GROUP BY country ORDER BY "Average ticket" DESC LIMIT 10000;

-- A filter of the measure
-- by: product
-- of: sum amount
SELECT product AS product, SUM(amount) AS "SUM(amount)" FROM public.sales GROUP BY product HAVING SUM(amount) > 100000 ORDER BY "SUM(amount)" DESC LIMIT 10000;

-- A pivot table with two sides
-- by: country; channel
-- of: sum amount; mean quantity
SELECT country AS country, channel AS channel, SUM(amount) AS "SUM(amount)", AVG(quantity) AS "AVG(quantity)" FROM public.sales GROUP BY country, channel ORDER BY "SUM(amount)" DESC LIMIT 50000;

-- The choices of a filter
-- by: country
SELECT country AS country FROM public.sales GROUP BY country ORDER BY country ASC LIMIT 1000;

-- The choices of a filter, by DISTINCT
-- by: category
SELECT DISTINCT category AS category FROM public.sales ORDER BY category LIMIT 1000;

-- A calculated column
-- by: size = CASE WHEN amount > 100 THEN 'large' ELSE 'small' END
-- of: rows; sum quantity
SELECT CASE WHEN amount > 100 THEN 'large' ELSE 'small' END AS size, COUNT(*) AS count, SUM(quantity) AS "SUM(quantity)" FROM public.sales GROUP BY CASE WHEN amount > 100 THEN 'large' ELSE 'small' END ORDER BY count DESC LIMIT 10000;

-- A quarter, and text that is searched without case
-- by: __timestamp = date_trunc('quarter', ordered_at)
-- of: rows
-- where: product ILIKE 'P1%'
SELECT DATE_TRUNC('QUARTER', ordered_at) AS __timestamp, COUNT(*) AS count FROM public.sales WHERE product ILIKE 'P1%' GROUP BY DATE_TRUNC('QUARTER', ordered_at) ORDER BY __timestamp ASC LIMIT 10000;

-- The share of each slice
-- by: channel
-- of: rows
SELECT channel AS channel, COUNT(*) AS count, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM public.sales GROUP BY channel ORDER BY count DESC LIMIT 100;

-- A rolling mean of months
-- by: __timestamp = date_trunc('month', ordered_at)
-- of: sum amount
SELECT DATE_TRUNC('MONTH', ordered_at) AS __timestamp, AVG(SUM(amount)) OVER (ORDER BY DATE_TRUNC('MONTH', ordered_at) ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS rolling FROM public.sales GROUP BY DATE_TRUNC('MONTH', ordered_at) ORDER BY __timestamp LIMIT 10000;

-- The number of rows of a table chart, counted outside
-- by: country; product
SELECT COUNT(*) AS rowcount FROM (SELECT country AS country, product AS product FROM public.sales GROUP BY country, product) AS rowcount_qry;

-- Only the largest series, by a join with them
-- refused: JOIN (SELECT country AS country__, CO... (line 1, column 118): a second private table is not read: a record could meet many others. Join public tables only, or join before you ask.
SELECT DATE_TRUNC('MONTH', ordered_at) AS __timestamp, sales.country AS country, COUNT(*) AS count FROM public.sales JOIN (SELECT country AS country__, COUNT(*) AS mme_inner__ FROM public.sales GROUP BY country ORDER BY mme_inner__ DESC LIMIT 5) AS series_limit ON sales.country = country__ GROUP BY DATE_TRUNC('MONTH', ordered_at), sales.country ORDER BY count DESC LIMIT 10000;

-- Samples of a dataset
-- refused: query shows rows of a private table. Group them: SELECT column, count(*) FROM ... GROUP BY column.
SELECT * FROM public.sales LIMIT 1000;

-- A box plot's largest value
-- refused: MAX(amount) (line 1, column 28): a largest value is one record's. Ask quantile_cont(column, 0.99).
SELECT country AS country, MAX(amount) AS "MAX(amount)" FROM public.sales GROUP BY country LIMIT 10000;
