# CPython with each object a separate block: objects, JSON, a database.
# needs: python3 python3
# language: Python
# symbols: exported
# own: python3 libpython3
. "$LABELS/lib/labelled.sh"
OPTIONS="$OPTIONS --python"
ends "$(python3 -c "import sys; print(sys.executable)")" "$PROGRAMS/python.py"
