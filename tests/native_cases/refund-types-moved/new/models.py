"""What the refund desk talks about."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel


@dataclass
class RiskAssessment:
    risk: str
    limit: int


class Verdict(BaseModel):
    approved: bool
    by: str
