"""A scripted stand-in for a coding agent: it reads, tests, edits, tests again, and leaves helpers running."""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

TESTS = [sys.executable, "-m", "unittest", "discover", "-s", "checks", "-p", "*_check.py"]
WRONG = """    if rain_expected(forecast):
        return bed["area"] * 4
"""
RIGHT = """    if rain_expected(forecast):
        return 0
"""
MORE = '''
    def test_drizzle_is_not_rain(self):
        self.assertEqual(litres({"moisture": 0.1, "area": 2}, [1, 1]), 8)

'''


def say(text):
    print(f"> {text}", flush=True)
    time.sleep(options.pace)


def tests():
    done = subprocess.run(TESTS, capture_output=True, text=True)
    say(done.stderr.strip().splitlines()[-1])


def daemon(argv):
    """Start a helper that leaves its parent, session and group behind (a double fork, as daemons do)."""
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    quiet = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(quiet, fd)
    os.execvp(argv[0], argv)


def edit(path, old, new):
    text = Path(path).read_text()
    Path(path).write_text(text.replace(old, new, 1))


parser = argparse.ArgumentParser()
parser.add_argument("--pace", type=float, default=0.0, help="seconds between steps")
parser.add_argument("--stay", type=float, default=0.0, help="seconds to go on testing afterwards")
options = parser.parse_args()

say("reading greenhouse/watering.py and running the tests")
tests()
say("starting the development server on the box's own loopback")
daemon([sys.executable, "-m", "http.server", "8000", "--bind", "127.0.0.1", "--directory", "web"])
watcher = subprocess.Popen(["sh", "-c", "while sleep 2; do :; done"], start_new_session=True)
say("rain is ignored: both branches return the same")
edit("greenhouse/watering.py", WRONG, RIGHT)
tests()
say("adding a test for drizzle")
edit("checks/watering_check.py", "\n\nif __name__", MORE + "\nif __name__")
tests()
end = time.monotonic() + options.stay
while time.monotonic() < end:
    say("still watching; running the tests again")
    tests()
    time.sleep(min(4, options.stay))
os.killpg(watcher.pid, signal.SIGTERM)
say("done: the development server is left running")
