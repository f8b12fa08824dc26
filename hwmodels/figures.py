"""Figure: a constant with its unit, source, date and quality. Without a source none loads.

Data sheets mix dense and structured-sparse rates, and sources contradict each other, so a rate
states its sparsity and a figure may carry the ones that disagree with it (``also``). ``date`` is
when the source was last read. Quality: primary (the vendor's or author's own text), secondary
(somebody else's account), derived (by arithmetic from such), measured (here), assumed, or
unverified.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from formats.schema import Record

Quality = Literal["primary", "secondary", "derived", "measured", "assumed", "unverified"]


class Figure(Record):
    """One constant. ``sparsity`` belongs to rates only."""

    value: float = Field(gt=0, allow_inf_nan=False)
    unit: str = Field(min_length=1)
    sparsity: Literal["dense", "sparse", "unstated"] | None = None
    source: str = Field(min_length=1)
    date: str = Field(pattern=r"^\d{4}-\d{2}$")
    quality: Quality
    also: tuple[Figure, ...] = ()

    @property
    def provenance(self) -> str:
        """Source, quality, date and what disagrees, on one line."""
        kind = f"{self.sparsity}, " if self.sparsity else ""
        text = f"{kind}{self.quality}, {self.date}: {self.source}"
        for other in self.also:
            text += f"; but {other.value:g} {other.unit} ({other.provenance})"
        return text
