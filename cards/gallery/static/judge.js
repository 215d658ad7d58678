// The bar in which an item is judged, and what a verdict does to the list.

let undone = []; // what stood before each verdict or note, with the item it was on, the newest last
let writing = false; // whether what is typed goes on with a note that can be taken back as a whole

function judge(item) {
  const button = (verdict, key, text, title) => el("button", { class: `verdict ${verdict}`, title, data: { verdict },
    onclick: () => decide(verdict) }, el("kbd", {}, key), ` ${text}`);
  const picks = labelOf(item) === null ? [] : displayed(item).slice(0, 9).map((candidate, number) => el("button", {
    class: `number c${number % COLOURS}`, title: `Candidate ${number + 1} is the right one (${number + 1})`,
    data: { pick: number + 1, candidate: candidate.index }, onclick: () => pick(number) }, number + 1));
  writing = false;
  return drawJudge(item, el("section", { id: "judge", "aria-label": "Verdict" },
    button("keep", "y", "Keep", "Use it as it is; of a quarantined comparison: let it be a pair (y)"),
    button("drop", "x", "Drop", "Leave it out (x)"),
    button("relabel", "r", "Relabel", "The answer is wrong: put it aside until somebody answers again (r)"),
    picks.length ? el("span", { class: "picks" }, "right is ", picks) : "",
    el("input", { id: "note", type: "text", placeholder: "Note ( n )", "aria-label": "Note", autocomplete: "off",
      onfocus: () => (writing = false), oninput: (event) => write(item, event.target.value) }),
    el("button", { id: "undo", title: "Take the last verdict or note back (u)", onclick: undo }, "Undo"),
    el("span", { class: "steps" }, el("button", { title: "Before (k or ←)", onclick: () => step(-1) }, "‹"),
      el("span", { id: "place" }), el("button", { title: "Next (j or →)", onclick: () => step(1) }, "›"))));
}

// What the bar says changes where it stands: a click that ends the writing of a note is still a click on its button.
function drawJudge(item, bar) {
  const note = noteOf(item);
  for (const button of bar.querySelectorAll("[data-verdict]")) button.setAttribute("aria-pressed", note?.verdict === button.dataset.verdict);
  const picked = note?.verdict === "relabel" ? note.selected_index : null;
  for (const button of bar.querySelectorAll("[data-pick]")) button.setAttribute("aria-pressed", String(picked) === button.dataset.candidate);
  const text = bar.querySelector("#note");
  if (document.activeElement !== text) text.value = note?.note ?? "";
  bar.querySelector("#undo").disabled = undone.length === 0;
  return bar;
}

function drawPlace() {
  if (byId("place")) byId("place").textContent = `${listed.indexOf(current) + 1} / ${listed.length}`;
}

// A note is kept as it is typed; all that is typed at once is taken back at once.
function write(item, text) {
  if (!writing) undone.push([current, standing(item)]);
  writing = true;
  comment(item, text);
  judged(item, false);
}

// A verdict given twice is taken back. Else the next item comes, so that one key judges one item.
function decide(verdict, index = null) {
  const item = ITEMS[current];
  if (item === undefined) return;
  const before = noteOf(item);
  const again = before?.verdict === verdict && (before.selected_index ?? null) === index;
  undone.push([current, say(item, again ? null : verdict, index)]);
  judged(item);
  if (!again) step(1);
}

// The pick that rows follow now: the teacher's, or that of the review which this build applied.
function followed(item) {
  const relabels = item.earlier.filter((note) => note.verdict === "relabel" && Number.isInteger(note.selected_index));
  return relabels.at(-1)?.selected_index ?? labelOf(item).selected_index;
}

// To pick what the rows follow, or the same action, is no relabel: it is a word for the row.
function pick(number) {
  const item = ITEMS[current], label = item === undefined ? null : labelOf(item);
  const candidate = item === undefined ? undefined : displayed(item)[number];
  if (candidate === undefined) return;
  if (label === null) return toast("No label stands behind this row: keep it, drop it, or put it aside with r.");
  const action = (index) => setOf(item).candidates.find((other) => other.index === index)?.same_as ?? index;
  if (action(candidate.index) === action(followed(item))) return decide("keep");
  return decide("relabel", candidate.index);
}

function undo() {
  const last = undone.pop();
  if (last === undefined) return toast("Nothing to take back.");
  restore(last[1]);
  writing = false;
  judged(ITEMS[last[0]]);
  if (last[0] !== current && listed.includes(last[0])) show(last[0]);
  return toast("Taken back.");
}

// Several rows may follow one label: all their marks change.
function judged(item, verdict = true) {
  for (const entry of byId("list").children) {
    const other = ITEMS[entry.dataset.place];
    if (other === item || (item.label_id !== null && other.label_id === item.label_id)) drawEntry(entry);
  }
  drawProgress();
  drawFilters();
  if (item !== ITEMS[current]) return;
  if (verdict) redraw();
  else drawJudge(item, byId("judge"));
}

function drawProgress() {
  const done = ITEMS.filter((item) => noteOf(item) !== null).length;
  const [bar, text] = byId("progress").children;
  bar.max = ITEMS.length;
  bar.value = done;
  text.textContent = `${done} of ${ITEMS.length} judged${keeps ? "" : " – this browser keeps nothing: export before you close"}`;
}
