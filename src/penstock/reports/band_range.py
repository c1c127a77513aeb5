"""BandRange: which of the bands of columns of a chain or a cascade a step computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.scheduling.model.bands import Band
from penstock.scheduling.model.schedule import Schedule


@dataclass(frozen=True, slots=True)
class BandRange:
    """Consecutive bands, numbered from 0, that one step computes.

    chain: number of the chain to which they belong; None if a whole cascade runs in bands.
    lower, upper: the bands [lower, upper).
    total: number of bands of the chain or the cascade.
    """

    chain: int | None
    lower: int
    upper: int
    total: int

    @property
    def words(self) -> str:
        """Return the chain and its bands as a phrase, counting bands from 1.

        >>> BandRange(0, 1, 3, 4).words, BandRange(2, 0, 1, 1).words, BandRange(None, 0, 1, 2).words
        ('chain 0, bands 2-3 of 4', 'chain 2', 'band 1 of 2')
        """
        several = f"bands {self.lower + 1}-{self.upper}"
        bands = several if self.upper - self.lower > 1 else f"band {self.upper}"
        found = () if self.chain is None else (f"chain {self.chain}",)
        return ", ".join((*found, *((f"{bands} of {self.total}",) if self.total > 1 else ())))

    @property
    def short(self) -> str:
        """Return the number of the chain, if there is one, and those of the bands, from 1.

        >>> BandRange(0, 1, 3, 4).short, BandRange(2, 0, 1, 1).short, BandRange(None, 0, 1, 2).short
        ('0: 2-3', '2', '1')
        """
        bands = f"{self.lower + 1}-{self.upper}" if self.upper - self.lower > 1 else f"{self.upper}"
        if self.chain is None:
            return bands
        return f"{self.chain}: {bands}" if self.total > 1 else f"{self.chain}"

    @property
    def total_words(self) -> str:
        """Return the chain and the number of all its bands as a phrase.

        >>> BandRange(0, 1, 3, 4).total_words, BandRange(2, 0, 1, 1).total_words
        ('chain 0, 4 bands', 'chain 2')
        """
        found = () if self.chain is None else (f"chain {self.chain}",)
        return ", ".join((*found, *((f"{self.total} bands",) if self.total > 1 else ())))

    @property
    def short_total(self) -> str:
        """Return the number of the chain, if there is one, and that of all bands.

        >>> BandRange(0, 1, 3, 4).short_total, BandRange(None, 0, 1, 2).short_total
        ('0: 4', '2')
        """
        if self.chain is None:
            return f"{self.total}"
        return f"{self.chain}: {self.total}" if self.total > 1 else f"{self.chain}"


def band_ranges(schedule: Schedule, name: str) -> Iterator[tuple[Band, BandRange]]:
    """Yield each sequence of equal bands in which a part of a schedule runs, and its range.

    name: name of the part.
    """
    chains = [bands.name for bands in schedule.bands if bands.call_rows is not None]
    bands = next(bands for bands in schedule.bands if bands.name == name)
    chain = None if bands.call_rows is None else chains.index(name)
    total = sum(band.count for band in bands.bands)
    lower = 0
    for band in bands.bands:
        yield band, BandRange(chain, lower, lower + band.count, total)
        lower += band.count
