"use strict";
const profile = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const fileName = (path) => path.slice(path.lastIndexOf("/") + 1);

const units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
function bytes(n) {
  if (n < 1024) return n + " B";
  let unit = -1;
  do { n /= 1024; unit++; } while (n >= 1023.95 && unit + 1 < units.length);
  return n.toFixed(1) + " " + units[unit];
}
const count = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");

// What each row goes by, from the coarse to the fine.
const words = (frame) => frame.line ? `${frame.function} at ${fileName(frame.file || "")}:${frame.line}` : frame.function;
for (const row of profile.rows) {
  const frames = row.frames || [];
  row.moduleName = row.module ? fileName(row.module) : "no file";
  const bare = row.module ? `${row.moduleName}+${row.offset}` : row.site;
  row.functionName = row.label ? row.label.function : bare;
  row.label = row.label ? words(row.label) : bare;
  row.place = frames.length ? frames.map(words).join(" < ") : bare;
  row.sizeName = row.size ? bytes(row.size) : "large blocks";
  row.text = [row.place, row.module || "", row.site, ...frames.map((f) => f.file || "")].join(" ").toLowerCase();
}
// The same functions and lines in several files are told apart, also where rows are not grouped by file.
for (const key of ["label", "place"]) {
  const filesOf = new Map();
  for (const row of profile.rows) filesOf.set(row[key], (filesOf.get(row[key]) || new Set()).add(row.moduleName));
  for (const row of profile.rows) if (filesOf.get(row[key]).size > 1) row[key] += ` in ${row.moduleName}`;
}
// The functions that called library code, by a call site of its label: estimates from sampled stacks.
const callers = JSON.parse(byId("callers").textContent);
const levels = {
  site: ["label", "place", "sizeName"],
  module: ["moduleName", "functionName", "place", "sizeName"],
  function: ["functionName", "place", "sizeName"],
  size: ["sizeName", "label", "place"],
};

// The state is the page's address, so that a view can be kept and sent.
const state = { q: "", by: "site", sort: "bytes", up: false, path: [] };
function load() {
  const given = new URLSearchParams(location.hash.slice(1));
  state.q = given.get("q") || "";
  state.by = levels[given.get("by")] ? given.get("by") : "site";
  state.sort = ["bytes", "share", "objects", "size", "allocations", "allocated", "name"].includes(given.get("sort")) ? given.get("sort") : "bytes";
  state.up = given.get("up") === "1";
  state.path = given.getAll("in");
}
function save(changes) {
  Object.assign(state, changes);
  const now = new URLSearchParams();
  if (state.q) now.set("q", state.q);
  if (state.by !== "site") now.set("by", state.by);
  if (state.sort !== "bytes") now.set("sort", state.sort);
  if (state.up) now.set("up", "1");
  for (const step of state.path) now.append("in", step);
  history.replaceState(null, "", "#" + now);
  show();
}

function chosen() {
  const wanted = state.q.toLowerCase().split(/\s+/).filter((word) => word);
  const keys = levels[state.by];
  return profile.rows.filter((row) =>
    state.path.every((step, i) => row[keys[i]] === step) && wanted.every((word) => row.text.includes(word)));
}

const level = () => levels[state.by][Math.min(state.path.length, levels[state.by].length - 1)];

function grouped(rows) {
  const key = level();
  const groups = new Map();
  for (const row of rows) {
    const group = groups.get(row[key]) ||
      { name: row[key], bytes: 0, objects: 0, allocations: 0, allocated: 0, size: row.size, shared: false, sites: new Set(), callers: [] };
    group.bytes += row.bytes;
    if (row.bytes) group.sites.add(row.site);
    group.objects += row.objects;
    group.allocations += row.allocations || 0;
    group.allocated += row.allocated || 0;
    if (callers[row.site]) group.callers = callers[row.site];
    if (group.size !== row.size) group.size = 0;
    group.shared ||= row.share === "shared";
    groups.set(row[key], group);
  }
  const of = { share: "bytes" }[state.sort] || state.sort;
  const order = (a, b) => of === "name" ? a.name.localeCompare(b.name) : b[of] - a[of] || a.name.localeCompare(b.name);
  const sorted = [...groups.values()].sort(order);
  return state.up ? sorted.reverse() : sorted;
}

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// A row with one of these colours has a swatch of it. All others are the grey of the bar.
const colours = ["#d9822b", "#3b7dd8", "#2e9e6b", "#b0559e", "#c9a400", "#5aa9c4", "#c2453f", "#7a6bd1"];
function swatch(colour) {
  const made = element("span", undefined, "swatch");
  made.style.background = colour;
  return made;
}
function segment(part, colour, title) {
  const made = element("span");
  made.style.width = part + "%";
  made.style.background = colour;
  made.title = title;
  return made;
}

