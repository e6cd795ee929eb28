// Elements without markup: data becomes text only, never HTML.

const SVG = "http:" + "//www.w3.org/2000/svg"; // a name, not an address

/** h("a.link", {href: "#/"}, "text", child, ...). Functions are listeners; false, null and undefined are left out. */
export function h(name, props, ...content) {
  const [tag, ...classes] = name.split(".");
  return filled(document.createElement(tag), classes, props, content);
}

/** The same for drawings. */
export function s(name, props, ...content) {
  const [tag, ...classes] = name.split(".");
  return filled(document.createElementNS(SVG, tag), classes, props, content);
}

function filled(node, classes, props, content) {
  if (props === null || typeof props !== "object" || props instanceof Node || Array.isArray(props)) {
    content = [props, ...content];
    props = {};
  }
  classes.forEach((one) => node.classList.add(one));
  for (const [key, value] of Object.entries(props)) {
    if (typeof value === "function") {
      node.addEventListener(key.replace(/^on/, ""), value);
    } else if (key === "class") {
      value.split(" ").filter(Boolean).forEach((one) => node.classList.add(one));
    } else if (key === "value" || key === "checked" || key === "selected") {
      node[key] = value;
    } else if (value === true) {
      node.setAttribute(key, "");
    } else if (value !== false && value !== null && value !== undefined) {
      node.setAttribute(key, value);
    }
  }
  node.append(...content.flat(3).filter((one) => one !== null && one !== undefined && one !== false && one !== ""));
  return node;
}

export const $ = (id) => document.getElementById(id);

/** Sets the text if it changed, so that a selection in it survives. */
export function setText(node, text) {
  if (node.textContent !== String(text)) {
    node.textContent = text;
  }
}

/** Replaces what is in a node. */
export function put(node, ...content) {
  node.replaceChildren(...content.flat(3).filter((one) => one !== null && one !== undefined && one !== false && one !== ""));
  return node;
}

/** What is typed in, once the typing has paused. */
export function paused(action, ms = 150) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...given), ms);
  };
}

/** Into the clipboard; where that is not allowed (no TLS), by way of a selection. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { readonly: true, "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
