# Headless Chromium renders a page. It has its own allocator, PartitionAlloc, which serves
# malloc inside its binary; the libraries that it loads are on the preloaded one.
# needs: chromium chromium
# timeout: 120
mkdir profile
cat > page.html <<'PAGE'
<!DOCTYPE html><title>sum</title><body><script>
let sum = 0;
for (let i = 0; i < 2000; i++) sum += (i * i) % 97;
document.body.textContent = `the sum is ${sum}`;
</script></body>
PAGE
# It says a lot about what a headless machine lacks: shown only where it fails.
chromium --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
    --user-data-dir="$PWD/profile" --dump-dom "file://$PWD/page.html" > dom 2> said \
    || { tail -n 20 said >&2; exit 1; }
grep '^toft:' said >&2 || true
grep -o 'the sum is [0-9]*' dom
