"""How the refund desk itself is released: a flow that waits for days, and changed while runs were waiting."""
