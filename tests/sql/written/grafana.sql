-- # Grafana

-- Rows a day
-- by: time = date_trunc('day', ordered_at)
-- of: rows
-- where: ordered_at BETWEEN '2026-09-01' AND '2026-10-01'
SELECT date_trunc('day', ordered_at) AS "time", count(*) AS "orders" FROM sales WHERE ordered_at BETWEEN '2026-09-01T00:00:00Z' AND '2026-10-01T00:00:00Z' GROUP BY 1 ORDER BY 1;

-- Time buckets, as $__timeGroup writes them
-- by: time = floor(epoch(ordered_at) / 604800) * 604800
-- of: sum amount
-- where: ordered_at BETWEEN '2026-05-01' AND '2026-10-01'
SELECT floor(extract(epoch from ordered_at)/604800)*604800 AS "time", sum(amount) AS "revenue" FROM sales WHERE ordered_at BETWEEN '2026-05-01T00:00:00Z' AND '2026-10-01T00:00:00Z' GROUP BY time ORDER BY time;

-- One series for each value
-- by: time = date_trunc('month', ordered_at); metric = channel
-- of: mean amount
SELECT date_trunc('month', ordered_at) AS time, channel AS metric, avg(amount) AS value FROM sales WHERE ordered_at BETWEEN '2025-01-01T00:00:00Z' AND '2026-12-31T23:59:59Z' GROUP BY time, metric ORDER BY time, metric;

-- Buckets of fourteen days
-- by: time = time_bucket(INTERVAL 14 DAY, ordered_at)
-- of: rows; people
SELECT time_bucket(INTERVAL '14 days', ordered_at) AS time, count(*) AS orders, count(DISTINCT customer_id) AS customers FROM sales GROUP BY 1 ORDER BY 1;

-- A single number
-- of: rows
-- where: ordered_at BETWEEN '2026-09-01' AND '2026-10-01'
SELECT count(*) AS value FROM sales WHERE ordered_at BETWEEN '2026-09-01T00:00:00Z' AND '2026-10-01T00:00:00Z';

-- Percentiles of a latency
-- by: time = date_trunc('month', ordered_at)
-- of: quantile 0.5 amount; quantile 0.95 amount
-- near: 0.05
SELECT date_trunc('month', ordered_at) AS time, percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) AS p50, percentile_cont(0.95) WITHIN GROUP (ORDER BY amount) AS p95 FROM sales GROUP BY 1 ORDER BY 1;

-- Variables of a dashboard
-- by: time = date_trunc('week', ordered_at)
-- of: sum quantity
-- where: country IN ('FR', 'DE') AND channel = 'web'
SELECT date_trunc('week', ordered_at) AS time, sum(quantity) AS items FROM sales WHERE country IN ('FR','DE') AND channel = 'web' GROUP BY 1 ORDER BY 1;

-- The values of a variable
-- by: country
SELECT DISTINCT country FROM sales ORDER BY country;

-- Seconds of the time, for an old panel
-- by: time_sec = CAST(epoch(date_trunc('month', ordered_at)) AS BIGINT)
-- of: rows
SELECT CAST(extract(epoch FROM date_trunc('month', ordered_at)) AS BIGINT) AS time_sec, count(*) AS value, 'orders' AS metric FROM sales GROUP BY 1 ORDER BY 1 ASC;

-- The growth between months
-- differs by user: noise of small groups moves it
-- near: 0.05
-- by: time = date_trunc('month', ordered_at)
-- of: sum amount
SELECT date_trunc('month', ordered_at) AS time, sum(amount) / lag(sum(amount)) OVER (ORDER BY date_trunc('month', ordered_at)) - 1 AS growth FROM sales GROUP BY 1 ORDER BY 1;

-- Conditions as series
-- by: time = date_trunc('month', ordered_at)
-- of: rows if channel = 'web'; rows if channel = 'store'
SELECT date_trunc('month', ordered_at) AS time, count(*) FILTER (WHERE channel = 'web') AS web, count(*) FILTER (WHERE channel = 'store') AS store FROM sales GROUP BY 1 ORDER BY 1;

-- A table of the largest
-- by: product
-- of: sum amount
SELECT product, round(sum(amount)) AS revenue FROM sales GROUP BY product ORDER BY revenue DESC LIMIT 5;

-- The last value of each series
-- refused: channel (line 1, column 21): DISTINCT ON shows single rows. Use GROUP BY.
SELECT DISTINCT ON (channel) channel, ordered_at AS time, amount FROM sales ORDER BY channel, ordered_at DESC;

-- Rows of a log
-- refused: query shows rows of a private table. Group them: SELECT column, count(*) FROM ... GROUP BY column.
SELECT ordered_at AS time, product, amount FROM sales WHERE ordered_at BETWEEN '2026-09-01T00:00:00Z' AND '2026-10-01T00:00:00Z' ORDER BY ordered_at;
