// What stands beside the screenshot: task, why the item is here, what the teacher said, history, prompt, the row itself.

const folded = new Map([["History", false], ["Text", true], ["Prompt", true], ["Row", true]]); // title -> whether closed, over all items

function panel(item) {
  const state = stateOf(item), label = labelOf(item);
  return el("section", { id: "panel" },
    el("h2", { id: "task" }, state?.task || (state === null ? item.id : "(no task was recorded)")),
    el("p", { class: "place" }, state?.url ? el("span", { class: "url", title: "Address of the page" }, state.url) : "",
      state === null ? "" : chip(`turn ${state.turn}`), state?.episode_outcome === null || state === null ? "" : chip(`episode outcome ${state.episode_outcome}`)),
    item.excluded === null ? "" : el("p", { class: "banner out" }, el("strong", {}, `${item.excluded.status === "quarantined" ? "In quarantine" : "Excluded"}: ${item.excluded.reason}`),
      item.excluded.meaning ? ` – ${item.excluded.meaning}` : "", item.excluded.detail ? ` (${item.excluded.detail})` : "",
      item.excluded.status === "quarantined" && item.table === "bt_pairs" ? el("span", { class: "quiet" }, " Keep lets it be a pair.") : ""),
    item.earlier.map((note) => el("p", { class: "banner earlier" }, el("strong", {}, `${note.reviewer}: ${note.verdict}${picked(item, note)}`),
      note.note ? ` – ${note.note}` : "", el("span", { class: "quiet" }, ` ${note.time.slice(0, 10)}, in this build`))),
    label === null ? "" : el("div", { id: "rationale" }, el("h4", {}, label.teacher === null ? "The teacher" : label.teacher,
      label.status === "ok" ? ` picked ${numberOf(item, label.selected_index)}` : ": ", label.status === "ok" ? " " : chip(label.status, "bad"),
      label.tie_indices.length ? chip(`${plural(label.tie_indices.length, "tie")}`, "tie", "Candidates with the same action as the pick") : ""),
      el("p", { class: "said" }, label.reasoning || (label.status === "ok" ? "(no reasoning was recorded)" : label.reply || ""))),
    state?.history.length ? section("History", plural(state.history.length, "earlier step"), pastSteps(state.history)) : "",
    state?.screenshot && state.observation_text ? section("Text", "what the agent read of the page", el("pre", { class: "message" }, state.observation_text)) : "",
    item.prompt === null ? "" : section("Prompt", item.prompt_id ?? "as it came", prompt(item), setOf(item) !== null),
    section("Row", item.id, row(item)));
}

function numberOf(item, index) {
  const place = displayed(item).findIndex((candidate) => candidate.index === index);
  return place < 0 ? `candidate ${index}` : String(place + 1);
}

function picked(item, note) {
  return note.selected_index === null || note.selected_index === undefined ? "" : ` to ${numberOf(item, note.selected_index)}`;
}

// Where no candidates stand below, the prompt is all there is to read: `kept` says whether to remember how it was left.
function section(title, beside, content, kept = true) {
  return el("details", { id: `section-${title.toLowerCase()}`, open: !kept || !folded.get(title), ontoggle: (event) => kept && folded.set(title, !event.currentTarget.open) },
    el("summary", {}, title, " ", el("span", { class: "quiet" }, beside)), content);
}

function pastSteps(steps) {
  return el("ol", { class: "history" }, [...steps].reverse().map((step) => el("li", { value: step.turn },
    step.action ? el("pre", { class: "action" }, step.action) : "", step.thought ? el("p", { class: "thought" }, step.thought) : "",
    step.observation ? el("p", { class: "observation" }, step.observation) : "")));
}

// The prompt as the model gets it, picture by picture, and what proves it: the hash of the rendered row.
function prompt(item) {
  let pictures = 0;
  const blocks = (message) => message.content.map((block) => (block.type === "text"
    ? el("span", {}, block.text) : el("span", { class: "chip", title: item.images[pictures] }, `picture ${++pictures}`)));
  return [
    ["rendered", item.rendered_sha256], ["prompt", item.prompt_sha256]].map(([name, hash]) => (hash === null ? "" : el("p", { class: "hash" }, `${name} sha256 `, el("code", {}, hash)))).concat(
    item.prompt.map((message) => [el("h5", {}, message.role), el("pre", { class: "message" }, blocks(message))]),
    item.replies.map(([title, messages]) => messages.map((message) => [el("h5", {}, `${message.role} – ${title}`), el("pre", { class: "message" }, blocks(message))])));
}

function row(item) {
  const facts = [["id", item.id], ["table", item.table], ["split", item.split], ["state", item.state_id], ["set", item.set_id], ["label", item.label_id],
    ...item.facts].filter(([, value]) => value !== null && value !== "");
  return el("dl", {}, facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}
