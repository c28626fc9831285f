"""What ids and times look like in the JSON text of a payload: what tells two recordings of one thing apart."""

from __future__ import annotations

import re

UUID = rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
HEX = rb"(?<![0-9A-Za-z])[0-9a-f]{32}(?![0-9A-Za-z])"
TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[0-9.eE+-]*')
"""A string or a number of a JSON text."""
