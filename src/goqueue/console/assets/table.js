// A table of any length: rows far from what is seen are not built. Sorts, filters, keeps the focus while it refreshes.

import { h, put, setText } from "./dom.js";

const WHOLE_MAX = 120; // shorter tables are built whole
const SPARE = 12; // rows built above and below what is seen

/**
 * columns: [{name, label, num, text(row), cell(row), sort(row), wide}]; key(row); href(row) makes the first column a link, which a click anywhere on the row follows.
 * onOpen(row) opens a row by click or Enter instead. `load(index)` is called for rows that are holes.
 */
export class Table {
  constructor({ label, columns, key, href, onOpen, empty, sort, rowPx = 34, height = "", load, className = "" }) {
    Object.assign(this, { columns, key, href, onOpen, rowPx, load, emptyState: empty });
    this.rows = [];
    this.all = [];
    this.sorted = sort ?? null; // [name, 1 or -1]
    this.built = new Map();
    this.heads = h("tr", null, columns.map((one) => this.headCell(one)));
    this.body = h("tbody");
    this.table = h("table", { "aria-label": label, class: className }, h("thead", null, this.heads), this.body);
    this.node = h("div.scroll", { tabindex: "0", role: "region", "aria-label": label, class: height }, this.table);
    this.node.addEventListener("scroll", () => this.soon(), { passive: true });
    this.node.addEventListener("keydown", (event) => this.step(event));
  }

  headCell(one) {
    const cell = h("th", { scope: "col", class: `${one.num ? "n" : ""} ${one.className ?? ""}` });
    if (!one.sort) {
      cell.append(one.label);
      return cell;
    }
    const by = h("button", { type: "button", onclick: () => this.sortBy(one.name) }, one.label);
    cell.append(by);
    if (this.sorted?.[0] === one.name) {
      cell.setAttribute("aria-sort", this.sorted[1] > 0 ? "ascending" : "descending");
    }
    return cell;
  }

  sortBy(name) {
    const column = this.columns.find((one) => one.name === name);
    const first = column.num ? -1 : 1;
    this.sorted = [name, this.sorted?.[0] === name ? -this.sorted[1] : first];
    put(this.heads, this.columns.map((one) => this.headCell(one)));
    this.heads.querySelector(`[aria-sort] button`)?.focus();
    this.show(this.all);
  }

  /** All rows, in their own order if no column was chosen. A hole (undefined) is loaded when it is seen. */
  show(rows, selected = this.selected) {
    this.all = rows;
    this.selected = selected;
    this.rows = rows;
    if (this.sorted) {
      const column = this.columns.find((one) => one.name === this.sorted[0]);
      const by = this.sorted[1];
      this.rows = rows.map((row) => [column.sort(row), row])
        .sort(([a], [b]) => (a < b ? -by : a > b ? by : 0)).map(([, row]) => row);
    }
    this.draw();
    return this;
  }

  soon() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = undefined;
      this.draw();
    });
  }

  draw() {
    const total = this.rows.length;
    this.table.setAttribute("aria-rowcount", total + 1);
    if (!total) {
      this.built.clear();
      put(this.body, h("tr.none", null, h("td", { colspan: this.columns.length }, this.emptyState ?? "Nothing here.")));
      return;
    }
    let [first, last] = [0, total];
    if (total > WHOLE_MAX) {
      const seen = Math.ceil((this.node.clientHeight || 800) / this.rowPx);
      first = Math.max(0, Math.min(total - seen, Math.floor(this.node.scrollTop / this.rowPx)) - SPARE);
      last = Math.min(total, first + seen + 2 * SPARE);
    }
    this.fill(first, last, total);
  }

  fill(first, last, total) {
    const focused = document.activeElement?.closest?.("tr")?.dataset.key;
    const inside = this.body.contains(document.activeElement);
    const kept = new Map();
    const shown = [];
    for (let index = first; index < last; index += 1) {
      const row = this.rows[index];
      if (row === undefined) {
        this.load?.(index);
        shown.push(h("tr", null, h("td.muted", { colspan: this.columns.length }, "…")));
        continue;
      }
      const key = String(this.key(row));
      const line = this.built.get(key) ?? this.newRow(row, key);
      this.update(line, row, index);
      kept.set(key, line);
      shown.push(line.node);
    }
    this.built = kept;
    const pad = (rows, name) => (rows > 0 ? [h("tr.pad", { "aria-hidden": "true", class: name }, tall(h("td", { colspan: this.columns.length }), rows * this.rowPx))] : []);
    const wanted = [...pad(first, "above"), ...shown, ...pad(total - last, "below")];
    if (wanted.length !== this.body.children.length || wanted.some((one, at) => this.body.children[at] !== one)) {
      this.body.replaceChildren(...wanted);
      if (inside && focused !== undefined && document.activeElement?.closest("tr")?.dataset.key !== focused) {
        (kept.get(focused)?.node.querySelector("a, button") ?? kept.get(focused)?.node)?.focus({ preventScroll: true });
      }
    }
  }

  newRow(row, key) {
    const cells = this.columns.map((one) => h("td", { class: `${one.num ? "n" : ""} ${one.className ?? ""}` }));
    const node = h("tr", { "data-key": key }, cells);
    if (this.onOpen) {
      node.tabIndex = 0;
      node.classList.add("opens");
      node.addEventListener("click", (event) => event.target.closest("a, button") ?? this.onOpen(node.row));
    } else if (this.href) {
      node.classList.add("follows");
      node.addEventListener("click", (event) => event.target.closest("a, button") ?? this.follow(node.row));
    }
    return { node, cells, shown: [] };
  }

  /** Text that is being selected in the row is no wish to go. */
  follow(row) {
    if (String(getSelection()) === "") {
      location.hash = this.href(row);
    }
  }

  update(line, row, index) {
    line.node.row = row;
    line.node.setAttribute("aria-rowindex", index + 2);
    if (this.onOpen) {
      line.node.toggleAttribute("data-selected", this.selected === line.node.dataset.key);
    }
    this.columns.forEach((one, at) => {
      const cell = line.cells[at];
      if (one.cell) {
        if (line.shown[at] !== row) {
          put(cell, one.cell(row));
          line.shown[at] = row;
        }
        return;
      }
      const text = one.text(row);
      if (at === 0 && this.href) {
        if (!cell.firstChild) {
          cell.append(h("a", { href: this.href(row) }));
        }
        setText(cell.firstChild, text);
      } else {
        setText(cell, text);
      }
    });
  }

  step(event) {
    const row = event.target.closest("tbody tr");
    if (event.key === "Enter" && row && this.onOpen && event.target === row) {
      this.onOpen(row.row);
    } else if (row && (event.key === "ArrowDown" || event.key === "ArrowUp") && !event.target.matches("input, select")) {
      const next = event.key === "ArrowDown" ? row.nextElementSibling : row.previousElementSibling;
      if (next && !next.classList.contains("pad")) {
        event.preventDefault();
        (next.querySelector("a") ?? next).focus();
      }
    }
  }
}

function tall(node, px) {
  node.style.height = `${px}px`;
  return node;
}
