# SPDX-License-Identifier: MIT OR Apache-2.0
"""User-level networking that runs anywhere: the Virtual Interface Architecture in software.

The package holds Bellwire's libraries, headers and commands, and two modules of its own:

* :mod:`bellwire.rpc`: remote procedure calls with bytes between processes, with futures and asyncio;
* :mod:`bellwire.am`: Active Messages, and jobs of many processes.

>>> import bellwire, subprocess
>>> subprocess.run(["mpiexec", "-n", "4", "./ring"], env=bellwire.env("mpich"))   # doctest: +SKIP
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

__all__ = ["command", "env", "include_directory", "library_directory", "prefix"]
__version__ = "0.1.0"


def prefix() -> Path:
    """Where Bellwire's files are: `bin`, `lib`, `include`, `share`.

    The environment variable BELLWIRE_PREFIX names another installation (of `make install`).
    """
    chosen = os.environ.get("BELLWIRE_PREFIX")
    if chosen:
        return Path(chosen)
    own = Path(__file__).resolve().parent / "_native"
    if not own.is_dir():
        raise FileNotFoundError(
            f"{own} is not there: this is not an installed wheel; set BELLWIRE_PREFIX to where `make install` has put Bellwire"
        )
    return own


def command(name: str = "bellwire") -> Path:
    """The path of a command: "bellwire", "bellwire-bench" or "bellwired"."""
    path = prefix() / "bin" / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there")
    return path


def library_directory() -> Path:
    """The directory for `cc -L`, and for the run path of programs that are linked there."""
    return prefix() / "lib"


def include_directory() -> Path:
    """The directory for `cc -I`: vipl.h, am.h, bellwire_rpc.h and the others."""
    return prefix() / "include"


def env(mpi: str | None = None, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment in which programs on libfabric, or an MPI's, use Bellwire.

    `mpi` is None (any program on libfabric), "mpich", "openmpi" or "intel". The result is a copy of
    `base` (of `os.environ` if that is None) with the variables that `bellwire env` prints. It raises
    ValueError, with the command's message, for an MPI that Bellwire does not know.
    """
    arguments = [str(command()), "env", *(["--mpi", mpi] if mpi is not None else [])]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(done.stderr.strip() or f"bellwire env ended with status {done.returncode}")
    variables = dict(os.environ if base is None else base)
    for line in done.stdout.splitlines():
        words = shlex.split(line)
        if len(words) == 2 and words[0] == "export":
            name, _, value = words[1].partition("=")
            variables[name] = value
    return variables
