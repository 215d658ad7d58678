// Which items are listed: one value of each facet, or any, and all words of the search.

const FACETS = [
  ["table", "Table"], ["split", "Split"], ["pair_type", "Pair type"], ["reason", "Excluded for"], ["status", "Teacher said"],
  ["tie", "Tie"], ["verbs", "Verb"], ["host", "Host"], ["judged", "Judged"],
];
const TOTAL = DATA.strata.reduce((sum, stratum) => sum + stratum.of, 0);
const chosen = new Map(); // facet -> value
let pointed = false; // whether the filter was opened by a pointer
let words = [];
let listed = ITEMS.map((_, place) => place); // places in ITEMS, in order

function valuesOf(item, facet) {
  if (facet === "judged") {
    const verdict = noteOf(item)?.verdict ?? null;
    return [verdict === null ? (item.earlier.length ? "by an earlier review" : "not yet") : verdict];
  }
  const value = item.facets[facet];
  return (Array.isArray(value) ? value : [value]).filter((one) => one !== null && one !== undefined);
}

function passes(item, except = null) {
  for (const [facet, value] of chosen) if (facet !== except && !valuesOf(item, facet).includes(value)) return false;
  if (words.length === 0) return true;
  const text = haystack(item) + fold(`\n${noteOf(item)?.note ?? ""}`);
  return words.every((word) => text.includes(word));
}

// The facets with how many items each value would list; a facet with one value for all is no choice and not shown.
function drawFilters() {
  const selects = FACETS.map(([facet, name]) => {
    const counts = new Map();
    for (const item of ITEMS) for (const value of valuesOf(item, facet)) counts.set(value, counts.get(value) ?? 0);
    const now = chosen.get(facet);
    if (now !== undefined && !counts.has(now)) counts.set(now, 0); // what has it was judged anew: it is still asked for
    if (counts.size === 0 || (counts.size === 1 && !chosen.has(facet) && facet !== "judged"
      && ITEMS.every((item) => valuesOf(item, facet).length))) return null;
    for (const item of ITEMS) if (passes(item, facet)) for (const value of valuesOf(item, facet)) counts.set(value, counts.get(value) + 1);
    const options = [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
    return el("label", { class: now === undefined ? "" : "on" }, `${name} `,
      el("select", { id: `filter-${facet}`, onpointerdown: () => (pointed = true), onkeydown: () => (pointed = false), onchange: choose },
        el("option", { value: "" }, "any"),
        options.map(([value, count]) => el("option", { value: `=${value}`, selected: value === now }, `${value} (${count})`))));
  });
  const any = chosen.size > 0 || words.length > 0;
  const focused = document.activeElement?.id;
  byId("filters").replaceChildren(...selects.filter(Boolean),
    el("span", { id: "count" }, `${listed.length} of ${plural(ITEMS.length, "item")}`,
      TOTAL > ITEMS.length ? el("span", { class: "quiet", title: "How many of each kind: ?" }, `, a sample of ${TOTAL.toLocaleString("en")}`) : ""),
    any ? el("button", { id: "clear", onclick: clearFilters }, "Clear") : "");
  if (focused?.startsWith("filter-")) byId(focused)?.focus();
}

function choose({ target }) {
  const facet = target.id.slice("filter-".length);
  if (target.value === "") chosen.delete(facet);
  else chosen.set(facet, target.value.slice(1)); // "=": a value may be the empty text
  if (pointed) target.blur(); // keys judge again; who chose with keys may want the next value
  relist();
}

function clearFilters() {
  chosen.clear();
  words = [];
  byId("search").value = "";
  relist();
}

function search(text) {
  words = fold(text).split(/\s+/).filter(Boolean);
  relist();
}

function relist() {
  listed = ITEMS.map((_, place) => place).filter((place) => passes(ITEMS[place]));
  drawFilters();
  drawList();
  if (!listed.includes(current)) show(listed[0] ?? null);
  else markCurrent();
}

const MARKS = { keep: "✓", drop: "✕", relabel: "⇄", note: "✎" };

function drawList() {
  byId("list").replaceChildren(...listed.map((place) => {
    const item = ITEMS[place];
    const kind = item.excluded?.reason ?? item.facets.pair_type ?? (item.facets.status === "ok" ? null : item.facets.status);
    return el("li", { data: { place } }, el("button", { onclick: () => show(place) }, el("span", { class: "mark" }),
      el("span", { class: "what" }, item.table, kind === null ? "" : el("span", { class: item.excluded ? "kind out" : "kind" }, kind)),
      el("span", { class: "task" }, stateOf(item)?.task || item.id)));
  }));
  for (const entry of byId("list").children) drawEntry(entry);
}

// Only the mark changes: a click that began on an entry goes on when a note is written meanwhile.
function drawEntry(entry) {
  const item = ITEMS[entry.dataset.place];
  const verdict = noteOf(item)?.verdict ?? null;
  const mark = entry.querySelector(".mark");
  mark.className = `mark ${verdict ?? (item.earlier.length ? "earlier" : "")}`;
  mark.title = verdict ?? "";
  mark.textContent = verdict ? MARKS[verdict] : item.earlier.length ? "·" : "";
}

function markCurrent() {
  for (const entry of byId("list").children) {
    const here = Number(entry.dataset.place) === current;
    entry.firstChild.setAttribute("aria-current", here);
    if (here) entry.scrollIntoView({ block: "nearest" });
  }
  drawPlace();
}
