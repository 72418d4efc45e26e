-- R4301 a key that is unique in one table, of which nobody says whose rows the other one has
-- error: two private tables are joined only on their privacy unit
-- at: visits
-- hint: SELECT COUNT(DISTINCT v.user_id) FROM refunds r JOIN visits v ON r.user_id = v.user_id AND r.refund_id = v.ms -- the same if rows of refunds and visits with one refund_id belong to one user_id; else those pairs are left out
SELECT COUNT(DISTINCT v.user_id) FROM refunds r JOIN visits v ON r.refund_id = v.ms

-- R4302 the same of a comma join, with the unit of a table that is found through others
-- error: two private tables are joined only on their privacy unit
-- at: scans
-- hint: SELECT COUNT(*, contribution_bounds_per_group => (0, 9)) FROM refunds r, scans s WHERE r.user_id = s.user_id AND r.refund_id = s.hour AND s.place = 'door' -- the same if rows of refunds and scans with one refund_id belong to one user_id; else those pairs are left out
SELECT COUNT(*, contribution_bounds_per_group => (0, 9)) FROM refunds r, scans s WHERE r.refund_id = s.hour AND s.place = 'door'

-- R4303 a column that is unique in neither table
-- error: two private tables are joined only on their privacy unit
-- at: visits
-- hint: SELECT COUNT(DISTINCT v.user_id) FROM refunds r JOIN visits v ON r.user_id = v.user_id AND r.day = v.day -- asks something else: rows of one user_id are joined
SELECT COUNT(DISTINCT v.user_id) FROM refunds r JOIN visits v ON r.day = v.day

-- R4304 USING
-- error: two private tables are joined only on their privacy unit
-- at: visits
-- hint: SELECT COUNT(DISTINCT r.user_id) FROM refunds r JOIN visits v USING (user_id, day) -- asks something else: rows of one user_id are joined
SELECT COUNT(DISTINCT r.user_id) FROM refunds r JOIN visits v USING (day)
