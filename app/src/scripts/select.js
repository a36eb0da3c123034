// Row selection: count, whole page, ranges. Checkboxes and form are rendered by the server and work without this
// script. Nothing moves a row: the form is below the list and is visible while something is selected.
(() => {
  let form, status, count, page, all;
  let last = null;
  // A refresh may add or remove the list.
  const find = () => {
    form = document.getElementById("selection");
    status = document.getElementById("selection-status");
    count = form?.querySelector(".selection-count");
    page = document.querySelector("[data-select-page]");
    all = form?.elements.all;
    if (last?.form !== form) last = null;
    show();
  };
  const boxes = () => (form ? [...form.elements].filter((it) => it.name === "id") : []);
  const show = () => {
    if (!form) return;
    const rows = boxes();
    const ticked = rows.filter((box) => box.checked).length;
    const whole = ticked > 0 && ticked === rows.length;
    if (all) {
      all.checked &&= whole;
      all.closest("label").hidden = !whole;
    }
    if (page) {
      page.checked = whole;
      page.indeterminate = ticked > 0 && !whole;
    }
    const text = all?.checked ? "All selected" : ticked ? `${ticked} selected` : "";
    count.textContent = text;
    if (status.textContent !== text) status.textContent = text;
    form.hidden = ticked === 0;
  };
  document.addEventListener("click", (event) => {
    const box = event.target;
    if (!form || box.form !== form || box.name !== "id") return;
    const rows = boxes();
    const [from, to] = [rows.indexOf(last), rows.indexOf(box)].sort((a, b) => a - b);
    if (event.shiftKey && from >= 0) for (const between of rows.slice(from, to)) between.checked = box.checked;
    last = box;
  });
  // Shift selects a range of rows, not text.
  document.addEventListener("mousedown", (event) => {
    if (event.shiftKey && event.target.closest?.(".pick")) event.preventDefault();
  });
  document.addEventListener("change", ({ target }) => {
    if (target === page) for (const box of boxes()) box.checked = page.checked;
    if (form && (target === page || target.form === form)) show();
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || !form || form.hidden) return;
    if (event.target.closest?.("dialog, textarea, select, input:not([type=checkbox])")) return;
    const lost = form.contains(document.activeElement) && (last ?? boxes()[0]);
    for (const box of boxes()) box.checked = false;
    last = null;
    show();
    if (lost) lost.focus();
  });
  addEventListener("pageshow", show);
  document.addEventListener("treeline:refreshed", find);
  find();
})();
