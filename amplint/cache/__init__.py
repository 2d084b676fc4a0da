"""What is known of files from runs before: what was found in them, and all that this depends on."""
