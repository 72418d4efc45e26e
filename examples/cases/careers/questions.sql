-- 1. How many players began in each decade?
SELECT date_trunc('decade', first_game) AS decade, COUNT(*) AS players FROM players GROUP BY decade ORDER BY decade;

-- 2. From which countries did they come? Nobody declared the countries, so this needs some delta, and rare ones stay hidden.
SELECT country, COUNT(*) AS players FROM players GROUP BY country ORDER BY players DESC;

-- 3. What share throws with the left hand?
SELECT COUNT(*) FILTER (WHERE throws = 'L') AS left_handed, COUNT(*) AS players,
       100 * left_handed / players AS percent
FROM players;

-- 4. How heavy and how tall are those who bat left, right, with both?
SELECT bats, AVG(weight) AS pounds, AVG(height) AS inches FROM players WHERE bats IS NOT NULL GROUP BY bats;

-- 5. How did the salary in the middle grow? A player has at most one contract for most of these years.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, max_rows_contributed = 4) year, MEDIAN(salary) AS median
FROM salaries WHERE year IN (1986, 1996, 2006, 2016) GROUP BY year ORDER BY year;

-- 6. What did all teams pay in 2016? The bound is written: the largest contract in the news was below 35 million.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
       SUM(salary, contribution_bounds_per_group => (0, 35000000)) AS paid
FROM salaries WHERE year = 2016;

-- 7. How many players had contracts of ten million and more?
SELECT COUNT(DISTINCT player_id) AS players FROM salaries WHERE salary >= 10000000;

-- 8. How many played in at least 15 years?
SELECT COUNT(*) AS long_careers
FROM (SELECT player_id FROM seasons GROUP BY player_id HAVING COUNT(DISTINCT year) >= 15);

-- 9. Which teams have had more than 1,500 players?
SELECT t.name, COUNT(DISTINCT s.player_id) AS players
FROM seasons AS s JOIN teams AS t ON s.team = t.team
GROUP BY t.name HAVING players >= 1500 ORDER BY players DESC LIMIT 10;

-- 10. How many were pitchers, and how many of them batted left?
SELECT COUNT(DISTINCT s.player_id) AS pitchers, COUNT(DISTINCT s.player_id) FILTER (WHERE p.bats = 'L') AS batted_left
FROM seasons AS s JOIN players AS p ON s.player_id = p.player_id WHERE s.pitched > 0;
