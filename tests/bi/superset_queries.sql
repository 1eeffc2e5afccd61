-- What Apache Superset 6.1 sends to PostgreSQL for the dashboard of docs/bi/superset, by
-- log_statement; written by DPFRAME_RECORD=1 pytest -m bi tests/bi/test_superset.py.

SELECT
CASE WHEN COUNT(DISTINCT level) = 1 THEN SUM(revenue) END AS revenue
FROM dp_results.revenue_latest
WHERE
label IN ('(all)')
LIMIT 50000;

SELECT
CASE WHEN COUNT(DISTINCT level) = 1 THEN SUM(revenue) END AS revenue
FROM dp_results.revenue_latest
WHERE
label IN ('GROCERY')
LIMIT 50000;

SELECT
DATE_TRUNC('WEEK', period_start) AS period_start,
CASE WHEN COUNT(DISTINCT level) = 1 THEN SUM(revenue) END AS revenue,
CASE WHEN COUNT(*) = 1 THEN MAX(revenue_lower) END AS revenue__yhat_lower,
CASE WHEN COUNT(*) = 1 THEN MAX(revenue_upper) END AS revenue__yhat_upper
FROM dp_results.revenue_all
WHERE
label IN ('(all)')
GROUP BY
DATE_TRUNC('WEEK', period_start)
ORDER BY
revenue DESC
LIMIT 10000;

SELECT
DATE_TRUNC('WEEK', period_start) AS period_start,
CASE WHEN COUNT(DISTINCT level) = 1 THEN SUM(revenue) END AS revenue,
CASE WHEN COUNT(*) = 1 THEN MAX(revenue_lower) END AS revenue__yhat_lower,
CASE WHEN COUNT(*) = 1 THEN MAX(revenue_upper) END AS revenue__yhat_upper
FROM dp_results.revenue_all
WHERE
label IN ('GROCERY')
GROUP BY
DATE_TRUNC('WEEK', period_start)
ORDER BY
revenue DESC
LIMIT 10000;

SELECT
DATE_TRUNC('WEEK', period_start) AS period_start,
label AS label,
CASE
WHEN COUNT(DISTINCT level) = 1
AND COUNT(DISTINCT measure) = 1
AND COUNT(DISTINCT family) = 1
THEN SUM(value)
END AS value
FROM dp_results.dp_measures
WHERE
family = 'revenue' AND measure = 'revenue' AND level = 1
GROUP BY
DATE_TRUNC('WEEK', period_start),
label
ORDER BY
value DESC
LIMIT 10000;

SELECT
label AS label
FROM dp_results.revenue_all
GROUP BY
label
ORDER BY
label ASC
LIMIT 1000;

SELECT
label AS label,
CASE WHEN COUNT(DISTINCT level) = 1 THEN SUM(revenue) END AS revenue,
CASE WHEN COUNT(*) = 1 THEN MAX(revenue_lower) END AS "from",
CASE WHEN COUNT(*) = 1 THEN MAX(revenue_upper) END AS "to",
CASE WHEN COUNT(DISTINCT level) = 1 THEN SUM(customers) END AS customers
FROM dp_results.revenue_latest
WHERE
level = 1
GROUP BY
label
ORDER BY
revenue DESC
LIMIT 100;
