-- # Tableau

-- Bars of a sum
-- by: country
-- of: sum amount
SELECT "sales"."country" AS "country", SUM("sales"."amount") AS "sum:amount:ok" FROM "public"."sales" "sales" GROUP BY 1;

-- Number of records
-- by: category
-- of: sum [0, 1] 1
SELECT "sales"."category" AS "category", SUM(1) AS "sum:Number of Records:ok" FROM "public"."sales" "sales" GROUP BY 1;

-- A count of the table
-- by: category
-- of: rows
SELECT "sales"."category" AS "category", COUNT(1) AS "cnt:sales_0A1B:ok" FROM "public"."sales" "sales" GROUP BY 1;

-- A total
-- of: sum amount; rows
SELECT SUM("sales"."amount") AS "sum:amount:ok" FROM "public"."sales" "sales" HAVING (COUNT(1) > 0);

-- A mean, which is a sum and a count
-- by: country
-- of: sum amount; rows if amount IS NOT NULL
SELECT "sales"."country" AS "country", SUM("sales"."amount") AS "sum:amount:ok", COUNT("sales"."amount") AS "cnt:amount:ok" FROM "public"."sales" "sales" GROUP BY 1;

-- People
-- by: channel
-- of: people
SELECT "sales"."channel" AS "channel", COUNT(DISTINCT "sales"."customer_id") AS "ctd:customer_id:ok" FROM "public"."sales" "sales" GROUP BY 1;

-- A year on the columns, a country on the rows
-- by: country; yr = extract(year FROM ordered_at)
-- of: sum amount
SELECT "sales"."country" AS "country", SUM("sales"."amount") AS "sum:amount:ok", CAST(EXTRACT(YEAR FROM "sales"."ordered_at") AS BIGINT) AS "yr:ordered_at:ok" FROM "public"."sales" "sales" GROUP BY 1, 3;

-- A line of months
-- by: tmn = date_trunc('month', ordered_at)
-- of: sum amount
SELECT SUM("sales"."amount") AS "sum:amount:ok", DATE_TRUNC('MONTH', CAST("sales"."ordered_at" AS TIMESTAMP)) AS "tmn:ordered_at:ok" FROM "public"."sales" "sales" GROUP BY 2;

-- The values of a filter
-- by: product
SELECT "sales"."product" AS "product" FROM "public"."sales" "sales" GROUP BY 1 ORDER BY 1 ASC NULLS FIRST;

-- A filter of members and a range of dates
-- by: product
-- of: sum quantity
-- where: country IN ('FR', 'IT') AND ordered_at BETWEEN '2026-01-01' AND '2026-06-30'
SELECT "sales"."product" AS "product", SUM("sales"."quantity") AS "sum:quantity:ok" FROM "public"."sales" "sales" WHERE (("sales"."country" IN ('FR', 'IT')) AND ("sales"."ordered_at" >= (TIMESTAMP '2026-01-01 00:00:00.000')) AND ("sales"."ordered_at" <= (TIMESTAMP '2026-06-30 00:00:00.000'))) GROUP BY 1;

-- A filter of a measure
-- by: product
-- of: sum amount
SELECT "sales"."product" AS "product", SUM("sales"."amount") AS "sum:amount:ok" FROM "public"."sales" "sales" GROUP BY 1 HAVING ((SUM("sales"."amount") >= 100000.0) AND (SUM("sales"."amount") <= 10000000.0));

-- A joined dimension
-- by: region
-- of: sum amount
-- from: sales JOIN stores USING (store_id)
SELECT "stores"."region" AS "region", SUM("sales"."amount") AS "sum:amount:ok" FROM "public"."sales" "sales" INNER JOIN "public"."stores" "stores" ON ("sales"."store_id" = "stores"."store_id") GROUP BY 1;

-- Two joined dimensions
-- by: brand; region
-- of: rows
-- from: sales LEFT JOIN stores USING (store_id) LEFT JOIN products USING (product)
SELECT "products"."brand" AS "brand", "stores"."region" AS "region", COUNT(1) AS "cnt:sales_0A1B:ok" FROM "public"."sales" "sales" LEFT JOIN "public"."stores" "stores" ON ("sales"."store_id" = "stores"."store_id") LEFT JOIN "public"."products" "products" ON ("sales"."product" = "products"."product") GROUP BY 1, 2;

