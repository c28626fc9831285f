"""The ticket desk as it was last week; what it saved is in tests/logs/tickets (make_tickets.py)."""
