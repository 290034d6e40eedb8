"""Results for people: rich tables and sentences of verdicts, searches and fuzzing, and the words of all reports."""