-- A calculated field in a measure
-- by: country
-- of: sum amount * quantity
SELECT "sales"."country" AS "country", SUM(("sales"."amount" * "sales"."quantity")) AS "sum:Calculation_1:ok" FROM "public"."sales" "sales" GROUP BY 1;

-- A ratio of sums
-- by: country
-- of: sum amount; sum quantity
SELECT "sales"."country" AS "country", (SUM("sales"."amount") / NULLIF(CAST(SUM("sales"."quantity") AS DOUBLE), 0)) AS "usr:Calculation_2:ok" FROM "public"."sales" "sales" GROUP BY 1;

-- A group of values
-- by: grouped = CASE WHEN country IN ('FR', 'DE', 'IT') THEN 'Europe' ELSE 'Other' END
-- of: sum amount
SELECT (CASE WHEN ("sales"."country" IN ('FR', 'DE', 'IT')) THEN 'Europe' ELSE 'Other' END) AS "Country (group)", SUM("sales"."amount") AS "sum:amount:ok" FROM "public"."sales" "sales" GROUP BY 1;

-- An IF in a measure
-- by: country
-- of: sum CASE WHEN channel = 'web' THEN amount ELSE 0 END
-- bounds: CASE WHEN channel = 'web' THEN amount ELSE 0 END = 0, 500
SELECT "sales"."country" AS "country", SUM((CASE WHEN ("sales"."channel" = 'web') THEN "sales"."amount" ELSE 0 END)) AS "sum:Calculation_3:ok" FROM "public"."sales" "sales" GROUP BY 1;

-- A bin of a number
-- by: bin = floor(amount / 50)
-- of: rows
SELECT CAST(FLOOR("sales"."amount" / 50) AS BIGINT) AS "amount (bin)", COUNT(1) AS "cnt:amount:ok" FROM "public"."sales" "sales" GROUP BY 1;

-- A median
-- by: category
-- of: quantile 0.5 amount
-- near: 0.05
SELECT "sales"."category" AS "category", MEDIAN("sales"."amount") AS "med:amount:ok" FROM "public"."sales" "sales" GROUP BY 1;

-- Custom SQL as the source
-- by: country
-- of: sum amount
-- where: amount > 10
SELECT "Custom SQL Query"."country" AS "country", SUM("Custom SQL Query"."amount") AS "sum:amount:ok" FROM (SELECT * FROM sales WHERE amount > 10) "Custom SQL Query" GROUP BY 1;

-- The ends of a date filter
-- refused: MIN("sales"."ordered_at") (line 1, column 8): a least value is one record's. Ask quantile_cont(column, 0.01).
SELECT MIN("sales"."ordered_at") AS "TEMP(lower)", MAX("sales"."ordered_at") AS "TEMP(upper)", COUNT(1) AS "cnt" FROM "public"."sales" "sales" HAVING (COUNT(1) > 0);

-- The first n, by a join with them
-- refused: INNER JOIN (SELECT "sales"."product" ... (line 1, column 111): a second private table is not read: a record could meet many others. Join public tables only, or join before you ask.
SELECT "sales"."product" AS "product", SUM("sales"."amount") AS "sum:amount:ok" FROM "public"."sales" "sales" INNER JOIN (SELECT "sales"."product" AS "product", SUM("sales"."amount") AS "$__alias__0" FROM "public"."sales" "sales" GROUP BY 1 ORDER BY 2 DESC LIMIT 10) "t0" ON ("sales"."product" = "t0"."product") GROUP BY 1;

-- A fixed level of detail: what each customer spends
-- refused: CROSS JOIN "public"."sales" "sales" (line 1, column 197): a second private table is not read: a record could meet many others. Join public tables only, or join before you ask.
SELECT AVG("t0"."__measure__1") AS "avg:Calculation:ok" FROM (SELECT "sales"."customer_id" AS "customer_id", SUM("sales"."amount") AS "__measure__1" FROM "public"."sales" "sales" GROUP BY 1) "t0" CROSS JOIN "public"."sales" "sales";

-- An attribute: the value if there is one
-- refused: MIN("sales"."category") (line 1, column 51): a least value is one record's. Ask quantile_cont(column, 0.01).
SELECT "sales"."product" AS "product", (CASE WHEN MIN("sales"."category") = MAX("sales"."category") THEN MIN("sales"."category") ELSE '*' END) AS "attr:category:nk" FROM "public"."sales" "sales" GROUP BY 1;
