-- A4301 two tables joined on a key that is one unit's in both
-- candidates: FROM reason_domain
-- expect: itself
SELECT r.reason, COUNT(DISTINCT r.user_id) AS n FROM refunds r JOIN baskets b ON b.basket_id = r.basket_id WHERE b.page = 'a' GROUP BY r.reason
ORDER BY n DESC LIMIT 1

-- A4302 LEFT JOIN on such a key: baskets without a refund
-- expect: SELECT COUNT(DISTINCT b.user_id) FROM baskets b LEFT JOIN refunds r USING (basket_id) WHERE r.refund_id IS NULL
SELECT COUNT(DISTINCT b.user_id) FROM baskets b LEFT JOIN refunds r USING (basket_id) WHERE r.refund_id IS NULL

-- A4303 FULL JOIN: rows of both sides without a partner have a unit
-- expect: SELECT COUNT(DISTINCT COALESCE(b.user_id, r.user_id)) FROM baskets b FULL JOIN refunds r ON b.basket_id = r.basket_id AND r.reason = 'late' WHERE b.page = 'a' OR r.day > DATE '2024-02-20'
SELECT COUNT(DISTINCT COALESCE(b.user_id, r.user_id)) FROM baskets b FULL JOIN refunds r ON b.basket_id = r.basket_id AND r.reason = 'late' WHERE b.page = 'a' OR r.day > DATE '2024-02-20'

-- A4304 a key of two connected declarations: rows of a basket that were refunded
-- expect: SELECT COUNT(DISTINCT b.user_id) FROM goods g JOIN refunds r ON r.basket_id = g.basket_id JOIN baskets b ON b.basket_id = g.basket_id WHERE g.late AND r.reason = 'late'
SELECT COUNT(DISTINCT r.user_id) FROM goods g JOIN refunds r ON r.basket_id = g.basket_id WHERE g.late AND r.reason = 'late'

-- A4305 a table with itself on a column whose values are one unit's each
-- expect: SELECT COUNT(DISTINCT a.user_id) FROM refunds a JOIN refunds b ON a.receipt = b.receipt AND a.refund_id < b.refund_id AND b.reason = 'late'
SELECT COUNT(DISTINCT a.user_id) FROM refunds a JOIN refunds b ON a.receipt = b.receipt AND a.refund_id < b.refund_id AND b.reason = 'late'

-- A4306 EXISTS and NOT IN on such columns
-- expect: SELECT COUNT(DISTINCT user_id) FROM refunds r WHERE EXISTS (SELECT 1 FROM refunds s WHERE s.receipt = r.receipt AND s.day < r.day) AND basket_id NOT IN (SELECT basket_id FROM baskets WHERE late AND user_id IS NOT NULL)
SELECT COUNT(DISTINCT user_id) FROM refunds r WHERE EXISTS (SELECT 1 FROM refunds s WHERE s.receipt = r.receipt AND s.day < r.day) AND basket_id NOT IN (SELECT basket_id FROM baskets WHERE late)

-- A4307 rows of a receipt, grouped by it
-- expect: SELECT COUNT(*) FROM (SELECT user_id FROM (SELECT user_id, receipt, COUNT(*) AS n FROM refunds WHERE user_id IS NOT NULL GROUP BY user_id, receipt) WHERE n > 1 GROUP BY user_id)
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, receipt, COUNT(*) AS n FROM refunds GROUP BY user_id, receipt) WHERE n > 1

-- A4308 the different receipts of one reason, joined with all rows
-- expect: SELECT COUNT(DISTINCT r.user_id) FROM refunds r LEFT JOIN (SELECT receipt, user_id FROM refunds WHERE reason = 'late' GROUP BY ALL) l ON l.receipt = r.receipt AND l.user_id = r.user_id WHERE l.receipt IS NULL
WITH l AS (SELECT DISTINCT receipt FROM refunds WHERE reason = 'late') SELECT COUNT(DISTINCT r.user_id) FROM refunds r LEFT JOIN l ON l.receipt = r.receipt WHERE l.receipt IS NULL

-- A5202 a window over the rows of a basket, which are of one user
-- expect: SELECT COUNT(DISTINCT user_id) FROM (SELECT b.user_id, g.sku, ROW_NUMBER() OVER (PARTITION BY b.user_id, g.basket_id ORDER BY g.sku, g.late) AS r FROM goods g JOIN baskets b ON b.basket_id = g.basket_id) WHERE r = 2 AND sku = 'x'
SELECT COUNT(DISTINCT user_id) FROM (SELECT user_id, sku, ROW_NUMBER() OVER (PARTITION BY basket_id ORDER BY sku, late) AS r FROM goods) WHERE r = 2 AND sku = 'x'

-- A5203 the first parcel of each basket, found again by its number
-- expect: SELECT COUNT(DISTINCT b.user_id) FROM (SELECT basket_id, MIN(parcel_id) AS first FROM parcels GROUP BY basket_id) f JOIN parcels p ON p.parcel_id = f.first JOIN baskets b ON b.basket_id = p.basket_id WHERE p.late
WITH f AS (SELECT basket_id, MIN(parcel_id) AS first FROM parcels GROUP BY basket_id) SELECT COUNT(DISTINCT p.user_id) FROM f JOIN parcels p ON p.parcel_id = f.first WHERE p.late

-- A5204 the same of the parcel before, by a window
-- expect: SELECT COUNT(DISTINCT b.user_id) FROM (SELECT parcel_id, LAG(parcel_id) OVER (PARTITION BY basket_id ORDER BY parcel_id) AS before FROM parcels) f JOIN parcels p ON p.parcel_id = f.before JOIN baskets b ON b.basket_id = p.basket_id WHERE p.late
SELECT COUNT(DISTINCT p.user_id) FROM (SELECT parcel_id, LAG(parcel_id) OVER (PARTITION BY basket_id ORDER BY parcel_id) AS before FROM parcels) f JOIN parcels p ON p.parcel_id = f.before WHERE p.late
