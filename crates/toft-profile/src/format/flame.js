"use strict";
const frames = [...document.querySelectorAll(".frame")];
const of = (frame) => ({
  x: +frame.dataset.x, w: +frame.dataset.w, y: +frame.dataset.y,
  bytes: +frame.dataset.bytes, name: frame.dataset.name,
});
const all = 1200;
const back = document.getElementById("back");

function into(chosen) {
  const { x, w, y } = of(chosen);
  for (const frame of frames) {
    const own = of(frame);
    const around = own.x <= x + 1e-2 && own.x + own.w >= x + w - 1e-2 && own.y >= y;
    const inside = own.x >= x - 1e-2 && own.x + own.w <= x + w + 1e-2 && own.y <= y;
    frame.style.display = around || inside ? "" : "none";
    const from = around ? 0 : ((own.x - x) / w) * all;
    const wide = around ? all : (own.w / w) * all;
    const rect = frame.querySelector("rect");
    const text = frame.querySelector("text");
    rect.setAttribute("x", from);
    rect.setAttribute("width", Math.max(wide, 0));
    text.setAttribute("x", from + 3);
    const room = Math.floor((wide - 6) / 7);
    const name = own.name;
    text.textContent = room < 3 ? "" : name.length <= room ? name : name.slice(0, room - 3) + "...";
  }
  back.style.display = w < all - 1e-2 ? "" : "none";
}

function search(word) {
  const wanted = word.toLowerCase();
  let found = 0;
  const counted = [];
  for (const frame of frames) {
    const own = of(frame);
    const fits = wanted !== "" && own.name.toLowerCase().includes(wanted);
    frame.querySelector("rect").style.fill = fits ? "#8ab4f8" : "";
    if (!fits) continue;
    const within = counted.some((c) => c.x <= own.x + 1e-2 && c.x + c.w >= own.x + own.w - 1e-2);
    if (!within) { counted.push(own); found += own.bytes; }
  }
  const share = (100 * found) / Math.max(1, of(frames[0]).bytes);
  document.getElementById("found").textContent = wanted ? share.toFixed(1) + "% found" : "";
}

for (const frame of frames) frame.addEventListener("click", () => into(frame));
back.addEventListener("click", () => into(frames[0]));
document.getElementById("search").addEventListener("click", () => {
  const word = prompt("Show frames whose name has:");
  if (word !== null) search(word);
});
