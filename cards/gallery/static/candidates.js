// The candidates side by side, numbered as they are shown on the page: the number is also the key that picks one.

const OWN = { pointwise_scores: "scored here", actor_sft: "target of this row", reserve: "target of this row" }; // what a row is about, where it picks nothing

function candidates(item) {
  const list = displayed(item);
  const label = labelOf(item);
  const order = item.order ?? label?.order ?? null;
  const cards = list.map((candidate, number) => card(item, label, order, candidate, number));
  if (cards.length === 0) cards.push(...item.replies.map(([title, messages]) => reply(title, messages)));
  else if (item.table === "bt_pairs" && item.rejected_index === null) cards.splice(1, 0, ...unsampled(item));
  return el("section", { id: "candidates", "aria-label": "Candidates" }, cards);
}

function card(item, label, order, candidate, number) {
  const { index } = candidate;
  const note = noteOf(item);
  const sides = item.table === "bt_pairs";
  const side = index === item.chosen_index ? "chosen" : index === item.rejected_index ? "rejected" : sides ? "beside" : "";
  const shown = order === null ? -1 : order.indexOf(index);
  const same = candidate.same_as === null ? null : displayed(item).findIndex((other) => other.index === candidate.same_as) + 1;
  return el("article", {
    class: `candidate c${number % COLOURS} ${side} ${note?.verdict === "relabel" && note.selected_index === index ? "picked" : ""}`,
    data: { index }, onmouseenter: () => highlight(index, true), onmouseleave: () => highlight(index, false),
  },
    el("h3", {}, el("span", { class: "number" }, number + 1),
      sides && side !== "beside" ? chip(side, side) : "",
      label?.selected_index === index ? (sides && side === "chosen" ? "" : chip("teacher's pick", "pick"))
        : label?.tie_indices.includes(index) ? chip("tie", "tie", "The same action as the teacher's pick") : "",
      !sides && side === "chosen" && label?.selected_index !== index ? chip(OWN[item.table] ?? "the row's pick", "pick") : "",
      note?.verdict === "relabel" && note.selected_index === index ? chip("your pick", "yours") : "",
      same && !label?.tie_indices.includes(index) ? chip(`same action as ${same}`, "quiet") : "",
      candidate.parse_error === null ? "" : chip("unreadable", "bad", candidate.parse_error)),
    el("pre", { class: "action" }, candidate.action || candidate.response || "(empty)"),
    candidate.parse_error === null ? "" : el("p", { class: "bad" }, candidate.parse_error),
    candidate.thought ? el("p", { class: "thought" }, candidate.thought) : "",
    el("footer", {}, `candidate ${index}`, shown < 0 ? (order === null ? "" : " · not shown") : ` · shown as ${shown + 1}`,
      candidate.points.length ? ` · ${candidate.points.map(({ x, y }) => `(${round(x)}, ${round(y)})`).join(" → ")}` : "",
      outside(item, candidate) ? " · outside the screenshot" : "",
      candidate.element_index === null ? "" : ` · element ${candidate.element_index}`,
      candidate.finish_reason === null || candidate.finish_reason === "stop" ? "" : ` · ended by ${candidate.finish_reason}`,
      el("details", {}, el("summary", {}, "verbatim"), el("pre", {}, candidate.response))));
}

function outside(item, candidate) {
  const state = stateOf(item);
  if (!state?.width) return false;
  return candidate.points.some(({ x, y }) => x < 0 || y < 0 || x > state.width || y > state.height);
}

// A rejected side that nobody sampled in this set stands in the row alone.
function unsampled(item) {
  return item.replies.filter(([title]) => title === "rejected").map(([title, messages]) => reply(title, messages));
}

function reply(title, messages) {
  return el("article", { class: `candidate ${title}` }, el("h3", {}, chip(title, title)), messages.map((message) => el("pre", { class: "action" }, textOf(message))));
}
