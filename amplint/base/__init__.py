"""Plain data that everything shares: findings, edits, paths, releases. Imports nothing of amplint."""
