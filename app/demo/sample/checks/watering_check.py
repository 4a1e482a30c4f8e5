import unittest

from greenhouse.watering import litres


class Watering(unittest.TestCase):
    def test_moist_soil_gets_nothing(self):
        self.assertEqual(litres({"moisture": 0.8, "area": 2}, [0, 0]), 0)

    def test_dry_soil_gets_four_litres_a_square_metre(self):
        self.assertEqual(litres({"moisture": 0.1, "area": 2}, [0, 0]), 8)

    def test_rain_does_the_work(self):
        self.assertEqual(litres({"moisture": 0.1, "area": 2}, [3, 4]), 0)


if __name__ == "__main__":
    unittest.main()
