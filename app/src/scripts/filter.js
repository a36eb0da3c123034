// Autocompletion of the filter: the names that the list supports, then known values. The field carries both, derived
// from the filter language. Without this script it is an ordinary field.
(() => {
  const field = document.getElementById("filter");
  if (!field?.dataset.names) return;
  const names = JSON.parse(field.dataset.names);
  // A name that would not parse as one word is quoted.
  const quoted = (word) => (/^[\w/][\w/-]*(\.[\w/-]+)*$/.test(word) ? word : `"${word.replace(/["\\]/g, "\\$&")}"`);
  const options = document.querySelectorAll(".filter select[name=type] option");
  const types = [...options].flatMap(({ value }) => (value ? [quoted(value)] : []));

  const list = document.createElement("ul");
  list.id = "filter-options";
  list.className = "options";
  list.role = "listbox";
  list.ariaLabel = "Suggestions";
  list.hidden = true;
  field.after(list);
  field.type = "text";
  for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"], ["aria-controls", list.id], ["aria-expanded", "false"]]) {
    field.setAttribute(name, value);
  }

  /** What is being written, and what it could become; `from` to `to` is what would be replaced. */
  const look = () => {
    const text = field.value;
    const caret = field.selectionStart;
    let [word, inside] = [0, false];
    for (let at = 0; at < caret; at += 1) {
      if (text[at] === '"' && text[at - 1] !== "\\") inside = !inside;
      else if (!inside && /\s/.test(text[at])) word = at + 1;
    }
    const rest = /^[^\s,"]*/.exec(text.slice(caret))[0].length;
    let from = word + (text[word] === "-" ? 1 : 0);
    const colon = text.indexOf(":", from);
    const named = colon >= 0 && colon < caret;
    let found;
    if (inside || caret < from) {
      found = [];
    } else if (named) {
      const name = text.slice(from, colon);
      from = Math.max(colon, text.lastIndexOf(",", caret - 1)) + 1;
      const values = name === "type" ? types : (names.find((it) => it.name === name)?.values ?? []);
      found = values.map((value) => ({ value, end: " " }));
    } else {
      found = names.map(({ name, example }) => ({ value: name, end: name.endsWith(".") ? "" : ":", example }));
    }
    const typed = text.slice(from, caret).toLowerCase();
    found = found.filter(({ value }) => value.toLowerCase().startsWith(typed)).slice(0, 20);
    if (named && found.some(({ value }) => value.toLowerCase() === typed)) found = [];
    return { from, to: caret + rest, found, blank: !named && typed === "" };
  };

  let now = { found: [] };
  let active = -1;
  const activate = (at) => {
    active = at;
    [...list.children].forEach((option, nth) => option.setAttribute("aria-selected", String(nth === at)));
    const option = list.children[at];
    if (option) field.setAttribute("aria-activedescendant", option.id);
    else field.removeAttribute("aria-activedescendant");
    option?.scrollIntoView({ block: "nearest" });
  };
  const close = () => {
    list.hidden = true;
    field.setAttribute("aria-expanded", "false");
    activate(-1);
  };
  /** Offers what the word could become; of an empty one only when it is asked for. */
  const open = (explicit) => {
    now = look();
    if (!explicit && now.blank) now.found = [];
    const options = now.found.map(({ value, end, example }, at) => {
      const option = document.createElement("li");
      option.id = `filter-option-${at}`;
      option.role = "option";
      option.textContent = value + end.trim();
      if (example) {
        const hint = document.createElement("span");
        hint.className = "sub";
        hint.textContent = ` ${example}`;
        option.append(hint);
      }
      return option;
    });
    list.replaceChildren(...options);
    list.hidden = options.length === 0;
    field.setAttribute("aria-expanded", String(!list.hidden));
    activate(-1);
  };
  const take = (at) => {
    const { value, end } = now.found[at];
    const behind = field.value.slice(now.to);
    field.setRangeText(value + (end === " " && /^[\s,]/.test(behind) ? "" : end), now.from, now.to, "end");
    if (end === " ") close();
    else open(false);
  };

  field.addEventListener("input", () => open(false));
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      if (list.hidden) open(true);
      const n = now.found.length;
      if (list.hidden) return;
      activate(active < 0 ? (step > 0 ? 0 : n - 1) : (active + step + n) % n);
    } else if (list.hidden) {
      return;
    } else if (event.key === "Enter" && active >= 0) {
      take(active);
    } else if (event.key === "Tab" && !event.shiftKey && active >= 0) {
      take(active);
    } else if (event.key === "Escape") {
      close();
    } else {
      return;
    }
    event.preventDefault();
  });
  // The field keeps the focus.
  list.addEventListener("mousedown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const at = [...list.children].indexOf(event.target.closest("li"));
    if (at >= 0) take(at);
  });
})();
