"""How much water a bed gets today."""

from greenhouse.forecast import rain_expected

DRY = 0.3  # share of the soil's capacity below which a bed is dry


def litres(bed, forecast):
    """Water for one bed in litres: none when the soil is moist or rain will do the work."""
    if bed["moisture"] > DRY:
        return 0
    if rain_expected(forecast):
        return bed["area"] * 4
    return bed["area"] * 4
