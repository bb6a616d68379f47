"""Lines that must not be broken unnoticed: each is broken once, in a copy, and the tests nearest to it must fail."""
