// A server shows this page in place of any that is missing, however deep: the site is the nearest folder above that has
// its style. A server may answer with a page for whatever is missing, so the kind of the answer counts too.
(() => {
  let folder = location.pathname;
  while (location.protocol !== "file:" && (folder = folder.replace(/[^/]*\/?$/, ""))) {
    const asked = new XMLHttpRequest();
    asked.open("HEAD", `${folder}site.css`, false); // the styles below wait for this
    try {
      asked.send();
    } catch {
      break;
    }
    if (asked.status === 200 && (asked.getResponseHeader("content-type") ?? "").includes("css")) {
      const base = document.createElement("base");
      base.href = folder;
      document.head.prepend(base);
      return;
    }
    folder = folder.replace(/\/$/, "");
  }
})();
