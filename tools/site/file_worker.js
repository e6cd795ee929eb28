// Pages opened as files may start no workers: the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      const source = new URL(url, location.href).href;
      // Inside, what the worker posts goes to the page, and what the page posts arrives as an event.
      this.frame.srcdoc = `<script>var hear = (data) => dispatchEvent(new MessageEvent("message", { data }));` +
        `var postMessage = (data) => parent.dispatchEvent(new CustomEvent("worker-said", { detail: [window, data] }));` +
        `var importScripts = (...urls) => Promise.all(urls.map((one) => new Promise((done) => {` +
        `const script = document.createElement("script"); script.src = new URL(one, "${source}").href;` +
        `script.onload = done; document.body.append(script); })));<\/script><script src="${source}"><\/script>`;
      this.frame.addEventListener("load", () => {
        for (const data of this.waiting) this.frame.contentWindow.hear(data);
        this.waiting = null;
      });
      addEventListener("worker-said", (event) => {
        const [from, data] = event.detail;
        if (from !== this.frame.contentWindow) return;
        // Later, as from a real worker: the page sets what it watches while it posts.
        setTimeout(() => {
          const told = new MessageEvent("message", { data: structuredClone(data) });
          this.dispatchEvent(told);
          if (this.onmessage) this.onmessage(told);
        });
      });
      document.body.append(this.frame);
    }
    postMessage(message) {
      const data = structuredClone(message); // a worker changes what it is given, and the page goes on with its own
      if (this.waiting) this.waiting.push(data);
      else setTimeout(() => this.frame.contentWindow.hear(data));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
