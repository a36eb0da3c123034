// What the pages of imports do beside their forms. The rows of a file are checked and shown again by the form itself, sent
// in the background: a choice that changes how the file is read shows its rows at once, and a file that was too large to be
// checked with the page is checked then. Cells move like those of a sheet. A file that is dropped where nothing takes it does
// not replace the page: the upload opens instead.
(() => {
  const form = document.querySelector("form[data-review]");
  let wish = "show";
  let fix = "";
  let check = null;
  let stopped = false;

  // The address has what was chosen, not what was typed in cells: a reload reads the file the same way.
  const remember = () => {
    const asked = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      if (typeof value !== "string" || /^(do|checked|edits|edited-sheet)$|^(from|row|cell|out|fill|column)-\d/.test(name)) continue;
      // Of the columns only what was chosen otherwise than suggested: a file may have many.
      const suggested = form.elements[name].dataset?.column;
      if (suggested === undefined ? value : suggested !== value) asked.set(name, value);
    }
    history.replaceState(null, "", `/imports/new?${asked}`);
  };
  const say = (text) => {
    const status = document.getElementById("checking") ?? document.getElementById("rows-summary");
    if (status) status.textContent = text;
  };
  /** The button that checks a file stops its check while it is under way. */
  const offer = (stop) => {
    const button = document.getElementById("check-all");
    if (!button) return;
    button.value = stop ? "stop" : "check";
    button.textContent = treelineText(stop ? "script-stop" : "script-check-all");
  };
  /** Shows the rows again, or checks all of them. What is under way is ended: its answer would be out of date. */
  const again = (next) => {
    wish = next;
    stopped = false;
    if (next === "check") {
      say(treelineText("script-checking"));
      offer(true);
    }
    remember();
    check?.abort();
    document.dispatchEvent(new Event("treeline:refresh"));
  };
  /** Puts proposed texts in their cells: what was typed there gives way. The server does the same, also in rows without fields. */
  const propose = (button) => {
    fix = button.value;
    const [which, column] = fix.split("-");
    for (const one of which === "out" ? [] : form.querySelectorAll("button[name=fix][data-text]")) {
      const [line, place] = one.value.split("-");
      const cell = form.elements[`cell-${line}-${place}`];
      if (cell && place === column && (which === "all" || which === line)) cell.value = one.dataset.text;
    }
  };
  /** A file that was not checked yet is checked behind its first rows. */
  const checkUnchecked = () => {
    if (document.getElementById("unchecked")) again("check");
  };

  if (form) {
    // The page's own refresh sends the form instead of fetching the address.
    document.addEventListener("treeline:refreshing", ({ detail }) => {
      check = new AbortController();
      const body = new URLSearchParams(new FormData(form));
      body.set("do", wish);
      if (fix) body.set("fix", fix);
      fix = "";
      Object.assign(detail, { url: form.action, within: form.closest("main"), init: { method: "POST", body, signal: check.signal } });
      form.setAttribute("aria-busy", "true");
    });
    document.addEventListener("treeline:refreshed", ({ detail }) => {
      form.removeAttribute("aria-busy");
      if (detail?.failed) {
        say(treelineText(stopped ? "script-check-stopped" : "script-check-failed"));
        offer(false);
      } else if (wish === "show") checkUnchecked();
      wish = "show";
    });
    form.addEventListener("change", ({ target }) => target.matches("[data-preview], [data-column]") && again("show"));
    form.addEventListener("submit", (event) => {
      const button = event.submitter;
      if (button?.name === "use_header_row") {
        form.elements.header_row.value = button.value;
        form.elements.header.value = "yes";
        again("show");
      } else if (button?.name === "do" && button.value === "stop") {
        stopped = true;
        check?.abort();
      } else if (button?.name === "fix") {
        propose(button);
        again("check");
      } else if (button?.name === "do" && button.value !== "problems") again(button.value);
      else return;
      event.preventDefault();
    });

    const cells = "tbody :is(input[type=text], textarea)";
    const shown = (cell) => cell.offsetParent !== null;
    const go = (cell) => {
      cell?.focus();
      cell?.select();
    };
    /** The next cell in this direction: in the same column, or the next problem of any column. */
    const next = (cell, step, wanted) => {
      const all = [...form.querySelectorAll(cells)].filter((other) => other === cell || (shown(other) && wanted(other)));
      return all[all.indexOf(cell) + step];
    };
    const column = (cell) => cell.name.split("-")[2];
    let before = "";
    form.addEventListener("focusin", ({ target }) => {
      if (target.matches(cells)) before = target.value;
    });
    form.addEventListener("keydown", (event) => {
      const cell = event.target;
      if (!cell.matches(cells) || event.isComposing || event.ctrlKey || event.metaKey) return;
      const vertical = { ArrowDown: 1, ArrowUp: -1, Enter: event.shiftKey ? -1 : 1 }[event.key];
      const sideways = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") {
        cell.value = cell.value === before ? (cell.dataset.file ?? cell.defaultValue) : before;
      } else if (vertical && event.altKey) {
        go(next(cell, vertical, (other) => other.ariaInvalid === "true"));
      } else if (vertical && (event.key === "Enter" || cell.localName === "input")) {
        go(next(cell, vertical, (other) => column(other) === column(cell)));
      } else if (sideways && !event.altKey && !event.shiftKey) {
        // Only from the end of the text: within it the arrows are the caret's.
        const whole = cell.selectionStart === 0 && cell.selectionEnd === cell.value.length;
        const end = sideways > 0 ? cell.value.length : 0;
        if (!whole && (cell.selectionStart !== end || cell.selectionEnd !== end)) return;
        go(next(cell, sideways, () => true));
      } else return;
      event.preventDefault();
    });
    if (document.readyState === "complete") checkUnchecked();
    else addEventListener("load", checkUnchecked, { once: true });
  }

  if (!/^\/imports(\/|$)/.test(location.pathname)) return;
  const files = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => files(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!files(event)) return;
    event.preventDefault();
    const field = document.getElementById("file");
    // What lives takes the file by itself.
    if (field && document.documentElement.dataset.islands === "ready") return;
    if (field) {
      field.files = event.dataTransfer.files;
      field.form.requestSubmit();
    } else if (!form && !location.pathname.endsWith("/correct")) location.assign("/imports/new");
  });
})();
