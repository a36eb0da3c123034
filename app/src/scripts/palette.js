// Command palette on Ctrl-K or Cmd-K: search as you type, and the pages of the sidebar. Names are untrusted: they are
// set as text, and only URLs of this site are followed.
(() => {
  const palette = document.getElementById("palette");
  if (!palette) return;
  const input = palette.querySelector("input");
  const list = palette.querySelector("ul");
  const text = window.treelineText;
  const headings = { jobs: "script-found-jobs", items: "script-found-items", errors: "script-found-errors", uploads: "script-found-uploads", workers: "script-found-workers", job_types: "script-found-types", schedules: "script-found-schedules", views: "script-found-views", bulk_operations: "script-found-operations", people: "script-found-people", services: "script-found-services" };
  const pages = [...document.querySelectorAll(".side .nav-link, #account-menu a")].map((link) => ({
    title: link.textContent.trim(),
    path: link.getAttribute("href"),
  }));
  let chosen = 0;
  // The list is of earlier words; Enter waits for its successor.
  let isOutdated = false;
  let isEntered = false;
  let latestRequest = 0;
  const options = () => [...list.querySelectorAll("[role=option]")];
  const element = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const choose = (at) => {
    const all = options();
    chosen = all.length ? (at + all.length) % all.length : 0;
    all.forEach((option, n) => option.setAttribute("aria-selected", String(n === chosen)));
    if (all[chosen]) {
      input.setAttribute("aria-activedescendant", all[chosen].id);
      all[chosen].scrollIntoView({ block: "nearest" });
    } else {
      input.removeAttribute("aria-activedescendant");
    }
  };
  const go = (path) => {
    if (!/^\/(?!\/)/.test(path)) return;
    palette.close();
    location.assign(path);
  };
  const draw = (groups, note) => {
    list.replaceChildren();
    for (const { heading, hits } of groups) {
      const head = element("li", "menu-head", heading);
      head.setAttribute("role", "presentation");
      list.append(head);
      for (const hit of hits) {
        const option = element("li", "menu-item row");
        option.setAttribute("role", "option");
        option.id = `palette-${list.childElementCount}`;
        option.dataset.path = hit.path;
        option.append(element("span", "clip", hit.title));
        if (hit.detail) option.append(element("span", "end", hit.detail));
        list.append(option);
      }
    }
    if (note) {
      const noteItem = element("li", "menu-head", note);
      noteItem.setAttribute("role", "presentation");
      list.append(noteItem);
    }
    choose(0);
    isOutdated = false;
    if (isEntered && palette.open) enter();
  };
  const enter = () => {
    isEntered = isOutdated;
    const option = options()[chosen];
    if (option && !isOutdated) go(option.dataset.path);
  };
  const show = async () => {
    const words = input.value.trim();
    const request = (latestRequest += 1);
    const here = pages.filter(({ title }) => title.toLowerCase().includes(words.toLowerCase()));
    const goTo = here.length ? [{ heading: text("script-go-to"), hits: here }] : [];
    if (!words) return draw(goTo);
    const all = { heading: text("script-search"), hits: [{ title: text("script-search-all", { words }), path: `/search?q=${encodeURIComponent(words)}` }] };
    let found = [];
    let note = "";
    try {
      const answer = await fetch(`/api/v1/search?q=${encodeURIComponent(words)}`, { headers: { accept: "application/json" } });
      if (!answer.ok) throw new Error(String(answer.status));
      found = (await answer.json()).groups.map(({ kind, hits }) => ({ heading: headings[kind] ? text(headings[kind]) : kind, hits: hits.slice(0, 5) }));
      if (!found.length && !goTo.length) note = text("script-search-none");
    } catch {
      note = text("script-search-failed");
    }
    if (request === latestRequest) draw([...found, ...goTo, all], note);
  };
  let wait;
  input.addEventListener("input", () => {
    clearTimeout(wait);
    isOutdated = true;
    isEntered = false;
    wait = setTimeout(show, 120);
  });
  palette.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Escape") {
      // Escape would empty a search field first.
      event.preventDefault();
      palette.close();
    } else if (event.key === "Enter") {
      event.preventDefault();
      enter();
    }
  });
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) go(option.dataset.path);
  });
  palette.addEventListener("click", (event) => event.target === palette && palette.close());
  addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    if (document.querySelector("dialog[open]:not(#palette)")) return;
    event.preventDefault();
    if (palette.open) return palette.close();
    palette.showModal();
    input.select();
    isEntered = false;
    show();
  });
  if (/Mac|iPhone|iPad/.test(navigator.platform)) for (const key of document.querySelectorAll("#shell-search .keys kbd")) key.textContent = "\u2318K";
})();
