// What the page shows: the data block, and the pictures, which are decoded when they are first looked at.

const DATA = JSON.parse(byId("data").textContent);
const ITEMS = DATA.items;
// Ids come from records: as keys of a plain object, "constructor" would be found without being there.
const [STATES, SETS, LABELS, PICTURES] = ["states", "sets", "labels", "pictures"].map((name) => new Map(Object.entries(DATA[name])));
const COLOURS = 8; // of markers; the style sheet has them
const opened = new Map(); // sha256 -> address of the decoded picture

function stateOf(item) {
  return STATES.get(item.state_id) ?? null;
}

function setOf(item) {
  return SETS.get(item.set_id) ?? null;
}

function labelOf(item) {
  return LABELS.get(item.label_id) ?? null;
}

// The candidates as the page lists and numbers them: as the row showed them; of a pair its two sides first.
// Those that the row did not show follow, so that every sampled response can be seen.
function displayed(item) {
  const set = setOf(item);
  if (set === null) return [];
  const all = set.candidates.map((candidate) => candidate.index);
  const sides = item.table === "bt_pairs" ? [item.chosen_index, item.rejected_index].filter((i) => i !== null) : [];
  const order = item.order ?? labelOf(item)?.order ?? [];
  return [...new Set([...sides, ...order, ...all])].filter((index) => all.includes(index)).map((index) => set.candidates[index]);
}

async function picture(sha256) {
  if (!opened.has(sha256)) {
    let block = byId(`p-${sha256}`);
    if (block === null && document.readyState === "loading") { // it stands further down in the file
      await new Promise((done) => document.addEventListener("DOMContentLoaded", done, { once: true }));
      block = byId(`p-${sha256}`);
    }
    if (block === null) return null;
    const bytes = Uint8Array.from(atob(block.textContent), (c) => c.charCodeAt(0));
    opened.set(sha256, URL.createObjectURL(new Blob([bytes], { type: PICTURES.get(sha256).type })));
  }
  return opened.get(sha256);
}

// What the search looks at, folded, made when it is first asked for.
const haystacks = new Map();

function haystack(item) {
  if (!haystacks.has(item)) {
    const state = stateOf(item), set = setOf(item), label = labelOf(item);
    const texts = [item.id, item.state_id, item.set_id, item.label_id, item.excluded?.reason, item.excluded?.detail, state?.task, state?.url, label?.reasoning, label?.teacher,
      ...(set?.candidates ?? []).flatMap((candidate) => [candidate.action || candidate.response, candidate.thought]),
      ...item.earlier.map((note) => note.note),
      ...item.facts.map(([, text]) => text),
      ...(set === null ? item.replies.flatMap(([, messages]) => messages.map(textOf)) : []),
      ...(state === null && item.prompt !== null ? item.prompt.map(textOf) : [])];
    haystacks.set(item, fold(texts.filter(Boolean).join("\n")));
  }
  return haystacks.get(item);
}

function fold(text) {
  return text.normalize("NFKC").toLowerCase();
}

function textOf(message) {
  return message.content.map((block) => (block.type === "text" ? block.text : "")).join("");
}
