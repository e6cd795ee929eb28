// Pages opened as files may start no workers: the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      const source = new URL(url, location.href).href;
      this.frame.srcdoc = `<script>var postMessage = (data) => parent.postMessage(data, "*");` +
        `var importScripts = (...urls) => Promise.all(urls.map((one) => new Promise((done) => {` +
        `const script = document.createElement("script"); script.src = new URL(one, "${source}").href;` +
        `script.onload = done; document.body.append(script); })));<\/script><script src="${source}"><\/script>`;
      this.frame.addEventListener("load", () => {
        for (const data of this.waiting) this.frame.contentWindow.postMessage(data, "*");
        this.waiting = null;
      });
      addEventListener("message", (event) => {
        if (event.source === this.frame.contentWindow) {
          const told = new MessageEvent("message", { data: event.data });
          this.dispatchEvent(told);
          if (this.onmessage) this.onmessage(told);
        }
      });
      document.body.append(this.frame);
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.frame.contentWindow.postMessage(data, "*");
    }
    terminate() {
      this.frame.remove();
    }
  };
}
