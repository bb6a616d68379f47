SELECT count(*) FROM (SELECT FROM platform.runs WHERE state = 'PENDING' LIMIT %(most)s) AS counted
