# Headless Firefox renders a page. It has its own malloc, which wins over a preloaded one.
# needs: firefox-esr firefox-esr
# untouched: Firefox brings its own malloc
# timeout: 300
cat > page.html <<'PAGE'
<!DOCTYPE html><title>p</title><body style="background:#204060"><canvas id=c width=300 height=300></canvas><script>
const g = document.getElementById('c').getContext('2d');
for (let i = 0; i < 3000; i++) { g.fillStyle = `rgb(${i % 256},0,0)`; g.fillRect(i % 300, (i * 7) % 300, 1, 1); }
</script></body>
PAGE
firefox-esr --headless --no-remote --profile "$(mktemp -d)" --window-size 400,400 --screenshot "$PWD/shot.png" "file://$PWD/page.html" >said 2>&1 || { tail -n 20 said >&2; exit 1; }
grep '^toft:' said | grep -v 'own malloc' >&2 || true
python3 - <<'P'
import struct
head = open("shot.png", "rb").read(24)
print("picture", struct.unpack(">II", head[16:24]))
P
