"""`data_chat`: questions to a database, each user seeing only their own rows."""
