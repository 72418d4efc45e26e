-- R3901 equal keys say nothing where one of them is no key of the path
-- error: two private tables are joined only on their privacy unit
-- at: goods
-- hint: ON a.user_id = b.user_id
SELECT COUNT(DISTINCT s.user_id) FROM scans s JOIN goods g ON s.hour = g.basket_id
