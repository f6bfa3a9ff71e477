# CPython with a separate malloc for every object.
# needs: python3 python3
export PYTHONMALLOC=malloc
python3 "$PROGRAMS/python.py"