function show() {
  const rows = chosen();
  const groups = grouped(rows);
  const sum = rows.reduce((sum, row) => sum + row.bytes, 0);
  const blocks = rows.reduce((sum, row) => sum + row.objects, 0);
  const deeper = state.path.length + 1 < levels[state.by].length;
  byId("search").value = state.q;
  byId("group").value = state.by;
  byId("shown").textContent = `${bytes(sum)} in ${count(blocks)} blocks shown`;

  const path = byId("path");
  path.replaceChildren();
  ["all", ...state.path].forEach((step, i) => {
    if (i > 1 && step === state.path[i - 2]) return;
    if (i) path.append(" \u203a ");
    if (i === state.path.length) { path.append(step); return; }
    const button = element("button", step);
    button.onclick = () => save({ path: state.path.slice(0, i) });
    path.append(button);
  });

  // A level with one row of the same name is skipped: there is nothing to choose.
  const into = (group) => {
    if (!deeper) return;
    const keys = levels[state.by];
    const inside = rows.filter((row) => row[level()] === group.name);
    const steps = [...state.path, group.name];
    while (steps.length + 1 < keys.length && inside.every((row) => row[keys[steps.length]] === group.name)) steps.push(group.name);
    save({ path: steps });
  };
  const bar = byId("bar");
  bar.replaceChildren();
  const coloured = [...groups].sort((a, b) => b.bytes - a.bytes).slice(0, colours.length);
  coloured.forEach((group, i) => {
    const part = 100 * group.bytes / Math.max(1, sum);
    if (part < 0.3) return;
    group.colour = colours[i];
    const span = segment(part, group.colour, `${group.name}: ${bytes(group.bytes)}`);
    span.onclick = () => into(group);
    bar.append(span);
  });
  // A column with one value in all rows is said once, or not at all if the value is nothing.
  const columns = { size: ["slot", bytes], allocations: ["blocks ever", count], allocated: ["bytes ever", bytes] };
  const unused = Object.keys(columns).filter((name) => new Set(groups.map((group) => group[name])).size < 2 && groups.length > 1);
  const once = unused.filter((name) => groups[0][name]).map((name) => `${columns[name][0]} of each row: ${columns[name][1](groups[0][name])}`);
  const legend = "Each colour is the row with that mark; grey is all other rows.";
  byId("colours").textContent = [groups.some((group) => group.colour) ? legend : "", ...once].filter((text) => text).join(" ");

  for (const button of document.querySelectorAll("th button")) {
    const head = button.parentElement;
    head.removeAttribute("aria-sort");
    head.hidden = unused.includes(button.dataset.sort);
    if (button.dataset.sort !== state.sort) continue;
    const rising = (state.sort === "name") !== state.up;
    head.setAttribute("aria-sort", rising ? "ascending" : "descending");
  }
  const body = document.querySelector("tbody");
  body.replaceChildren();
  for (const group of groups) {
    const line = element("tr");
    const part = 100 * group.bytes / Math.max(1, profile.bytes);
    line.append(element("td", bytes(group.bytes), "n"));
    const share = element("td", part.toFixed(1) + "%", "n share");
    share.style.setProperty("--part", part + "%");
    line.append(share, element("td", count(group.objects), "n"));
    for (const name of Object.keys(columns)) {
      const cell = element("td", group[name] ? columns[name][1](group[name]) : "", "n");
      cell.hidden = unused.includes(name);
      line.append(cell);
    }
    const name = element("td", undefined, "name");
    const label = element(deeper ? "button" : "span", (group.shared ? "~" : "") + group.name);
    if (group.colour) name.append(swatch(group.colour));
    name.append(label);
    if (["label", "place"].includes(level()) && group.sites.size > 1) name.append(element("span", ` (${count(group.sites.size)} call sites)`, "faint"));
    for (const [caller, part] of state.by === "site" && !state.path.length ? group.callers : []) {
      name.append(element("div", `about ${(100 * part / Math.max(1, group.bytes)).toFixed(1)}% from ${caller}`, "faint caller"));
    }
    line.append(name);
    if (deeper) {
      line.className = "into";
      line.onclick = () => into(group);
    }
    body.append(line);
  }
  if (!groups.length) {
    const line = element("tr");
    const cell = element("td", "nothing has these words in its name", "faint");
    cell.colSpan = 7;
    line.append(cell);
    body.append(line);
  }
}

