// The search of the site is a worker, and browsers start none from a file. Where the site is a folder of files, this runs it
// in a hidden frame. (The site's generator would load a script of this name from another host: zensical.toml names this one.)
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.body.appendChild(Object.assign(document.createElement("iframe"), { hidden: true }));
      this.inside = this.frame.contentWindow;
      this.inside.postMessage = (data) => this.onmessage?.({ data: structuredClone(data) }); // as between threads: each has its own
      const script = Object.assign(this.inside.document.createElement("script"), { src: url });
      this.ready = new Promise((loaded) => { script.onload = loaded; });
      this.inside.document.body.append(script);
    }
    postMessage(message) {
      const data = structuredClone(message);
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
