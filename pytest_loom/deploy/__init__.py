"""Deploy simulation: which recorded runs would today's code strand, corrupt, re-execute or wave through (ADR 0008)."""
