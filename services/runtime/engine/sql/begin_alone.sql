UPDATE platform.runs SET suspicion = 2
WHERE {claim_holds.sql}
RETURNING {runs.*}
