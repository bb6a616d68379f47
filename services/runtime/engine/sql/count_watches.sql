SELECT count(*) FROM platform.watches WHERE owner = %(owner)s
