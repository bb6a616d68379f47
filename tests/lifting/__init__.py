"""Lifted tables held against the functions that they are from, on states made for them; also of whole folders."""
