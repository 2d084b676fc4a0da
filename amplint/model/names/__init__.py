"""What names stand for: reaching definitions, tables, version guards."""
