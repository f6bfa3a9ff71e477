# lua: every table and string through realloc and free.
# needs: lua5.4 lua5.4
cat >t.lua <<'L'
local live, state, total = {}, 1, 0
for i = 1, 400000 do
    state = (state * 1103515245 + 12345) & 0x7fffffff
    local k = state % 20000
    if live[k] then total = total + #live[k].s end
    live[k] = { s = string.rep("x", state % 200), n = i, t = { i, k } }
end
print(total)
local parts = {}
for i = 1, 50000 do parts[#parts + 1] = tostring(i) end
local text = table.concat(parts, ",")
print(#text, select(2, text:gsub("7", "seven")))
local function tree(d) return d == 0 and {} or { tree(d - 1), tree(d - 1) } end
local function count(t) return t[1] and 1 + count(t[1]) + count(t[2]) or 1 end
for d = 1, 4 do print(count(tree(12 + d % 3))) end
table.sort(parts)
print(parts[1], parts[#parts])
collectgarbage()
local co = {}
for i = 1, 2000 do co[i] = coroutine.wrap(function(a) while true do a = coroutine.yield(a + i) end end) end
local s = 0
for i = 1, 2000 do s = s + co[i](i) end
print(s)
L
lua5.4 t.lua
