-- name: bounded
-- A row that could not be sent comes as NULLs, with its size in front: measured as text, since a few bytes of a number can
-- make a hundred thousand digits. Each value is computed once, and what could have been sent keeps its order. With the `.*`
-- a row can't be taken for a column of its that is called `result`.
SELECT measured.size, sent.* FROM (SELECT * FROM (
{statement}
) AS asked OFFSET 0) AS result
CROSS JOIN LATERAL (SELECT octet_length((result.*)::text) AS size) AS measured
LEFT JOIN LATERAL (SELECT result.* WHERE measured.size <= {largest_row}) AS sent ON TRUE
