// What the pages of imports do beside their forms. A choice that changes how a file is read shows its first rows again; the
// button that does so without scripts is not needed then. A file that is dropped where nothing takes it does not replace the
// page: the upload opens instead.
(() => {
  const form = document.querySelector("form[data-review]");
  const again = () => {
    const asked = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      if (typeof value !== "string" || name === "checked" || name.startsWith("from-")) continue;
      // Of the columns only what was chosen otherwise than suggested: a file may have many.
      const field = form.elements[name];
      if (field.dataset?.column === undefined || field.dataset.column !== value) asked.set(name, value);
    }
    history.replaceState(null, "", `/imports/new?${asked}`);
    document.dispatchEvent(new Event("treeline:refresh"));
  };
  form?.addEventListener("change", (event) => event.target.matches("[data-preview], [data-column]") && again());

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
