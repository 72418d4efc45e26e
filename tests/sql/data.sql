-- Raw data of the SQL fixtures: small, with what data has in life: rows without a unit, values outside the
-- declared domains, NULLs, text that is a number or JSON, public pages nobody visited, users without visits.
CREATE TABLE visits(user_id BIGINT, page VARCHAR, country VARCHAR, ms INTEGER, note VARCHAR, day DATE);
INSERT INTO visits
SELECT i % 9, ['a', 'b', 'c', 'd', 'e', NULL][1 + i % 6], ['DE', 'FR', 'US', 'XX', NULL][1 + i % 5],
       i * 7 % 130, ['a b', '5', 'x', '{"a":"x"}', NULL, '2024-02-03', 'b', 'It''s 50% {0} Ä'][1 + i % 8],
       DATE '2024-01-01' + (i * 13 % 200)::INTEGER
FROM range(48) t(i);
INSERT INTO visits SELECT 20, 'a', 'DE', i, 'c', DATE '2024-06-01' + i::INTEGER FROM range(12) t(i);
INSERT INTO visits VALUES (NULL, 'a', 'DE', 5, 'a b', DATE '2024-01-01'), (NULL, 'b', 'FR', 500, 'b', NULL),
    (5, 'a', 'DE', NULL, NULL, NULL), (6, 'c', 'US', -2147483648, '', DATE '1999-12-31'),
    (7, 'c', 'US', 2147483647, '0', DATE '5000000-01-01');

CREATE TABLE users(user_id BIGINT, age INTEGER, city VARCHAR);
INSERT INTO users SELECT i, 15 + i * 7, ['X', 'Y', 'Z', NULL][1 + i % 4] FROM range(2, 14) t(i);

CREATE TABLE pages(page VARCHAR, category VARCHAR);
INSERT INTO pages VALUES ('a', 'news'), ('b', 'news'), ('c', 'shop'), ('d', 'shop'), ('z', 'empty'), (NULL, 'nothing');

CREATE TABLE baskets(basket_id BIGINT, user_id BIGINT, page VARCHAR, late BOOLEAN);
INSERT INTO baskets
SELECT i, i * i % 11, ['a', 'b', 'c', NULL][1 + i % 4], [TRUE, FALSE, NULL][1 + i % 3] FROM range(30) t(i);
INSERT INTO baskets VALUES (30, NULL, 'a', TRUE), (31, 20, 'b', TRUE);

CREATE TABLE goods(basket_id BIGINT, sku VARCHAR, late BOOLEAN);
INSERT INTO goods
SELECT i * 7 % 36, ['x', 'y', 'z', NULL][1 + i % 4], [TRUE, NULL, FALSE][1 + i % 3] FROM range(70) t(i);

CREATE TABLE parcels(parcel_id BIGINT, basket_id BIGINT, late BOOLEAN);
INSERT INTO parcels
SELECT 100 + i, CASE WHEN i % 13 <> 5 THEN i * 5 % 36 END, [TRUE, FALSE, NULL][1 + i % 3] FROM range(45) t(i);

CREATE TABLE scans(parcel_id BIGINT, place VARCHAR, hour INTEGER);
INSERT INTO scans
SELECT CASE WHEN i % 11 <> 3 THEN 100 + i * 3 % 50 END, ['depot', 'door', 'road', 'street'][1 + i % 4], i % 24
FROM range(120) t(i);
CREATE VIEW place_domain AS SELECT unnest(['depot', 'door']) AS place;

-- The rows of a basket's refunds are its user's; a receipt is of one user and has several rows.
CREATE TABLE refunds(refund_id BIGINT, basket_id BIGINT, user_id BIGINT, receipt BIGINT, reason VARCHAR, day DATE);
INSERT INTO refunds
SELECT 500 + i, basket_id, user_id, CASE WHEN i % 7 <> 2 THEN 10 * user_id + i % 2 END,
       ['late', 'broken', 'other', NULL][1 + i % 4], DATE '2024-02-01' + (i * 11 % 60)::INTEGER
FROM range(40) t(i) JOIN baskets ON basket_id = i * 4 % 30;
INSERT INTO refunds VALUES (600, NULL, 4, 40, 'late', NULL), (601, 77, 4, 41, 'broken', DATE '2024-02-01');
CREATE VIEW reason_domain AS SELECT unnest(['late', 'broken', NULL]) AS reason;

CREATE TABLE prices(page VARCHAR, price DECIMAL(6, 2), weight INTEGER);
INSERT INTO prices VALUES ('a', 1.25, 3), ('b', 20.50, 1), ('c', 0.75, 8), ('d', NULL, 2), (NULL, 90.00, 50);

CREATE TABLE readings(sensor VARCHAR, value DOUBLE);
INSERT INTO readings SELECT ['s', 't', 'u', NULL][1 + i % 4], i / 8 - 2 FROM range(100) t(i);
INSERT INTO readings VALUES ('s', 'NaN'), ('s', 'Infinity'), ('t', '-Infinity'), ('t', NULL), ('s', -0.0);

-- When each page was published.
CREATE TABLE moments(page VARCHAR, since TIMESTAMPTZ);
INSERT INTO moments VALUES ('a', '2024-01-15 00:00:00+02'), ('b', NULL), ('c', 'infinity'), ('d', '-infinity');

-- What the policy declares, for the fixtures' `candidates`; NULL is one more value of a key that can be NULL.
CREATE VIEW page_domain AS SELECT page FROM pages;
CREATE VIEW category_domain AS SELECT DISTINCT category FROM pages;
CREATE VIEW country_domain AS SELECT unnest(['DE', 'FR', 'US', NULL]) AS country;
CREATE VIEW sensor_domain AS SELECT unnest(['s', 't', NULL]) AS sensor;
CREATE VIEW city_domain AS SELECT unnest(['X', 'Y', NULL]) AS city;
CREATE VIEW day_domain AS SELECT (DATE '2024-01-01' + i::INTEGER)::DATE AS d FROM range(366) t(i) UNION ALL SELECT NULL;
CREATE VIEW boolean_domain AS SELECT unnest([FALSE, TRUE, NULL]) AS b;
