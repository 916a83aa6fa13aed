"""Releases as their readers want them: records, rows of single numbers, tables, files, pictures."""
