"""The rules, one module for a rule, in a folder for each hundred of the codes."""
