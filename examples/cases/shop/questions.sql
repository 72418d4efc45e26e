-- 1. How many customers are there?
SELECT COUNT(*) AS customers FROM customers;

-- 2. When did they come?
SELECT date_trunc('week', first_day) AS week, COUNT(*) AS customers FROM customers GROUP BY week ORDER BY week;

-- 3. How many purchases were there, of how many CDs?
SELECT COUNT(*) AS purchases, SUM(cds) AS cds FROM purchases;

-- 4. What was taken in?
SELECT SUM(dollars) AS dollars FROM purchases;

-- 5. How many customers bought in each month?
SELECT date_trunc('month', day) AS month, COUNT(DISTINCT customer_id) AS customers
FROM purchases GROUP BY month ORDER BY month;

-- 6. How much is a purchase?
SELECT AVG(dollars) AS average FROM purchases;

-- 7. And the one in the middle?
SELECT MEDIAN(dollars) AS median FROM purchases;

-- 8. How many customers came back on a later day?
SELECT COUNT(DISTINCT p.customer_id) AS came_back
FROM purchases AS p JOIN customers AS c ON p.customer_id = c.customer_id WHERE p.day > c.first_day;

-- 9. On which five days did most customers buy? Of 546 days, so for more epsilon.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.3)
       day, COUNT(DISTINCT customer_id) AS customers FROM purchases GROUP BY day ORDER BY customers DESC LIMIT 5;

-- 10. How many bought on ten days or more?
SELECT COUNT(*) AS regulars
FROM (SELECT customer_id FROM purchases GROUP BY customer_id HAVING COUNT(DISTINCT day) >= 10);
