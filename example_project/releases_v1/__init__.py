"""The release flow as it was last week, kept because runs are on it: it made the logs in ``tests/logs/yesterday``."""