document.querySelector("h1").textContent = document.title;
const taken = new Date(profile.time * 1000);
const moment = isNaN(taken) ? "" : `, ${taken.toISOString().replace("T", " ").slice(0, 19)} UTC`;
const sites = new Set(profile.rows.filter((row) => row.bytes).map((row) => row.site)).size;
const ever = profile.rows.reduce((sum, row) => sum + (row.allocations || 0), 0);
byId("sum").textContent = `${bytes(profile.bytes)} live in ${count(profile.objects)} blocks, from ${count(sites)} call sites` +
  (ever ? `; ${count(ever)} blocks ever` : "") +
  (profile.resident ? `; ${bytes(profile.resident)} resident` : "") +
  `. Toft ${profile.toft}${moment}.`;
for (const note of profile.notes) byId("notes").append(element("p", note));
if (profile.rows.some((row) => row.share === "shared")) {
  byId("notes").append(element("p", `~ marks memory in partitions that several call sites share (${profile.partitions} partitions): ` +
    "the site named is the first that drew from the slab."));
}
if (profile.breakdown) {
  const { parts, limits } = profile.breakdown;
  const all = parts.reduce((sum, part) => sum + part.bytes, 0);
  const section = byId("memory");
  section.hidden = false;
  parts.forEach((part, i) => {
    const share = (100 * part.bytes / Math.max(1, all)).toFixed(1) + "%";
    const colour = colours[i % colours.length];
    section.querySelector(".bar").append(segment(100 * part.bytes / Math.max(1, all), colour, `${part.name}: ${bytes(part.bytes)}`));
    const item = element("li", undefined);
    item.dataset.bytes = part.bytes;
    item.append(swatch(colour), `${part.name}: ${bytes(part.bytes)} (${share})`);
    section.querySelector(".legend").append(item);
  });
  const limit = (one) => `${bytes(one.bytes)} is the limit of ${one.name}.`;
  section.querySelector("p").textContent =
    [`${bytes(all)} resident.`, ...limits.map(limit), limits.length ? "" : "No limit is set.",
      "Live blocks count here as far as they are resident."].filter((text) => text).join(" ");
}
byId("search").oninput = (event) => save({ q: event.target.value });
byId("group").onchange = (event) => save({ by: event.target.value, path: [] });
for (const button of document.querySelectorAll("th button")) {
  button.onclick = () => save(button.dataset.sort === state.sort ? { up: !state.up } : { sort: button.dataset.sort, up: false });
}
// Sampled stacks: estimates, from the outside in. Kept apart from the call sites, which are exact.
function tree(stacks) {
  const root = { bytes: 0, objects: 0, below: new Map() };
  for (const stack of stacks.filter((stack) => stack.bytes)) {
    const frames = stack.calls.flatMap((call) => (call.frames && call.frames.length) ? call.frames.map(words) :
      [call.module ? `${fileName(call.module)}+${call.offset}` : call.site]);
    if (stack.truncated) frames.push("(truncated)");
    let node = root;
    for (const frame of [undefined, ...frames.reverse()]) {
      if (frame !== undefined) {
        if (!node.below.has(frame)) node.below.set(frame, { bytes: 0, objects: 0, below: new Map() });
        node = node.below.get(frame);
      }
      node.bytes += stack.bytes;
      node.objects += stack.objects;
    }
  }
  return root;
}
function branches(node, into, all) {
  for (const [name, below] of [...node.below].sort(([, a], [, b]) => b.bytes - a.bytes)) {
    const branch = element("details");
    const part = (100 * below.bytes / Math.max(1, all)).toFixed(1);
    branch.append(element("summary", `${part}% \u00a0 about ${bytes(below.bytes)} in ${count(below.objects)} blocks \u00a0 ${name}`));
    // One way only: nothing to choose.
    branch.open = node.below.size === 1;
    if (!below.below.size) branch.className = "leaf";
    branches(below, branch, all);
    into.append(branch);
  }
}
if (profile.sampled) {
  const { stacks, interval, missed } = profile.sampled;
  const sum = (of) => stacks.reduce((sum, stack) => sum + of(stack), 0);
  const cut = sum((stack) => stack.truncated ? stack.samples : 0);
  const section = byId("sampled");
  section.hidden = false;
  section.querySelector("p").textContent =
    `Estimates from ${count(sum((stack) => stack.samples))} samples of ${count(stacks.length)} stacks, one in about ${bytes(interval)}: ` +
    `about ${bytes(sum((stack) => stack.bytes))} live in ${count(sum((stack) => stack.objects))} blocks.` +
    (cut ? ` ${count(cut)} of the samples have a truncated stack.` : "") +
    (missed ? ` ${count(missed)} samples were lost, for lack of memory or to the reclaimer.` : "");
  const root = tree(stacks);
  branches(root, section.querySelector("div"), root.bytes);
}

window.onhashchange = () => { load(); show(); };
load();
show();
