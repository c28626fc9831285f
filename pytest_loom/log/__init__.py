"""The log: events, logs, and the reader and writer of ``*.loom.jsonl`` (DESIGN section 3)."""
