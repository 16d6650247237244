// Shows a run while it changes. `address` has a run token, and `show` gets the run as JSON at each change, or null when
// the token has expired. A broken connection is opened again by the browser. Returns a function that stops it.
export function watchRun(address, show) {
  const source = new EventSource(address);
  source.addEventListener("run", ({ data }) => show(JSON.parse(data)));
  source.addEventListener("end", () => source.close());
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) show(null);
  });
  return () => source.close();
}

// What a user reads about a run.
export function describeRun(run) {
  if (run === null) return "This page can no longer follow the export. Load it again.";
  switch (run.status) {
    case "queued": return "The export begins soon.";
    case "running": return run.progress_message || "The export runs.";
    case "failed": return "Something went wrong. The export is tried again.";
    case "succeeded": return "The export is ready.";
    default: return "The export has failed. We have received a report.";
  }
}
