"""`python -m toft` is the command `toft` of this package. It runs `app.py` by this Python."""

import os
import sys
import sysconfig


def command():
    """Returns the path of the command, which pip puts beside its other scripts."""
    folders = [sysconfig.get_path("scripts")]
    if "posix_user" in sysconfig.get_scheme_names():
        folders.append(sysconfig.get_path("scripts", "posix_user"))
    # `pip install --target FOLDER`
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"))
    for folder in folders:
        path = os.path.join(folder, "toft")
        if os.access(path, os.X_OK):
            return path
    sys.exit("toft: the command is in none of " + ", ".join(folders))


def arguments(words):
    """Returns the arguments, with the interpreter before a program that is a file of Python."""
    if words[:1] != ["run"]:
        return words
    if "--" in words:
        at = words.index("--") + 1
        options = words[: at - 1]
    else:
        # Options may be before the file, and a value such as A=b.py is none.
        files = [i for i, word in enumerate(words) if word.endswith(".py") and "=" not in word]
        at = files[0] if files else len(words)
        options = words[:at]
    if at < len(words) and words[at].endswith(".py"):
        return options + ["--", sys.executable] + words[at:]
    return words


if __name__ == "__main__":
    path = command()
    os.execv(path, ["toft"] + arguments(sys.argv[1:]))
