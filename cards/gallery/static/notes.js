// Verdicts: kept in this browser under the build's digest, saved to and loaded from review.jsonl.
// A note is {verdict, selected_index, note, reviewer, time}; it stands under the id that review.jsonl will name.

const KEPT = `arm-review:${DATA.identity_sha256}`;
const ALIAS = "arm-review:alias";
const FIELDS = ["item_id", "verdict", "selected_index", "note", "reviewer", "time"]; // of a line of review.jsonl
const ID = /^[^\u0000-\u001f\u007f]{1,4096}$/u;
const VERDICTS = ["keep", "drop", "relabel", "note"];
const TIME = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$/; // UTC, to the second
let notes = new Map();
let keeps = true; // whether this browser keeps anything

function recall() {
  try {
    notes = new Map(Object.entries(JSON.parse(localStorage.getItem(KEPT) ?? "{}")).filter(([, note]) => sound(note)));
  } catch { /* nothing readable is there; `keeping` tells where nothing can be */ }
}

function remember() {
  keeping(KEPT, JSON.stringify(Object.fromEntries(notes)));
}

// Keep something, and say so where that cannot be done. At start nothing is written over what may be there.
function keeping(key, value) {
  try {
    localStorage.setItem(key, value);
    keeps = true;
  } catch {
    keeps = false;
  }
  byId("progress").classList.toggle("unkept", !keeps);
}

function sound(note) {
  const { verdict, selected_index: index, note: text, reviewer, time } = note ?? {};
  return VERDICTS.includes(verdict) && [text, reviewer, time].every(isText) && (verdict !== "note" || text !== "") && TIME.test(time)
    && ((index ?? null) === null || (verdict === "relabel" && Number.isSafeInteger(index) && index >= 0));
}

// Half a surrogate is no text: no file could hold it.
function isText(value) {
  return typeof value === "string" && !/\p{Surrogate}/u.test(value);
}

function alias() {
  return byId("alias").querySelector("input").value.trim();
}

function now() {
  return `${new Date().toISOString().slice(0, 19)}Z`;
}

// The note on an item: its own, or that its label was given another pick, from this row or another of the same label.
function noteOf(item) {
  const label = item.label_id === null ? undefined : notes.get(item.label_id);
  const own = notes.get(item.id);
  return label?.verdict === "relabel" && label.selected_index !== null ? label : own ?? null;
}

function placeOf(item, verdict, index) {
  return verdict === "relabel" && index !== null ? item.label_id : item.id;
}

// Set or clear (verdict null) what is said of an item; its text stays. Returns what stood there, for `restore`.
function say(item, verdict, index = null) {
  const before = noteOf(item), undo = standing(item);
  if (before !== null && before !== notes.get(item.id)) notes.delete(item.label_id);
  notes.delete(item.id);
  const text = before?.note ?? "";
  if (verdict !== null) put(placeOf(item, verdict, index), verdict, index, text);
  else if (text !== "") put(item.id, "note", null, text);
  remember();
  return undo;
}

function standing(item) {
  return [item.id, item.label_id ?? item.id].map((id) => [id, notes.get(id)]);
}

function restore(undo) {
  for (const [id, note] of undo) note === undefined ? notes.delete(id) : notes.set(id, note);
  remember();
}

function comment(item, text) {
  const before = noteOf(item);
  const id = before !== null && before !== notes.get(item.id) ? item.label_id : item.id;
  if (before === null || before.verdict === "note") {
    if (text === "") notes.delete(id);
    else put(id, "note", null, text);
  } else {
    put(id, before.verdict, before.selected_index, text);
  }
  remember();
}

function put(id, verdict, index, text) {
  notes.set(id, { verdict, selected_index: index, note: text, time: now(), reviewer: alias() });
}

// The file: one line a note, by id. Only what a line needs: `selected_index` stands where a candidate was picked.
function lines() {
  return [...notes].sort(([a], [b]) => (a < b ? -1 : 1)).map(([id, note]) => {
    const record = { item_id: id, verdict: note.verdict, note: note.note, reviewer: note.reviewer || alias(), time: note.time };
    if (note.selected_index !== null) record.selected_index = note.selected_index;
    return JSON.stringify(record);
  });
}

function save() {
  if (notes.size === 0) return toast("Nothing to export yet: judge an item first.");
  if (alias() === "") {
    byId("alias").querySelector("input").focus();
    return toast("Who reviewed? Type an alias, then export again: it is published with the notes.");
  }
  const address = URL.createObjectURL(new Blob(lines().map((line) => `${line}\n`), { type: "application/jsonl" }));
  el("a", { href: address, download: "review.jsonl" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
  toast(`${plural(notes.size, "note")} in review.jsonl. Declare it as a source of kind reviews and build again.`);
}

// Take notes from a review.jsonl; of two on one item the newer stands. Lines that are none are told, and change nothing.
function load(text) {
  let taken = 0, known = 0;
  const bad = [];
  text.split("\n").forEach((line, at) => {
    if (line.trim() === "") return;
    let record = null;
    try {
      record = JSON.parse(line);
    } catch { /* told below */ }
    if (!sound(record) || record.reviewer === "" || !isText(record.item_id) || !ID.test(record.item_id)
      || Object.keys(record).some((key) => !FIELDS.includes(key))) {
      bad.push(at + 1);
      return;
    }
    const before = notes.get(record.item_id);
    if (before !== undefined && before.time >= record.time) {
      known += 1;
      return;
    }
    const { verdict, selected_index = null, note, reviewer, time } = record;
    notes.set(record.item_id, { verdict, selected_index, note, reviewer, time });
    taken += 1;
  });
  remember();
  const elsewhere = [...notes.keys()].filter((id) => !ITEMS.some((item) => item.id === id || item.label_id === id)).length;
  toast(`${plural(taken, "note")} loaded` + (known ? `, ${known.toLocaleString("en")} already here` : "")
    + (bad.length ? `; no note in line ${bad.slice(0, 5).join(", ")}${bad.length > 5 ? ", …" : ""}` : "")
    + (elsewhere ? `; ${plural(elsewhere, "note")} on items that this page does not show, kept for the export` : ""));
}
