-- A3901 rows that find their unit through two tables
-- candidates: FROM place_domain
-- expect: SELECT place, COUNT(DISTINCT user_id) FROM scans JOIN parcels USING (parcel_id) JOIN baskets USING (basket_id) GROUP BY place
SELECT place, COUNT(DISTINCT user_id) AS n FROM scans GROUP BY place
ORDER BY n DESC LIMIT 1

-- A3902 rows of a unit, of which some lead nowhere
-- expect: SELECT SUM(LEAST(n, 9)) FROM (SELECT COUNT(*) AS n FROM scans JOIN parcels USING (parcel_id) JOIN baskets USING (basket_id) WHERE user_id IS NOT NULL GROUP BY user_id)
SELECT COUNT(*, contribution_bounds_per_group => (0, 9)) FROM scans

-- A3903 the key of a hop equals: no unit in ON
-- candidates: FROM place_domain
-- expect: SELECT place, COUNT(DISTINCT user_id) FROM scans JOIN parcels p USING (parcel_id) JOIN baskets USING (basket_id) WHERE p.late GROUP BY place
SELECT place, COUNT(DISTINCT s.user_id) AS n FROM scans s JOIN parcels p USING (parcel_id) WHERE late GROUP BY place
ORDER BY n DESC LIMIT 1

-- A3904 the whole path, each table joined on the key of its hop
-- expect: SELECT COUNT(DISTINCT user_id) FROM scans JOIN parcels p USING (parcel_id) JOIN baskets b USING (basket_id) WHERE b.page = 'a' AND p.late
SELECT COUNT(DISTINCT b.user_id) FROM scans s JOIN parcels p USING (parcel_id) JOIN baskets b USING (basket_id) WHERE b.page = 'a' AND p.late

-- A3905 two tables that lead to one parent
-- expect: SELECT COUNT(DISTINCT b.user_id) FROM goods g JOIN parcels p ON g.basket_id = p.basket_id JOIN baskets b ON b.basket_id = g.basket_id WHERE g.late AND p.late
SELECT COUNT(DISTINCT g.user_id) FROM goods g JOIN parcels p ON g.basket_id = p.basket_id WHERE g.late AND p.late

-- A3906 the key of a hop in EXISTS and IN
-- expect: SELECT COUNT(DISTINCT user_id) FROM parcels p JOIN baskets USING (basket_id) WHERE EXISTS (SELECT 1 FROM scans s WHERE s.parcel_id = p.parcel_id AND s.place = 'door') AND parcel_id NOT IN (SELECT parcel_id FROM scans WHERE place = 'depot' AND parcel_id IS NOT NULL)
SELECT COUNT(DISTINCT user_id) FROM parcels p WHERE EXISTS (SELECT 1 FROM scans s WHERE s.parcel_id = p.parcel_id AND s.place = 'door') AND parcel_id NOT IN (SELECT parcel_id FROM scans WHERE place = 'depot')

-- A3907 tables two hops apart, joined on the unit
-- expect: SELECT COUNT(DISTINCT b.user_id) FROM scans JOIN parcels USING (parcel_id) JOIN baskets a USING (basket_id) JOIN baskets b ON a.user_id = b.user_id WHERE b.page = 'b' AND place = 'door'
SELECT COUNT(DISTINCT s.user_id) FROM scans s JOIN baskets b ON s.user_id = b.user_id WHERE b.page = 'b' AND s.place = 'door'
