"""From an error message, a warning or a symptom to the rules that find its cause, and to what to do."""
