// Keyboard shortcuts. They are disabled in fields, in open dialogs and with modifiers, and if the reader has switched
// them off.
(() => {
  const places = { o: "/", i: "/imports", j: "/jobs", d: "/dead", b: "/bulk", s: "/schedules", w: "/workers", t: "/types" };
  const dialog = document.getElementById("keys");
  const off = document.getElementById("keys-off");
  let going = -Infinity;
  const stored = (value) => {
    try {
      if (value !== undefined) localStorage.setItem("treeline_keys", value);
      return localStorage.getItem("treeline_keys");
    } catch {
      return null;
    }
  };
  off?.addEventListener("change", () => stored(off.checked ? "off" : "on"));
  const show = () => {
    if (!dialog || dialog.open) return;
    // Read here, because the first access to the storage takes milliseconds.
    off.checked = stored() === "off";
    dialog.showModal();
  };
  document.getElementById("keys-link")?.addEventListener("click", (event) => {
    if (!dialog || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    show();
  });
  const move = (by) => {
    const rows = [...document.querySelectorAll("main tbody th[scope=row] a, main .card-link")].filter((row) => row.checkVisibility());
    const here = document.activeElement;
    const at = rows.findIndex((row) => row === here || row.closest("tr")?.contains(here));
    const row = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)];
    row?.focus();
    row?.scrollIntoView({ block: "nearest" });
  };
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const target = event.target;
    // A closed dialog keeps the focus until the next frame.
    const writes = target.isContentEditable || target.closest?.("input:not([type=checkbox]), textarea, select, dialog[open]");
    if (writes) {
      if (event.key === "Escape" && target.id === "filter") target.blur();
      return;
    }
    if (stored() === "off") return;
    const went = event.timeStamp - going < 1500;
    going = -Infinity;
    if (went && places[event.key]) {
      event.preventDefault();
      location.assign(places[event.key]);
    } else if (event.key === "g") {
      going = event.timeStamp;
    } else if (event.key === "?") {
      event.preventDefault();
      show();
    } else if (event.key === "/") {
      const filter = document.getElementById("filter");
      if (!filter) return;
      event.preventDefault();
      filter.focus();
      filter.select();
    } else if (event.key === "x" || event.key === "X") {
      // Same as a click on the row's checkbox; Shift selects the range from the last one.
      const box = target.closest?.("tr")?.querySelector("input[name=id]");
      if (!box) return;
      event.preventDefault();
      box.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, shiftKey: event.key === "X" }));
    } else if (event.key === "j" || event.key === "k") {
      // In a tree, the arrow keys move and letters belong to the tree.
      if (target.closest?.("[role=treegrid]")) return;
      event.preventDefault();
      move(event.key === "j" ? 1 : -1);
    }
  });
})();
