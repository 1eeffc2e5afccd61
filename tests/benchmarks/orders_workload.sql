-- Generated orders, the same on every machine: 40 countries with 8 regions each, 24 categories with
-- 50 products each, all skewed, so that there are some 3e5 leaves, most of them small. Amounts are
-- in cents, with a long tail; customers are skewed, too: ten orders each on average.
-- $rows is the number of rows, $users that of customers.
WITH r AS (
    SELECT
        i,
        (hash(i, 1) % 1000003) / 1000003.0::DOUBLE AS u1,
        (hash(i, 2) % 1000003) / 1000003.0::DOUBLE AS u2,
        (hash(i, 3) % 1000003) / 1000003.0::DOUBLE AS u3,
        (hash(i, 4) % 1000003) / 1000003.0::DOUBLE AS u4,
        (hash(i, 5) % 1000003) / 1000003.0::DOUBLE AS u5,
        (hash(i, 6) % 1000003) / 1000003.0::DOUBLE AS u6,
        (hash(i, 7) % 1000000007) / 1000000007.0::DOUBLE AS u7
    FROM range($rows) t(i)
),
places AS (
    SELECT
        floor(40 * u1 * u1)::INTEGER AS country,
        floor(8 * u2 * u2)::INTEGER AS region,
        floor(24 * pow(u3, 1.5))::INTEGER AS category,
        floor(50 * u4 * u4)::INTEGER AS product,
        u5,
        u6,
        u7
    FROM r
)
SELECT
    'Country ' || chr(65 + country % 26) || country AS country,
    'Region ' || country || '-' || region AS region,
    'Category ' || category AS category,
    'SKU-' || lpad((category * 1000 + product * 7)::VARCHAR, 6, '0') AS product,
    round(least(exp(3 + 1.2 * sqrt(-2 * ln(u5 + 1e-7)) * cos(6.2831853 * u6)), 1e5), 2) AS amount,
    floor($users * pow(u7, 1.5))::BIGINT AS customer
FROM places
