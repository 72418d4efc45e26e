-- Questions to the flights from New York City in 2013, each under differential privacy for aircraft.
--
--   dpsql -p data/flights.toml -f examples/flights.sql
--
-- Here the privacy unit is an aircraft (its tail number): what one aircraft did all year stays hidden, and
-- counts of DISTINCT tailnum are numbers of aircraft. Together the statements take an epsilon of 6.75 from a
-- budget of 10.

-- Public tables are free and exact: the states with the most airports in the list.
SELECT state, COUNT(*) AS airports
FROM airports
GROUP BY state
ORDER BY airports DESC, state
LIMIT 5;

-- The ten cities that most aircraft flew to, with the gap to the next one.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)
  a.city,
  COUNT(DISTINCT f.tailnum) AS n,
  DP_GAP() AS gap
FROM flights f
JOIN airports a ON f.dest = a.faa
GROUP BY a.city
ORDER BY n DESC
LIMIT 10;

-- The three airlines with the most aircraft, in order; how many is not asked, so it costs nothing.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25)
  l.name
FROM flights f
JOIN airlines l ON f.carrier = l.carrier
GROUP BY l.name
TOP 3 BY COUNT(DISTINCT f.tailnum);

-- At which hours are most aircraft late by an hour or more?
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  hour,
  COUNT(DISTINCT tailnum) AS n
FROM flights
WHERE dep_delay >= 60
GROUP BY hour
ORDER BY n DESC
FETCH FIRST 5 ROWS ONLY;

-- The month in which flights of most aircraft were cancelled.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  ARG_MAX(month, n)
FROM (
  SELECT date_trunc('month', date) AS month, COUNT(DISTINCT tailnum) AS n
  FROM flights
  WHERE dep_delay IS NULL
  GROUP BY month
);

-- The same, asked as the largest row, for one airline and with the number.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  date_trunc('month', date) AS month,
  COUNT(DISTINCT tailnum) AS n
FROM flights
WHERE dep_delay IS NULL AND carrier = 'EV'
GROUP BY month
ORDER BY n DESC
LIMIT 1;

-- COUNT(*) counts aircraft where each has one row a group, as after this DISTINCT: which airport was left by
-- the most of them?
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25)
  origin,
  COUNT(*) AS n
FROM (SELECT DISTINCT tailnum, origin FROM flights)
GROUP BY origin
ORDER BY n DESC
LIMIT 2;

-- Where do the busiest aircraft go, those with at least 200 flights a year?
WITH busy AS (
  SELECT tailnum
  FROM flights
  GROUP BY tailnum
  HAVING COUNT(*) >= 200
)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  f.dest,
  COUNT(DISTINCT f.tailnum) AS n,
  DP_GAP() AS gap
FROM flights f
JOIN busy b ON f.tailnum = b.tailnum
GROUP BY f.dest
TOP 5;

-- Which engines do the aircraft have that fly farther than 2,000 miles? The flights and the register of
-- aircraft are joined on the privacy unit.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25) TOP 2
  p.engine,
  COUNT(DISTINCT p.tailnum) AS n
FROM planes p
JOIN flights f ON p.tailnum = f.tailnum
WHERE f.distance > 2000
GROUP BY p.engine
ORDER BY n DESC;

-- The airlines whose old aircraft were seen most, as a window.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  l.name,
  COUNT(DISTINCT f.tailnum) AS n
FROM flights f
JOIN planes p ON f.tailnum = p.tailnum
JOIN airlines l ON f.carrier = l.carrier
WHERE p.year < 1995
GROUP BY l.name
QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) <= 3;

-- Aircraft of the register with seats for at least 150, by type; the register has one row an aircraft.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  type,
  COUNT(*) AS n
FROM planes
WHERE seats >= 150
GROUP BY type
ORDER BY n DESC
LIMIT 1;

-- Flights instead of aircraft, with each airline's share: of one aircraft at most 365 count, as the policy says.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  l.name,
  COUNT(*) AS n,
  n / SUM(n) OVER () AS share
FROM flights f
JOIN airlines l ON f.carrier = l.carrier
GROUP BY l.name
ORDER BY n DESC;

-- The two destinations from each airport that most aircraft flew to: an aircraft may leave from all three.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
  origin,
  dest,
  COUNT(DISTINCT tailnum) AS n
FROM flights
GROUP BY origin, dest
QUALIFY ROW_NUMBER() OVER (PARTITION BY origin ORDER BY n DESC) <= 2;

-- How late flights left on average, by airport, and how widely that varies: delays beyond three hours count as that.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)
  origin,
  AVG(dep_delay) AS minutes,
  STDDEV(dep_delay) AS spread,
  COUNT(*) AS n
FROM flights
GROUP BY origin;

-- What is left.
SHOW PRIVACY BUDGET;
