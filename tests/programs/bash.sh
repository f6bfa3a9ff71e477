# bash itself: arrays, strings, functions, subshells, pipes.
# needs: bash bash
declare -A seen
state=1
for ((i = 0; i < 20000; i++)); do
    state=$(((state * 1103515245 + 12345) & 0x7fffffff))
    seen[$((state % 700))]+=${state:0:2}
done
echo "${#seen[@]}"
total=0
for key in "${!seen[@]}"; do total=$((total + ${#seen[$key]})); done
echo $total
depth() { if [ "$1" -gt 0 ]; then depth $(($1 - 1)); else echo bottom; fi; }
depth 300
list=()
for i in {1..3000}; do list+=("item $i"); done
printf '%s\n' "${list[@]}" | sort -r | sed -n "1,3p"
for i in {1..60}; do (echo "$i" | { read -r x; echo $((x * x)); }); done | tail -1
text=$(printf 'x%.0s' {1..50000})
echo ${#text} "${text//xx/y}" | md5sum
