"""Passwords are kept as hashes."""

from portal.passwords import hash_password, verify_password

PASSWORD = "correct horse battery staple"


def test_the_right_password_is_accepted():
    assert verify_password(PASSWORD, hash_password(PASSWORD))


def test_a_wrong_password_is_refused():
    assert not verify_password("anything else", hash_password(PASSWORD))
