"""Reports: one deploy report, in the forms in which people and machines read it."""
