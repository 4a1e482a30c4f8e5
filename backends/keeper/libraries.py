"""Third-party libraries for a process that runs isolated (``python -I -S``): by name, late, from one place.

The keeper starts without installed packages on its path (:mod:`backends.keeper.__main__`). What it needs of
them is imported when it is needed, and only what was asked for by name: a folder on ``sys.path`` would lend
its other contents to every later import too.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType

from backends.errors import Refused

_INSTALLED = ("site-packages", "dist-packages")


def load(name: str) -> ModuleType:
    """The top-level package ``name``, from where this distribution and its dependencies are installed.

    Its own imports find the standard library and itself. ``Refused`` when it is not installed there.
    """
    module = sys.modules.get(name)
    if module is not None:
        return module
    import importlib.util  # not at the keeper's start
    from importlib.machinery import PathFinder

    folders = places()
    spec = PathFinder.find_spec(name, folders)
    if spec is None or spec.loader is None:
        raise Refused(
            f"the library {name} cannot be loaded",
            f"it is not in {' or '.join(folders) or 'any folder of installed packages'}",
            "install cloche again, with its dependencies",
            code="library-missing",
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def places() -> list[str]:
    """Folders of installed packages: the one that holds our own code, else those of the interpreter.

    An interpreter of a virtual environment does not know it under ``-S``, so ``pyvenv.cfg`` is looked for as
    ``site`` does (PEP 405); the user's own site-packages are never among them.
    """
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if os.path.basename(ours) in _INSTALLED:
        return [ours]
    import sysconfig

    binaries = os.path.dirname(os.path.abspath(sys.executable))
    for prefix in (os.path.dirname(binaries), binaries):
        if os.path.exists(os.path.join(prefix, "pyvenv.cfg")):
            paths = sysconfig.get_paths("venv", {"base": prefix, "platbase": prefix})
            return _existing(paths["purelib"], paths["platlib"])
    paths = sysconfig.get_paths()
    return _existing(
        paths["purelib"], paths["platlib"], os.path.join(sys.prefix, "lib/python3/dist-packages")
    )


def _existing(*folders: str) -> list[str]:
    return [folder for folder in dict.fromkeys(folders) if os.path.isdir(folder)]
