-- R3901 equal keys say nothing where one of them is no key of the path
-- error: two private tables are joined only on their privacy unit
-- at: goods
-- hint: SELECT COUNT(DISTINCT s.user_id) FROM scans s JOIN goods g ON s.user_id = g.user_id AND s.hour = g.basket_id -- asks something else: rows of one user_id are joined
SELECT COUNT(DISTINCT s.user_id) FROM scans s JOIN goods g ON s.hour = g.basket_id
