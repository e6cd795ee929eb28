// Small tools for the page. Data becomes text only, never markup.

export const $ = (id) => document.getElementById(id);

/** Sets the text if it changed, so that a selection in it survives. */
export function setText(node, text) {
  if (node.textContent !== String(text)) {
    node.textContent = text;
  }
}

/** An element with a class and text or children. */
export function make(tag, className, ...content) {
  const node = document.createElement(tag);
  if (className) {
    node.className = className;
  }
  node.append(...content);
  return node;
}

export const clone = (templateId) => $(templateId).content.firstElementChild.cloneNode(true);

/** Makes `parent` hold one child an item, in order. A child that stays is kept, and so is the focus in it. */
export function keyed(parent, items, keyOf, create, update) {
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const wanted = new Set(items.map((item) => String(keyOf(item))));
  const kept = new Map();
  for (const child of [...parent.children]) {
    if (wanted.has(child.dataset.key)) {
      kept.set(child.dataset.key, child);
    } else {
      child.remove();
    }
  }
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    const child = kept.get(key) ?? create(item);
    child.dataset.key = key;
    if (child === place) {
      place = place.nextElementSibling;
    } else {
      parent.insertBefore(child, place);
    }
    update(child, item);
  }
  if (focused && focused.isConnected && document.activeElement !== focused) {
    focused.focus({ preventScroll: true });
  }
}

/** Fills a select with the partitions 0 to count - 1 behind a first choice; keeps what is chosen. */
export function offerPartitions(select, count, first) {
  if (select.length === count + 1) {
    return;
  }
  const chosen = select.value;
  const options = [new Option(first, "")];
  for (let partition = 0; partition < count; partition++) {
    options.push(new Option(String(partition), String(partition)));
  }
  select.replaceChildren(...options);
  select.value = chosen && Number(chosen) < count ? chosen : "";
}
