#!/usr/bin/python3 -IS
"""Stands for ``msb`` where no guest boots: its processes are of this host, its answers the recorded ones.

``run`` says what the guest's first command says and ends with its child, as the real one ends with its
machine; ``exec`` runs an order of the folder that the real one would share.
"""

import json
import os
import sys
from typing import Any

STATE = os.environ["MSB_HOME"] + "/standin.json"


def values(words: list[str], name: str) -> list[str]:
    return [words[place + 1] for place, word in enumerate(words) if word == name]


def translated(text: str, shares: dict[str, str]) -> str:
    for inside, outside in shares.items():
        text = text.replace(inside, outside)
    return text


def read() -> dict[str, Any]:
    with open(STATE) as file:
        value: dict[str, Any] = json.load(file)
    return value


def write(state: dict[str, Any]) -> None:
    with open(STATE, "w") as file:
        json.dump(state, file)


def shell(text: str) -> None:
    os.execv("/bin/sh", ["sh", "-c", text])


def run(words: list[str]) -> None:
    shares = {one.split(":")[1]: one.split(":")[0] for one in values(words, "--mount-dir")}
    machine = os.fork()
    if machine == 0:
        os.execv("/bin/sleep", ["msb-machine", "300"])
    write({"shares": shares, "paused": False, "machine": machine})
    first = shares["/.cloche-orders"] + "/first"
    with open(first) as file:
        text = translated(file.read(), shares)
    os.system(text.partition("while sleep")[0])
    os.waitpid(machine, 0)


def execute(words: list[str]) -> None:
    shares = read()["shares"]
    command = words[words.index("--") + 1 :]
    if os.getpid() != os.getsid(0):
        os.setsid()
    if command[1] == "-c":
        os.execv("/bin/sh", command)
    with open(translated(command[1], shares)) as file:
        text = file.read()
    shell(translated(text, {"/.cloche-told": shares["/.cloche-told"]}))


def main(words: list[str]) -> None:
    if words[0] == "run":
        run(words)
    elif words[0] == "exec":
        execute(words)
    elif words[0] in ("pause", "resume"):
        write({**read(), "paused": words[0] == "pause"})
    elif words[0] == "inspect":
        with open(os.path.dirname(os.path.realpath(__file__)) + "/recorded/msb/inspect.json") as file:
            value = json.loads(json.load(file)["out"])
        value["pause"] = {} if read()["paused"] else None
        print(json.dumps(value))
    elif words[0] == "rm":
        os.unlink(STATE)


main(sys.argv[1:])
