# SPDX-License-Identifier: MIT OR Apache-2.0
"""`bellwire ..` and `python -m bellwire ..`: the command of the package, in place of this process."""

import os
import sys

from . import command


def main() -> None:
    """Becomes the command. Does not return, unless the command cannot be started."""
    try:
        path = str(command())
        os.execv(path, [path, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"bellwire: {error}")


if __name__ == "__main__":
    main()
