-- A304 a ratio of released counts
SELECT page, COUNT(DISTINCT user_id) AS n, COUNT(DISTINCT user_id) FILTER (WHERE ms > 50) / COUNT(DISTINCT user_id) AS share FROM visits GROUP BY page ORDER BY n DESC LIMIT 2

-- A305 a wrapping SELECT over a release
SELECT * FROM (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2) AS t ORDER BY page LIMIT 1

-- A306 an element of a list
SELECT COUNT(DISTINCT user_id) FROM visits WHERE string_split(note, ' ')[1] = 'a'

-- A307 a part of a text by its position
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note[1:2] = 'a '

-- A308 a list of constants
SELECT COUNT(DISTINCT user_id) FROM visits WHERE list_contains([1, 2, 3], ms)

-- A309 LIKE with a literal escape
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note LIKE '%$%%' ESCAPE '$'

-- A310 SIMILAR TO
SELECT COUNT(DISTINCT user_id) FROM visits WHERE note SIMILAR TO '[a-c].*'

-- A311 position of a text
SELECT COUNT(DISTINCT user_id) FROM visits WHERE position('a' IN note) > 0

-- A312 substring in the standard's spelling
SELECT COUNT(DISTINCT user_id) FROM visits WHERE substring(note FROM 1 FOR 2) = 'a '
