// The screenshot with its markers and element boxes. Marks are placed in the window, not scaled with the picture, so
// that they keep their size; their centres stand at the recorded point at every zoom.

let view = null; // of the item shown: {box, image, width, height, scale, x, y, marks}
const LEAST = 0.05, MOST = 16; // window pixels for one pixel of the screenshot
const MARGIN = 30; // window pixels around a fitted screenshot: marks on its edge stay whole, their numbers too
// Numbers stand around their marker, each in a direction of its own, so that those of markers on one place can all be
// read; from the ninth on further out.
const AROUND = [[1, -1], [1, 0], [1, 1], [-1, 1], [-1, 0], [-1, -1], [0, -1], [0, 1]];
const APART = 20; // window pixels
let showMarks = true, showBoxes = false;

function viewer(item) {
  const state = stateOf(item);
  const sha256 = state?.screenshot ?? item.images[0] ?? null;
  const facts = sha256 === null ? undefined : PICTURES.get(sha256);
  view = null;
  if (facts === undefined) {
    const why = sha256 === null ? "No screenshot was recorded here." : "The build refers to this screenshot and does not hold it.";
    const text = state?.observation_text;
    return el("section", { id: "viewer", class: "bare" }, el("p", { class: "quiet" }, text ? "What the agent read, instead of a screenshot:" : why), text ? el("pre", {}, text) : "");
  }
  const image = el("img", { alt: "Screenshot", draggable: "false" });
  const box = el("div", { id: "window", tabindex: "0", "aria-label": "Screenshot: drag to move, wheel to zoom" }, image);
  const width = state?.width ?? facts.width, height = state?.height ?? facts.height;
  view = { box, image, width, height, scale: 1, x: 0, y: 0, marks: [], fitted: true };
  image.style.width = `${width}px`;
  image.style.height = `${height}px`;
  const here = view;
  picture(sha256).then((address) => {
    if (address === null) box.append(el("p", { class: "quiet" }, "The picture is missing from this file."));
    else image.src = address;
  });
  image.addEventListener("error", () => box.append(el("p", { class: "quiet" }, "This browser cannot show the picture.")));
  for (const element of state?.elements ?? []) markElement(here, element);
  for (const [number, candidate] of displayed(item).entries()) markCandidate(here, item, candidate, number);
  box.addEventListener("wheel", (event) => {
    event.preventDefault();
    const frame = box.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.002)), event.clientX - frame.left, event.clientY - frame.top);
  }, { passive: false });
  box.addEventListener("pointerdown", drag);
  box.addEventListener("dblclick", () => (view.fitted ? zoom(1 / view.scale) : fit()));
  new ResizeObserver(() => here === view && (view.fitted ? fit() : place())).observe(box);
  return el("section", { id: "viewer" }, box, tools(state));
}

function tools(state) {
  const button = (id, text, title, act, pressed = null) => el("button", { id, title, "aria-pressed": pressed, onclick: act }, text);
  return el("div", { class: "tools" },
    button("zoom-out", "−", "Smaller (-)", () => zoom(1 / 1.25)), el("output", { id: "zoom" }, ""), button("zoom-in", "+", "Larger (+)", () => zoom(1.25)),
    button("fit", "Fit", "The whole screenshot (0)", fit), button("full", "1:1", "One pixel for one (o)", () => zoom(1 / view.scale)),
    button("marks", "Markers", "Show where the candidates act (m)", toggleMarks, showMarks),
    (state?.elements ?? []).length ? button("boxes", `Elements (${state.elements.length})`, "Show the recorded elements (b)", toggleBoxes, showBoxes) : "",
    el("span", { class: "quiet", id: "size" }, `${view.width} × ${view.height} px`));
}

function markElement(here, { index, tag, text, box: [x, y, w, h] }) {
  const node = el("div", { class: "element", title: `${tag} ${text}`.trim(), data: { index } });
  here.box.append(node);
  here.marks.push({ node, x, y, w, h });
}

