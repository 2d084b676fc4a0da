"""Measurements, to be run by hand: times depend on the machine and are no tests."""
