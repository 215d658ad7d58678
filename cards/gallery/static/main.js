// The page as a whole: which item is shown, keys, light and dark.

let current = null; // place in ITEMS

function show(place) {
  current = place;
  redraw(true);
  markCurrent();
  if (place === null) return;
  try {
    history.replaceState(null, "", `#${encodeURIComponent(ITEMS[place].id)}`);
  } catch { /* some browsers count how often, and refuse */ }
}

// Draw the current item; the screenshot keeps its place unless another item came.
function redraw(another = false) {
  const item = ITEMS[current];
  const main = byId("item");
  if (item === undefined) {
    view = null;
    main.replaceChildren(el("p", { class: "quiet" }, ITEMS.length ? "No item passes these filters." : "This gallery holds no item."));
    return;
  }
  if (another || !main.querySelector("#judge")) {
    main.replaceChildren(viewer(item), panel(item), candidates(item), judge(item));
    fit();
  } else {
    main.querySelector("#candidates").replaceWith(candidates(item));
    drawJudge(item, byId("judge"));
  }
}

function step(by) {
  if (listed.length === 0) return;
  const at = listed.indexOf(current);
  const next = Math.min(listed.length - 1, Math.max(0, at + by));
  if (next === at) toast(by > 0 ? "This is the last item of the list." : "This is the first item of the list.");
  else show(listed[next]);
}

const KEYS = [
  ["y", "Keep", () => decide("keep")], ["x", "Drop", () => decide("drop")], ["r", "Relabel: put aside until somebody answers again", () => decide("relabel")],
  ["1 – 9", "This candidate is the right one: a relabel, or a keep if it is the teacher's pick", null],
  ["n", "Write a note; Enter or Esc ends it", () => byId("note")?.focus()], ["u", "Take the last verdict back", undo],
  ["j or →", "Next item", () => step(1)], ["k or ←", "Item before", () => step(-1)],
  ["g", "First item that is not judged", () => show(listed.find((place) => noteOf(ITEMS[place]) === null) ?? current)],
  ["+ and -", "Zoom", null], ["0", "The whole screenshot", fit], ["o", "One pixel for one", () => zoom(1 / (view?.scale ?? 1))], ["Shift + arrows", "Move the screenshot", null],
  ["m", "Markers", toggleMarks], ["b", "Element boxes", toggleBoxes], ["h", "History", () => toggle("history")], ["p", "Prompt", () => toggle("prompt")], ["i", "The row itself", () => toggle("row")],
  ["/", "Search", () => byId("search").focus()], ["c", "Clear filters and search", clearFilters],
  ["e", "Export review.jsonl", save], ["t", "Light or dark", theme], ["?", "These keys", () => byId("help").showModal()],
];
const ACTS = new Map(KEYS.filter(([, , act]) => act !== null).flatMap(([keys, , act]) => keys.split(" or ").map((key) => [key, act])));
ACTS.set("ArrowRight", ACTS.get("→")).set("ArrowLeft", ACTS.get("←"));
ACTS.set("+", () => zoom(1.25)).set("=", () => zoom(1.25)).set("-", () => zoom(1 / 1.25));

function toggle(name) {
  const details = byId(`section-${name}`);
  if (details === null) return;
  details.open = !details.open;
  if (details.open) details.scrollIntoView({ block: "nearest" });
}

const ARROWS = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };

const HELD = new Set(["j", "k", "+", "=", "-", ...Object.keys(ARROWS)]);

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  const typing = event.target.matches("input, textarea, select");
  if (typing) {
    if (event.isComposing) return;
    if (event.key === "Escape" || (event.key === "Enter" && !event.target.matches("select"))) event.target.blur();
    return;
  }
  if (event.repeat && !HELD.has(event.key)) return; // a key that is held judges one item
  if (event.shiftKey && ARROWS[event.key]) pan(...ARROWS[event.key]);
  else if (/^[1-9]$/.test(event.key)) pick(Number(event.key) - 1);
  else if (ACTS.has(event.key)) ACTS.get(event.key)();
  else return;
  event.preventDefault();
}

const THEMES = ["light dark", "light", "dark"];

function theme() {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.style.colorScheme || THEMES[0]) + 1) % THEMES.length];
  root.style.colorScheme = next;
  toast({ "light dark": "Light or dark as the system is.", light: "Light.", dark: "Dark." }[next]);
}

// The item that the address names, as `show` writes it there; null where that is no text.
function fragment() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return null;
  }
}

function start() {
  byId("title").textContent = visible(DATA.title);
  byId("title").title = `${DATA.subtitle}\n${DATA.identity_sha256}`;
  const typed = byId("alias").querySelector("input");
  recall();
  try {
    typed.value = localStorage.getItem(ALIAS) ?? "";
  } catch { /* told below */ }
  keeping("arm-review", "1"); // so that a person knows before there is something to lose
  typed.addEventListener("change", () => keeping(ALIAS, alias()));
  byId("search").addEventListener("input", (event) => search(event.target.value));
  byId("export").addEventListener("click", save);
  byId("theme").addEventListener("click", theme);
  byId("load").addEventListener("click", () => byId("file").click());
  byId("file").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (file !== undefined) load(await file.text());
    event.target.value = "";
    undone = []; // what stood there before may be older than what was loaded
    relist();
    drawProgress();
    redraw();
  });
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  byId("help").append(el("form", { method: "dialog" }, el("button", { title: "Close (Esc)" }, "Close")), el("h2", {}, "Keys"), el("dl", {}, KEYS.map(([keys, what]) => [el("dt", {}, keys.split(" or ").map((one, n) => [n ? " or " : "", el("kbd", {}, one)])), el("dd", {}, what)])),
    el("h2", {}, "What is here"), ...sampled());
  document.addEventListener("keydown", key);
  addEventListener("storage", (event) => { // the same build in another tab
    if (event.key !== KEPT) return;
    recall();
    undone = [];
    relist();
    drawProgress();
    redraw();
  });
  addEventListener("beforeunload", (event) => notes.size > 0 && !keeps && event.preventDefault());
  drawProgress();
  const named = fragment();
  const asked = ITEMS.findIndex((item) => item.id === named);
  if (asked >= 0) current = asked;
  relist();
  if (asked >= 0) show(asked);
}

// How many of each kind are here, of how many the build has.
function sampled() {
  const out = Object.entries(DATA.left_out ?? {}).map(([why, n]) => el("p", { class: "quiet" }, `Left out: ${plural(n, "more item")}, ${why}.`));
  return [...out, el("table", {}, el("thead", {}, el("tr", {}, ["table", "split", "kind", "here", "of"].map((name) => el("th", {}, name)))),
    el("tbody", {}, DATA.strata.map((s) => el("tr", {}, [s.table, s.split, s.kind, s.shown, s.of].map((value) => el("td", {}, value ?? "–"))))))];
}

start();