function markCandidate(here, item, candidate, number) {
  const side = candidate.index === item.chosen_index ? "chosen" : candidate.index === item.rejected_index ? "rejected" : item.table === "bt_pairs" ? "beside" : "";
  const drags = {};
  for (const { name, x, y } of candidate.points) {
    const node = el("div", { class: `marker c${number % COLOURS} ${side}`, title: `${number + 1}: ${candidate.action} (${round(x)}, ${round(y)})`,
      data: { index: candidate.index, name } }, el("span", {}, number + 1));
    const [dx, dy] = AROUND[number % AROUND.length].map((step) => step * APART * (1 + Math.floor(number / AROUND.length)));
    node.firstChild.style.transform = `translate(calc(${dx}px - 50%), calc(${dy}px - 50%))`;
    here.box.append(node);
    here.marks.push({ node, x, y });
    if (name === "start_point" || name === "end_point") drags[name] = { x, y };
  }
  if (drags.start_point && drags.end_point) {
    const node = el("div", { class: `drag c${number % COLOURS} ${side}`, data: { index: candidate.index } });
    here.box.append(node);
    here.marks.push({ node, ...drags.start_point, to: drags.end_point });
  }
}

function round(value) {
  return Math.round(value * 10) / 10;
}

function place() {
  const { box, image, scale, x, y } = view;
  image.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
  image.classList.toggle("pixels", scale >= 3);
  for (const mark of view.marks) {
    const style = mark.node.style;
    style.left = `${x + mark.x * scale}px`;
    style.top = `${y + mark.y * scale}px`;
    if (mark.w !== undefined) {
      style.width = `${mark.w * scale}px`;
      style.height = `${mark.h * scale}px`;
    } else if (mark.to !== undefined) {
      const dx = (mark.to.x - mark.x) * scale, dy = (mark.to.y - mark.y) * scale;
      style.width = `${Math.hypot(dx, dy)}px`;
      style.transform = `rotate(${Math.atan2(dy, dx)}rad)`;
    }
  }
  box.classList.toggle("unmarked", !showMarks);
  box.classList.toggle("unboxed", !showBoxes);
  if (byId("zoom")) byId("zoom").value = `${Math.round(scale * 100)} %`;
}

function fit() {
  if (view === null) return;
  const { clientWidth, clientHeight } = view.box;
  const room = (size) => Math.max(size - 2 * MARGIN, 1);
  view.scale = Math.min(room(clientWidth) / view.width, room(clientHeight) / view.height, 3);
  view.x = (clientWidth - view.width * view.scale) / 2;
  view.y = (clientHeight - view.height * view.scale) / 2;
  view.fitted = true;
  place();
}

// Zoom by a factor around a point of the window, its centre without one.
function zoom(factor, atX = view?.box.clientWidth / 2, atY = view?.box.clientHeight / 2) {
  if (view === null) return;
  const scale = Math.min(MOST, Math.max(LEAST, view.scale * factor));
  view.x = atX - (atX - view.x) * (scale / view.scale);
  view.y = atY - (atY - view.y) * (scale / view.scale);
  view.scale = scale;
  view.fitted = false;
  place();
}

function pan(dx, dy) {
  if (view === null) return;
  // Some of the picture stays in sight.
  const keep = (at, size, room) => Math.min(room - 24, Math.max(24 - size, at));
  view.x = keep(view.x + dx, view.width * view.scale, view.box.clientWidth);
  view.y = keep(view.y + dy, view.height * view.scale, view.box.clientHeight);
  view.fitted = false;
  place();
}

function drag(event) {
  if (event.button !== 0) return;
  const box = event.currentTarget;
  box.setPointerCapture(event.pointerId);
  let { clientX, clientY } = event;
  const move = (at) => {
    pan(at.clientX - clientX, at.clientY - clientY);
    ({ clientX, clientY } = at);
  };
  box.addEventListener("pointermove", move);
  box.addEventListener("lostpointercapture", () => box.removeEventListener("pointermove", move), { once: true });
}

function toggleMarks() {
  showMarks = !showMarks;
  byId("marks")?.setAttribute("aria-pressed", showMarks);
  if (view !== null) place();
}

function toggleBoxes() {
  showBoxes = !showBoxes;
  byId("boxes")?.setAttribute("aria-pressed", showBoxes);
  if (view !== null) place();
}

// Candidate and markers that belong together light up together.
function highlight(index, on) {
  for (const node of byId("item").querySelectorAll("[data-index]")) {
    if (!node.classList.contains("element")) node.classList.toggle("lit", on && Number(node.dataset.index) === index);
  }
}
