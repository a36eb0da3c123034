// Hydrates the islands. A page is complete without them: if the module fails to load or takes too long, the page
// shows that it is not live and stays as the server rendered it.
((js, wasm) => {
  const root = document.documentElement;
  const failed = (why) => {
    if (root.dataset.islands === "ready") return;
    root.dataset.islands = "failed";
    console.warn("Treeline: the live part of this page did not start.", why);
  };
  // Timers of a hidden tab run once a second, so it does not yield.
  const nextTask = () => (document.hidden ? Promise.resolve() : new Promise((go) => setTimeout(go)));
  const wake = async (module, fetched) => {
    await module.default({ module_or_path: fetched });
    await nextTask();
    module.hydrate();
    const islands = [];
    const walk = (node, above) => {
      for (const child of node.children) {
        if (child.localName === "leptos-island") {
          islands.push([child, above]);
          walk(child, above);
        } else {
          walk(child, child.localName === "leptos-children" ? child : above);
        }
      }
    };
    walk(document.body, null);
    const waking = [];
    for (const [child, above] of islands) {
      // One island per task, so that a click or a key never waits for all of them.
      await nextTask();
      above?.$$on_hydrate?.();
      const island = module[child.dataset.component];
      if (island) waking.push(island(child));
    }
    await Promise.all(waking);
    root.dataset.islands = "ready";
  };
  const start = () => {
    const loadTimeout = setTimeout(failed, 20000, "It took more than 20 s to load.");
    // Loaded in parallel with the script. A <link rel=preload> would also load it where scripts are disabled.
    const fetched = fetch(wasm);
    fetched.catch(failed);
    import(js).then((module) => wake(module, fetched)).then(() => clearTimeout(loadTimeout)).catch(failed);
  };
  // After the first paint with its fonts, which need the connection first. A hidden tab does not paint.
  const frame = () => new Promise((go) => requestAnimationFrame(go));
  const later = async () => {
    if (!document.hidden) await Promise.race([document.fonts.ready.then(frame).then(frame).then(nextTask), new Promise((go) => setTimeout(go, 1000))]);
    start();
  };
  if (document.readyState === "complete") later();
  else addEventListener("load", later, { once: true });
})
