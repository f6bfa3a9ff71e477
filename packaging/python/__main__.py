"""`python -m toft` is the command `toft` of this package."""

import os
import sys
import sysconfig


def command():
    """Where the command was installed, beside this package."""
    name = "posix_user"
    folders = [sysconfig.get_path("scripts")]
    if name in sysconfig.get_scheme_names():
        folders.append(sysconfig.get_path("scripts", name))
    # `pip install --target FOLDER`
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"))
    for folder in folders:
        path = os.path.join(folder, "toft")
        if os.access(path, os.X_OK):
            return path
    sys.exit("toft: the command is in none of " + ", ".join(folders))


if __name__ == "__main__":
    path = command()
    os.execv(path, ["toft"] + sys.argv[1:])
