"""A refund desk: inspect the order, let a model assess it, ask a human where needed, pay, write to the customer."""
