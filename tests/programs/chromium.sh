# Headless Chromium renders a page. It has an allocator of its own, PartitionAlloc, which serves
# malloc inside its binary; the libraries that it loads are on the preloaded one.
# needs: chromium chromium
# timeout: 120
mkdir profile
page='data:text/html,<title>t</title><body><script>document.body.innerText=[...Array(2000).keys()].map(i=>i*i%97).reduce((a,b)=>a+b,0)</script></body>'
chromium --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
    --user-data-dir="$PWD/profile" --dump-dom "$page" 2>/dev/null
