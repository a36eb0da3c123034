// Notifications of the browser about notices, if the person turned them on and the browser permits them. `topics.js`
// receives the list while the page is visible; a tag makes several tabs show each notice once. Runs on every page.
(() => {
  const box = document.querySelector("#notice-form input[name=browser]");
  const hint = document.querySelector("[data-browser-notices]");
  const say = () => {
    if (!hint) return;
    const words = {
      none: "This browser has no notifications.",
      denied: "This browser blocks notifications of this site. Allow them in its settings.",
      default: "The browser asks for your permission.",
    }[window.Notification?.permission ?? "none"];
    hint.textContent = words ?? "";
    hint.hidden = !words;
  };
  say();
  // Browsers ask only after an action of the person.
  box?.addEventListener("change", () => box.checked && window.Notification?.requestPermission().then(say));

  const what = ({ kind, outcome, dead }) => {
    const text = window.treelineText;
    if (kind === "needs_attention") return dead ? text("script-notice-attention", { n: dead }) : text("script-notice-answer");
    if (outcome === "cancelled") return text("script-notice-canceled");
    if (outcome === "failed") return text("script-notice-failed");
    return dead ? text("script-notice-partial", { n: dead }) : text("script-notice-completed");
  };

  const seen = new Set();
  let wanted = false;
  /** Shows unread notices that were not in an earlier list. A list that is `old` is only remembered. */
  const receive = (list, old) => {
    wanted = list.browser && window.Notification?.permission === "granted";
    const fresh = list.data.filter(({ id, read_at }) => !read_at && !seen.has(id));
    for (const { id } of list.data) seen.add(id);
    if (old || !wanted) return;
    for (const notice of fresh) {
      let shown;
      try {
        shown = new Notification(notice.job_name, { body: what(notice), tag: notice.id });
      } catch {
        // Android has notifications of service workers only.
        return;
      }
      shown.onclick = () => {
        window.focus();
        location.assign(`/${notice.is_import ? "imports" : "jobs"}/${notice.job_id}`);
      };
    }
  };
  document.addEventListener("treeline:notices", ({ detail: { list, kind } }) => receive(list, kind === "snapshot"));

  // Hidden pages have no stream, so one of them keeps one for the notices.
  let background = null;
  const leave = () => {
    background?.abort();
    background = null;
  };
  document.addEventListener("visibilitychange", () => {
    leave();
    if (!document.hidden || !wanted || !navigator.locks) return;
    background = new AbortController();
    const { signal } = background;
    const follow = () =>
      new Promise((over) => {
        if (signal.aborted) return over();
        let stream;
        let timer;
        let pause = 1_000;
        const open = () => {
          stream = new EventSource("/api/v1/events?topics=notices");
          for (const kind of ["snapshot", "change"]) {
            stream.addEventListener(kind, ({ data }) => {
              pause = 1_000;
              receive(JSON.parse(data), false);
            });
          }
          // The server refused, as while it restarts: the browser does not come back by itself.
          stream.onerror = () => {
            if (stream.readyState !== EventSource.CLOSED) return;
            timer = setTimeout(open, pause * (0.5 + Math.random()));
            // Longer and longer: the reader may also have signed out.
            pause = Math.min(2 * pause, 600_000);
          };
        };
        open();
        signal.addEventListener("abort", () => {
          clearTimeout(timer);
          stream.close();
          over();
        });
      });
    navigator.locks.request("treeline-notices", { signal }, follow).catch(() => {});
  });
  addEventListener("pagehide", leave);
})();
