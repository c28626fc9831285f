"""The returns as they were last week; the store that they left is in tests/logs/returns (make_returns.py)."""
