# A slice of CPython's own test suite.
# needs: python3 python3
# probe: libpython3.*-testsuite python3 -c "import test.test_json, test.test_dict"
# timeout: 300
run() { python3 -m test test_json test_dict test_list test_re test_threading_local test_bytes >log 2>&1; }
run || { cat log >&2; exit 1; }
grep -E '^(Tests )?[Rr]esult: ' log | tail -1 | sed 's/^Tests r/R/'
export PYTHONMALLOC=malloc
python3 -m test test_json test_dict test_list test_set >log 2>&1 || { cat log >&2; exit 1; }
grep -E '^(Tests )?[Rr]esult: ' log | tail -1 | sed 's/^Tests r/R/'
