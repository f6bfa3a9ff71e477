# CPython with every object a separate malloc.
# needs: python3 python3
export PYTHONMALLOC=malloc
python3 "$PROGRAMS/python.py"
