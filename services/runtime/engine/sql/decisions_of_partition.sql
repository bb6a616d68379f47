SELECT agent, count(*), sum(pg_column_size(facts) + pg_column_size(grounds) + pg_column_size(rejected_rules)
    + pg_column_size(calls) + 250)::bigint
FROM {part}
GROUP BY agent
