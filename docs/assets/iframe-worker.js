// Browsers start no workers for pages opened from files, so the search runs in a hidden frame there.
if (window.location.protocol === "file:") {
  const load = (frame, url) =>
    new Promise((loaded) => {
      const script = frame.contentDocument.createElement("script");
      script.src = new URL(url, window.location);
      script.onload = loaded;
      frame.contentDocument.body.appendChild(script);
    });
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inner = this.frame.contentWindow;
      inner.importScripts = async (...urls) => {
        for (const each of urls) await load(this.frame, each);
      };
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = load(this.frame, url);
    }
    async postMessage(data) {
      await this.ready;
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }
  };
  window.Worker = window.IFrameWorker;
}
