-- By which right a caller may answer the question `q` of the run `r`; null for none. A run acts with the roles that it was
-- made with, so its caller answers only while they have them all.
CASE
    WHEN q.for_caller AND q.subject = %(subject)s AND r.roles <@ %(roles)s::text[] THEN 'caller'
    WHEN q.assignee = %(subject)s THEN 'assignee'
    WHEN q.roles && %(roles)s::text[] OR %(operator)s::text = ANY (%(roles)s::text[]) THEN 'role'
END
