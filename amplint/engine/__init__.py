"""The way of one file: prefilter, parse, ask the rules, try the fixes."""
