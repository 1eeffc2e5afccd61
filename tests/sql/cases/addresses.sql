-- Every count below is further from its threshold than the noise of its budget can reach, so
-- that the nodes are certain; counts are compared within their certain error.

-- What is heavy is reported at its own level, and spellings of one address are one node.
SELECT level, prefix
FROM dp_hhh('addresses', 'ip:src', epsilon := 2.0, delta := 1e-4, threshold := 100);
VALUES
    (0, '*'),
    (1, '<invalid>'),
    (4, '10.1.2.3/32'),
    (4, '10.9.0.1/32'),
    (4, '192.168.7.7/32'),
    (5, '2001:db8::1/128');

-- What is not heavy by itself is heavy together, one level up.
SELECT level, prefix
FROM dp_hhh('addresses', 'ip:src?prefixes=8,32&version=4', epsilon := 2.0, delta := 1e-4, threshold := 350)
WHERE prefix <> '<invalid>';
VALUES (0, '*'), (1, '10.0.0.0/8'), (2, '192.168.7.7/32');

-- Counts are near the truth, and the intervals around them.
SELECT abs(count - 300) < 60 AND lower <= count AND count <= upper
FROM dp_hhh('addresses', 'ip:src', epsilon := 2.0, delta := 1e-4, threshold := 100)
WHERE prefix = '10.1.2.3/32';
VALUES (true);

-- The counts of a parent hold those of its children: level 0 is everything.
SELECT abs(count - 1353) < 300 AND residual < 100
FROM dp_hhh('addresses', 'ip:src', epsilon := 2.0, delta := 1e-4, threshold := 100)
WHERE level = 0;
VALUES (true);

-- Malformed values are counted, or dropped.
SELECT count(*) FILTER (WHERE prefix = '<invalid>')
FROM dp_hhh('addresses', 'ip:src?invalid=drop', epsilon := 2.0, delta := 1e-4, threshold := 100);
VALUES (0);

-- Without the remainder there is no level 0.
SELECT min(level)
FROM dp_hhh('addresses', 'ip:src', epsilon := 2.0, delta := 1e-4, threshold := 100, remainder := false);
VALUES (1);

-- Five people are no heavy hitters, however many rows they have.
SELECT prefix
FROM dp_hhh('addresses', 'ip:src', epsilon := 2.0, delta := 1e-4, user := 'who');
VALUES ('*');

-- The columns have these types, in this order.
DESCRIBE FROM dp_hhh('addresses', 'ip:src', epsilon := 2.0, delta := 1e-4);
SELECT name, type, 'YES', NULL, NULL, NULL
FROM (
    VALUES
        ('level', 'BIGINT'),
        ('prefix', 'VARCHAR'),
        ('residual', 'BIGINT'),
        ('count', 'BIGINT'),
        ('lower', 'BIGINT'),
        ('upper', 'BIGINT')
) AS columns(name, type);
