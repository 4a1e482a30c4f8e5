"""What the weather will do for us."""

ENOUGH = 5  # millimetres a day


def rain_expected(forecast):
    """Whether the forecast (millimetres for each hour) adds up to enough rain."""
    return sum(forecast) >= ENOUGH
