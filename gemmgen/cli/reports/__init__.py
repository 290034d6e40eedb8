"""Results for people: rich tables and sentences, a module a kind of result. Nothing is computed here."""
