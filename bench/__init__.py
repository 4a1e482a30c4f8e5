"""``make bench``: what a box costs, beside what a person would use instead, in one run."""
