# CPython with each object a separate block: objects, JSON, a database. The distribution's has only
# exported symbols, one that was built here has all.
# needs: python3 python3
# language: Python
# symbols: varies
# below: some live bytes are those of the loader, and of functions that are *alloc* by name
# own: python3 libpython3
. "$LABELS/lib/labelled.sh"
OPTIONS="$OPTIONS --python"
ends "$(python3 -c "import sys; print(sys.executable)")" "$PROGRAMS/python.py"
