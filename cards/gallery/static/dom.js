// Elements are made here and nowhere else: texts become text nodes, so that nothing in a record can become markup.

function el(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (key.startsWith("aria-")) node.setAttribute(key, String(value)); // "false" says something there
    else if (value === false) continue;
    else if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "data") Object.assign(node.dataset, value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map(
    (child) => (child instanceof Node ? child : document.createTextNode(visible(String(child))))));
  return node;
}

// Characters that would hide, reorder or blank out what stands beside them are shown by their number.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu;

function visible(text) {
  return text.replace(/\r\n/g, "\n").replace(UNSEEN, (c) => `\u27e8U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);
}

function byId(id) {
  return document.getElementById(id);
}

function chip(text, kind = "", title = null) {
  return el("span", { class: `chip ${kind}`, title }, text);
}

function plural(n, one, many = `${one}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

let toastTimer = 0;

function toast(text) {
  const node = byId("toast");
  node.replaceChildren(document.createTextNode(visible(text)));
  node.classList.add("shown");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => node.classList.remove("shown"), 4000);
}
