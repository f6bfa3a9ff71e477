// Runs the module of `wasm.rs`, and fails if anything is not as it should be.
import { readFileSync } from "node:fs";
import assert from "node:assert";

const bytes = readFileSync(process.argv[2]);
const { instance } = await WebAssembly.instantiate(bytes, {});
const { memory, words, live, huge } = instance.exports;
const pages = () => memory.buffer.byteLength / 65536;

const letters = (count) => [...Array(count).keys()].reduce((sum, n) => sum + `word ${n}`.length, 0);
assert.equal(words(10), letters(10));
const before = live();
assert.notEqual(before >>> 0, 0xffffffff);
const small = pages();
assert.equal(words(100000), letters(100000));
const large = pages();
assert.ok(large > small, "the memory grows");
// It is used again, and does not grow with each round (talc's issue 51).
for (let round = 0; round < 20; round++) assert.equal(words(100000), letters(100000));
assert.equal(pages(), large);
assert.equal(live(), before);
assert.ok(huge() < 3, "there are 4 GiB at most");
assert.equal(words(10), letters(10));
console.log(`wasm: ${bytes.length} bytes of code, ${small} pages at first, ${large} for 100000 words`);
